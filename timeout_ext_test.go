package outbound_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTimeoutsByName: each limit has its own error, says that it is a timeout, and matches the standard library's.
func TestTimeoutsByName(t *testing.T) {
	for name, err := range map[string]error{
		"outbound: connect timeout": outbound.ErrConnectTimeout,
		"outbound: attempt timeout": outbound.ErrAttemptTimeout,
		"outbound: total timeout":   outbound.ErrTotalTimeout,
		"outbound: idle timeout":    outbound.ErrIdleTimeout,
	} {
		assert.EqualError(t, err, name)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		timeout, ok := err.(interface{ Timeout() bool })
		assert.True(t, ok && timeout.Timeout(), name)
	}
	for _, err := range []error{outbound.ErrCircuitOpen, outbound.ErrAttemptsExhausted, outbound.ErrInvalidKey, outbound.ErrNotRetryable} {
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
	}
}

func TestAttemptTimeoutIsRetriedWithinTheTotal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(hangs(), answers(201))
		tr := newTransport(t, quick(base))
		resp, err := post(t, tr, t.Context())
		require.NoError(t, err)
		r := reportOf(t, resp, err)
		assert.Equal(t, 11*time.Second, r.Elapsed)
		assert.ErrorIs(t, r.Attempts[0].Err, outbound.ErrAttemptTimeout)
		assert.Equal(t, 10*time.Second, r.Attempts[0].Elapsed)
		assert.Equal(t, time.Second, r.Attempts[1].Wait)
	})
}

func TestTotalTimeoutCutsTheAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := quick(playing(hangs()))
		cfg.TotalTimeout = 15 * time.Second
		start := time.Now()
		_, err := post(t, newTransport(t, cfg), t.Context())
		require.ErrorIs(t, err, outbound.ErrTotalTimeout)
		require.ErrorIs(t, err, outbound.ErrTotalTimeout)
		assert.Equal(t, 15*time.Second, time.Since(start))
		var timeout interface{ Timeout() bool }
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
	})
}

// TestConnectTimeout goes through what a dial can hang in: the dial itself, and the TLS handshake.
func TestConnectTimeout(t *testing.T) {
	silent := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		return client, nil
	}
	blocked := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, row := range map[string]struct {
		dial func(context.Context, string, string) (net.Conn, error)
		url  string
	}{
		"dial": {blocked, "http://pay.test/"},
		"TLS":  {silent, "https://pay.test/"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var dials atomic.Int32
				base := &http.Transport{DialContext: func(ctx context.Context, n, a string) (net.Conn, error) {
					dials.Add(1)
					return row.dial(ctx, n, a)
				}}
				tr := newTransport(t, outbound.Config{Base: base, ConnectTimeout: time.Second, Retry: outbound.RetryPolicy{MaxAttempts: 2, Backoff: fixed(time.Second)}})
				defer tr.CloseIdleConnections()
				start := time.Now()
				resp, err := send(tr, newRequest(t, t.Context(), http.MethodPost, row.url, "x"))
				require.ErrorIs(t, err, outbound.ErrConnectTimeout)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, outbound.OutcomeNotSent, outbound.OutcomeOf(resp, err))
				assert.Equal(t, 3*time.Second, time.Since(start))
				assert.EqualValues(t, 2, dials.Load())
				for _, a := range reportOf(t, resp, err).Attempts {
					assert.Zero(t, a.Conns)
					assert.ErrorIs(t, a.Err, outbound.ErrConnectTimeout)
				}
			})
		})
	}
}

func TestCallersDeadlineIsNotOurs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		resp, err := post(t, newTransport(t, quick(playing(hangs()))), ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, outbound.ErrAttemptTimeout)
		require.NotErrorIs(t, err, outbound.ErrTotalTimeout)
		assert.Equal(t, 3*time.Second, time.Since(start))
		assert.Equal(t, context.DeadlineExceeded, reportOf(t, resp, err).Stopped)
	})
}

// TestCallersDeadlineShowsEvenWhereBaseWordsItOtherwise: a dialer may notice the deadline before the context does.
func TestCallersDeadlineShowsEvenWhereBaseWordsItOtherwise(t *testing.T) {
	bubble(t, func(t *testing.T) {
		deadline := time.Now().Add(3 * time.Second)
		ctx, cancel := context.WithDeadline(t.Context(), deadline)
		defer cancel()
		base := playing(func(req *http.Request) (*http.Response, error) {
			connect(req, false)
			time.Sleep(3 * time.Second)
			return nil, os.ErrDeadlineExceeded
		})
		_, err := post(t, newTransport(t, quick(base)), ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, 1, base.hits())
	})
}

// TestWaitThatWouldOutlastTheDeadlineIsNotBegun: the last answer or error comes back at once.
func TestWaitThatWouldOutlastTheDeadlineIsNotBegun(t *testing.T) {
	for name, row := range map[string]struct {
		end      step
		deadline time.Duration
		stopped  error
	}{
		"ours, answer":     {answers(503, "Retry-After", "30"), 0, outbound.ErrTotalTimeout},
		"ours, error":      {fails(io.EOF), 0, outbound.ErrTotalTimeout},
		"caller's, answer": {answers(503, "Retry-After", "30"), 2 * time.Second, context.DeadlineExceeded},
		"caller's, error":  {fails(io.EOF), 2 * time.Second, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx := t.Context()
				if row.deadline != 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, row.deadline)
					defer cancel()
				}
				base := playing(row.end)
				tr := newTransport(t, outbound.Config{Base: base, Retry: outbound.RetryPolicy{Backoff: fixed(30 * time.Second)}})
				start := time.Now()
				resp, err := tr.RoundTrip(newRequest(t, ctx, http.MethodPost, "https://pay.test/", "x"))
				assert.Zero(t, time.Since(start))
				assert.Equal(t, 1, base.hits())
				assert.ErrorIs(t, reportOf(t, resp, err).Stopped, row.stopped)
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
					return
				}
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, `{"status":503}`, string(body))
				require.NoError(t, resp.Body.Close())
			})
		})
	}
}

func TestCancelWakesTheWait(t *testing.T) {
	for name, end := range map[string]step{"answer": answers(503), "error": fails(io.ErrUnexpectedEOF)} {
		bubble(t, func(t *testing.T) {
			boom := errors.New("shutting down")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(2*time.Second, func() { cancel(boom) })
			tr := newTransport(t, outbound.Config{Base: playing(end), Retry: outbound.RetryPolicy{Backoff: fixed(10 * time.Second)}})
			start := time.Now()
			resp, err := post(t, tr, ctx)
			require.Nil(t, resp)
			assert.Equal(t, 2*time.Second, time.Since(start))
			require.ErrorIs(t, err, context.Canceled, name)
			require.ErrorIs(t, err, boom, name)
			r := reportOf(t, resp, err)
			assert.ErrorIs(t, r.Stopped, boom)
			require.Len(t, r.Attempts, 1)
			if name == "answer" {
				assert.Equal(t, 503, r.Attempts[0].Status)
				assert.ErrorContains(t, err, "503 Service Unavailable")
			} else {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			}
		})
	}
}

// TestBodyIsBoundByTheTotal: what is handed over unread is cut when the action's time is over, never as a clean end.
func TestBodyIsBoundByTheTotal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answersBody(200, stalling("begin"), "Content-Type", "application/octet-stream"))
		tr := newTransport(t, quick(base))
		start := time.Now()
		resp, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, "https://pay.test/", ""))
		require.NoError(t, err)
		assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, nil))
		data, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, outbound.ErrTotalTimeout)
		assert.Equal(t, "begin", string(data))
		assert.Equal(t, 30*time.Second, time.Since(start))
		assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, nil), "a 2xx whose body broke")
		_, err = resp.Body.Read(make([]byte, 1))
		require.Error(t, err, "and it stays so")
		require.NoError(t, resp.Body.Close())
	})
}

func TestAbandonedBodyIsReleasedAtTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var ended atomic.Bool
		base := playing(answersBody(200, func(req *http.Request) io.ReadCloser {
			context.AfterFunc(req.Context(), func() { ended.Store(true) })
			return stalling("begin")(req)
		}, "Content-Type", "application/octet-stream"))
		tr := newTransport(t, quick(base))
		resp, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, "https://pay.test/", ""))
		require.NoError(t, err)
		time.Sleep(30*time.Second - 1)
		assert.False(t, ended.Load())
		time.Sleep(2 * time.Nanosecond)
		assert.True(t, ended.Load(), "the attempt's context ended")
		assert.Zero(t, tr.Circuits()[0].Pending)
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, outbound.ErrTotalTimeout)
	})
}

func TestContextIsReleasedAtTheEndAndAtClose(t *testing.T) {
	for name, finish := range map[string]func(*http.Response){
		"read to the end": func(resp *http.Response) { _, _ = io.Copy(io.Discard, resp.Body) },
		"closed early":    func(resp *http.Response) { _ = resp.Body.Close() },
	} {
		bubble(t, func(t *testing.T) {
			var attempt context.Context
			base := playing(func(req *http.Request) (*http.Response, error) {
				attempt = req.Context()
				return repliesWith(200, strings.Repeat("x", 100), "Content-Type", "application/octet-stream")(req)
			})
			tr := newTransport(t, quick(base))
			resp, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, "https://pay.test/", ""))
			require.NoError(t, err)
			require.NoError(t, attempt.Err(), "the caller reads under it")
			finish(resp)
			require.Error(t, attempt.Err(), name)
			assert.Zero(t, tr.Circuits()[0].Pending)
		})
	}
}

// ticking is a stream that sends an event at each interval.
func ticking(interval time.Duration, events int) func(*http.Request) io.ReadCloser {
	return func(req *http.Request) io.ReadCloser {
		left := events
		return io.NopCloser(readerFunc(func(p []byte) (int, error) {
			if left == 0 {
				return 0, io.EOF
			}
			select {
			case <-time.After(interval):
			case <-req.Context().Done():
				return 0, req.Context().Err()
			}
			left--
			return copy(p, "data: x\n\n"), nil
		}))
	}
}

func TestStreamOutlivesTheTotalAndIsCutByIdle(t *testing.T) {
	plain := func(ctx context.Context) context.Context { return ctx }
	override := func(ctx context.Context) context.Context {
		return outbound.WithOverride(ctx, outbound.Override{Streaming: true})
	}
	for name, row := range map[string]struct {
		media string
		mark  func(context.Context) context.Context
	}{
		"server-sent events": {"text/event-stream; charset=utf-8", plain},
		"ndjson":             {"Application/X-NDJSON", plain},
		"override":           {"application/json", override},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				base := playing(answersBody(200, ticking(50*time.Second, 5), "Content-Type", row.media),
					answersBody(200, ticking(61*time.Second, 5), "Content-Type", row.media))
				tr := newTransport(t, quick(base))
				resp, err := tr.RoundTrip(newRequest(t, row.mark(t.Context()), http.MethodPost, "https://pay.test/", "x"))
				require.NoError(t, err)
				time.Sleep(10 * time.Minute) // nobody reads: the idle timeout does not run
				data, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Len(t, data, 45)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, nil))

				resp, err = tr.RoundTrip(newRequest(t, row.mark(t.Context()), http.MethodPost, "https://pay.test/", "x"))
				require.NoError(t, err)
				start := time.Now()
				_, err = io.ReadAll(resp.Body)
				require.ErrorIs(t, err, outbound.ErrIdleTimeout)
				assert.Equal(t, time.Minute, time.Since(start))
				assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, nil))
			})
		})
	}
}

func TestReplyToAKeyedWriteIsReadInsideTheAttempt(t *testing.T) {
	inside := map[string]struct {
		headers []string
		length  int64
	}{
		"known length": {[]string{"Content-Type", "application/octet-stream"}, 100},
		"JSON":         {[]string{"Content-Type", "application/json"}, -1},
		"problem+json": {[]string{"Content-Type", "application/problem+json; charset=utf-8"}, -1},
		"XML":          {[]string{"Content-Type", "application/soap+xml"}, -1},
		"form":         {[]string{"Content-Type", "application/x-www-form-urlencoded"}, -1},
		"text":         {[]string{"Content-Type", "Text/Plain"}, -1},
	}
	for name, row := range inside {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				broken := func(req *http.Request) (*http.Response, error) {
					resp, err := answersBody(201, breaking("half", io.ErrUnexpectedEOF), row.headers...)(req)
					resp.ContentLength = row.length
					return resp, err
				}
				base := playing(broken, repliesWith(201, "whole"))
				resp, err := newTransport(t, quick(base)).RoundTrip(newRequest(t, t.Context(), http.MethodPost, "https://pay.test/", "x"))
				require.NoError(t, err)
				data, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, "whole", string(data))
				r := reportOf(t, resp, nil)
				assert.Equal(t, outbound.OutcomeSucceeded, r.Outcome)
				require.Len(t, r.Attempts, 2)
				assert.Equal(t, 201, r.Attempts[0].Status)
				assert.ErrorIs(t, r.Attempts[0].Err, io.ErrUnexpectedEOF)
				assert.Equal(t, outbound.OutcomeUnknown, r.Attempts[0].Outcome)
			})
		})
	}
}

// TestReplyThatIsNotReadInside: it is handed over at its headers, and nothing is sent again when it breaks.
func TestReplyThatIsNotReadInside(t *testing.T) {
	onceOnly := func(r *http.Request) { r.GetBody = nil }
	for name, row := range map[string]struct {
		method  string
		headers []string
		change  func(*http.Request)
	}{
		"binary":         {http.MethodPost, []string{"Content-Type", "application/octet-stream"}, nil},
		"no type":        {http.MethodPost, []string{"Content-Type", ""}, nil},
		"not replayable": {http.MethodPost, nil, onceOnly},
		"a read":         {http.MethodGet, nil, nil},
		"without a key":  {http.MethodPut, nil, nil},
		"stream":         {http.MethodPost, []string{"Content-Type", "text/event-stream"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				base := playing(answersBody(200, breaking("half", io.ErrUnexpectedEOF), row.headers...))
				req := newRequest(t, t.Context(), row.method, "https://pay.test/", "x")
				if row.change != nil {
					row.change(req)
				}
				resp, err := newTransport(t, quick(base)).RoundTrip(req)
				require.NoError(t, err)
				assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, nil), "so far")
				data, err := io.ReadAll(resp.Body)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				assert.Equal(t, "half", string(data))
				assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, nil), "a 2xx whose body broke")
				assert.Equal(t, 1, base.hits())
			})
		})
	}
}

func TestBufferedReplyOverTheLimitIsPrefixAndRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		want := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB
		base := playing(repliesWith(201, want))
		resp, err := newTransport(t, quick(base)).RoundTrip(newRequest(t, t.Context(), http.MethodPost, "https://pay.test/", "x"))
		require.NoError(t, err)
		data, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, len(want), len(data))
		assert.True(t, want == string(data), "unchanged")
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, []int{1}, base.closes())
	})
}

func TestOutOfAttemptsTheBrokenReplyIsHandedOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := quick(playing(answersBody(201, breaking("half", io.ErrUnexpectedEOF))))
		cfg.Retry.MaxAttempts = 2
		resp, err := newTransport(t, cfg).RoundTrip(newRequest(t, t.Context(), http.MethodPost, "https://pay.test/", "x"))
		require.NoError(t, err)
		data, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Equal(t, "half", string(data))
		r := reportOf(t, resp, nil)
		assert.Equal(t, outbound.OutcomeUnknown, r.Outcome)
		assert.ErrorIs(t, r.Stopped, outbound.ErrAttemptsExhausted)
	})
}

func TestReplyThatStallsInsideTheAttemptTimesOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answersBody(201, stalling("half")), repliesWith(201, "whole"))
		resp, err := newTransport(t, quick(base)).RoundTrip(newRequest(t, t.Context(), http.MethodPost, "https://pay.test/", "x"))
		require.NoError(t, err)
		data, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, "whole", string(data))
		r := reportOf(t, resp, nil)
		assert.ErrorIs(t, r.Attempts[0].Err, outbound.ErrAttemptTimeout)
		assert.Equal(t, 11*time.Second, r.Elapsed)
	})
}

// TestDiscardedReplyIsDrainedWithinBounds: 64 KiB and 100 ms, then it is closed.
func TestDiscardedReplyIsDrainedWithinBounds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var read atomic.Int64
		endless := func(*http.Request) io.ReadCloser {
			return io.NopCloser(readerFunc(func(p []byte) (int, error) { read.Add(int64(len(p))); return len(p), nil }))
		}
		base := playing(answersBody(503, endless, "Content-Type", "text/html"), answersBody(503, stalling("x"), "Content-Type", "text/html"), answers(200))
		cfg := quick(base)
		cfg.Retry.Backoff = fixed(0)
		resp, err := newTransport(t, cfg).RoundTrip(newRequest(t, t.Context(), http.MethodPut, "https://pay.test/", "x"))
		require.NoError(t, err)
		assert.LessOrEqual(t, read.Load(), int64(64<<10))
		assert.Equal(t, 100*time.Millisecond, reportOf(t, resp, nil).Elapsed)
		assert.Equal(t, []int{1, 1, 0}, base.closes())
		require.NoError(t, resp.Body.Close())
	})
}

func TestUpgradeKeepsTheWriterAndLosesEveryTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server := net.Pipe()
		var attempt context.Context
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			attempt = req.Context()
			connect(req, false)
			resp := response(req, http.StatusSwitchingProtocols, client)
			return resp, nil
		})
		tr := newTransport(t, outbound.Config{Base: base})
		req := newRequest(t, t.Context(), http.MethodGet, "https://pay.test/", "")
		req.Header.Set("Upgrade", "ping")
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		conn, ok := resp.Body.(io.ReadWriteCloser)
		require.True(t, ok)
		time.Sleep(time.Hour)
		go func() { _, _ = io.WriteString(server, "ping") }()
		got := make([]byte, 4)
		_, err = io.ReadFull(conn, got)
		require.NoError(t, err)
		assert.Equal(t, "ping", string(got))
		go func() { _, _ = io.WriteString(conn, "pong") }()
		_, err = io.ReadFull(server, got)
		require.NoError(t, err)
		assert.Equal(t, "pong", string(got))
		require.NoError(t, attempt.Err())
		require.NoError(t, conn.Close())
		require.Error(t, attempt.Err())
		assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, nil))
	})
}

func TestOverride(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(hangs())
		cfg := quick(base)
		cfg.Breaker.Disabled = true
		tr := newTransport(t, cfg)
		for name, row := range map[string]struct {
			o       outbound.Override
			elapsed time.Duration
			hits    int
		}{
			"nothing":          {outbound.Override{}, 30 * time.Second, 3},
			"one attempt":      {outbound.Override{MaxAttempts: 1}, 10 * time.Second, 1},
			"negative is one":  {outbound.Override{MaxAttempts: -3}, 10 * time.Second, 1},
			"attempt timeout":  {outbound.Override{AttemptTimeout: 2 * time.Second}, 11 * time.Second, 4},
			"total timeout":    {outbound.Override{TotalTimeout: 5 * time.Second}, 5 * time.Second, 1},
			"no attempt limit": {outbound.Override{AttemptTimeout: -1}, 30 * time.Second, 1},
			"no total limit":   {outbound.Override{TotalTimeout: -1}, 43 * time.Second, 4},
		} {
			before, start := base.hits(), time.Now()
			_, err := post(t, tr, outbound.WithOverride(t.Context(), row.o))
			require.Error(t, err, name)
			assert.Equal(t, row.elapsed, time.Since(start), name)
			assert.Equal(t, row.hits, base.hits()-before, name)
		}
	})
}

// late replies at once, but only when the attempt's time is over.
func late(status int) step {
	return func(req *http.Request) (*http.Response, error) {
		connect(req, false)
		<-req.Context().Done()
		return response(req, status, io.NopCloser(strings.NewReader("x")), "Content-Type", "application/octet-stream"), nil
	}
}

// TestStatusOfALateReplyWasSeen: its body can't be read any more, but a success can't have been a rejection.
func TestStatusOfALateReplyWasSeen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(late(200), answers(402))
		resp, err := post(t, newTransport(t, quick(base)), t.Context())
		require.NoError(t, err)
		r := reportOf(t, resp, err)
		assert.Equal(t, outbound.OutcomeUnknown, r.Outcome)
		assert.Equal(t, 200, r.Attempts[0].Status)
		assert.ErrorIs(t, r.Attempts[0].Err, outbound.ErrAttemptTimeout)
		assert.Equal(t, []int{1, 1}, base.closes())

		cfg := quick(playing(late(200)))
		cfg.Provider.NoKeys = true
		resp, err = newTransport(t, cfg).RoundTrip(newRequest(t, t.Context(), http.MethodPost, payURL, "x"))
		require.NoError(t, err, "a response is never turned into an error")
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, outbound.ErrAttemptTimeout)
		assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, nil))
	})
}

// TestNothingBeginsAfterTheTotal: not after a slow hook, a slow drain, or where the total is over at once.
func TestNothingBeginsAfterTheTotal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(503), answers(201))
		cfg := quick(base)
		cfg.TotalTimeout = 2 * time.Second
		cfg.Hooks.Retry = func(context.Context, outbound.Attempt, time.Duration) { time.Sleep(5 * time.Second) }
		resp, err := post(t, newTransport(t, cfg), t.Context())
		require.ErrorIs(t, err, outbound.ErrTotalTimeout)
		assert.Equal(t, 503, reportOf(t, resp, err).Attempts[0].Status)
		assert.Equal(t, 1, base.hits())
	})
	bubble(t, func(t *testing.T) {
		base := playing(answersBody(503, stalling("x")), answers(201))
		cfg := quick(base)
		cfg.TotalTimeout = time.Second + 50*time.Millisecond
		resp, err := post(t, newTransport(t, cfg), t.Context())
		require.NoError(t, err, "the drain makes room for the wait")
		r := reportOf(t, resp, err)
		assert.Equal(t, outbound.OutcomeSucceeded, r.Outcome)
		assert.LessOrEqual(t, r.Elapsed, cfg.TotalTimeout)
	})
	bubble(t, func(t *testing.T) {
		base := playing(answers(201))
		resp, err := post(t, newTransport(t, quick(base)), outbound.WithOverride(t.Context(), outbound.Override{TotalTimeout: 1}))
		require.NoError(t, err, "no time has passed in this bubble")
		_ = resp
		cfg := quick(base)
		cfg.Target = func(*http.Request) string { time.Sleep(time.Second); return "" }
		resp, err = post(t, newTransport(t, cfg), outbound.WithOverride(t.Context(), outbound.Override{TotalTimeout: time.Second}))
		require.ErrorIs(t, err, outbound.ErrTotalTimeout)
		assert.Equal(t, outbound.OutcomeNotSent, outbound.OutcomeOf(resp, err))
		assert.Equal(t, 1, base.hits())
	})
}

func TestHugeLimitsAreLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const huge = time.Duration(1<<63 - 1)
		for name, cfg := range map[string]outbound.Config{
			"attempt": {AttemptTimeout: huge}, "total": {TotalTimeout: huge}, "idle": {IdleTimeout: huge}, "key window": {Provider: outbound.Provider{KeyWindow: huge}},
			"window": {Breaker: outbound.BreakerPolicy{Window: huge}}, "slow call": {Breaker: outbound.BreakerPolicy{SlowCall: huge}},
			"probes": {Breaker: outbound.BreakerPolicy{Probes: 1<<63 - 1}}, "attempts": {Retry: outbound.RetryPolicy{MaxAttempts: 1<<63 - 1}},
			"retry-after": {Retry: outbound.RetryPolicy{MaxRetryAfter: huge}},
		} {
			cfg.Base, cfg.Retry.Backoff = playing(answers(503), answers(201)), fixed(time.Second)
			resp, err := post(t, newTransport(t, cfg), t.Context())
			require.NoError(t, err, name)
			assert.Equal(t, 201, resp.StatusCode, name)
		}
		tr := newTransport(t, outbound.Config{Base: playing(answers(500)), Retry: outbound.RetryPolicy{MaxAttempts: 1}, Breaker: outbound.BreakerPolicy{ConsecutiveFailures: 1, OpenFor: huge}})
		_, err := get(t, tr, payURL)
		require.NoError(t, err)
		time.Sleep(100 * 24 * time.Hour)
		_, err = get(t, tr, payURL)
		require.ErrorIs(t, err, outbound.ErrCircuitOpen)
	})
}

// TestCloseDuringReadIsNoBreak: the caller wanted no more.
func TestCloseDuringReadIsNoBreak(t *testing.T) {
	client, server := net.Pipe()
	defer func() { _ = server.Close() }()
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		connect(req, false)
		return response(req, 200, client, "Content-Type", "application/octet-stream"), nil
	})
	resp, err := newTransport(t, outbound.Config{Base: base}).RoundTrip(newRequest(t, t.Context(), http.MethodGet, payURL, ""))
	require.NoError(t, err)
	reading := make(chan error)
	go func() {
		_, err := io.ReadFull(resp.Body, make([]byte, 2))
		reading <- err
	}()
	_, err = server.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Error(t, <-reading)
	assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, nil))
}

func TestOverrideStreamingIsForAnswersOfSuccess(t *testing.T) {
	var saw string
	cfg := outbound.Config{Base: playing(answers(400)), Provider: outbound.Provider{Judge: func(_ *http.Response, body []byte) outbound.Verdict {
		saw = string(body)
		return outbound.Verdict{}
	}}}
	_, err := post(t, newTransport(t, cfg), outbound.WithOverride(t.Context(), outbound.Override{Streaming: true}))
	require.NoError(t, err)
	assert.Equal(t, `{"status":400}`, saw)
}

// TestASlowGetBodyCountsAgainstTheTotal: the attempt begins after it.
func TestASlowGetBodyCountsAgainstTheTotal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := quick(playing(answers(503), slowly(2*time.Second, answers(201))))
		cfg.Retry.Backoff, cfg.TotalTimeout, cfg.AttemptTimeout = fixed(0), 3*time.Second, 3*time.Second
		req := newRequest(t, t.Context(), http.MethodPost, payURL, "x")
		body := req.GetBody
		req.GetBody = func() (io.ReadCloser, error) {
			time.Sleep(2 * time.Second)
			return body()
		}
		start := time.Now()
		_, err := send(newTransport(t, cfg), req)
		require.ErrorIs(t, err, outbound.ErrTotalTimeout)
		assert.Equal(t, 3*time.Second, time.Since(start))
	})
}

// TestABodyThatReadsTooMuchIsNoPanic: what is thrown away may come from a faulty reader, too.
func TestABodyThatReadsTooMuchIsNoPanic(t *testing.T) {
	tooMuch := func(*http.Request) io.ReadCloser {
		return io.NopCloser(readerFunc(func([]byte) (int, error) { return 100_000, nil }))
	}
	cfg := quick(playing(answersBody(503, tooMuch), answers(201)))
	cfg.Retry.Backoff = fixed(0)
	_, err := post(t, newTransport(t, cfg), t.Context())
	require.NoError(t, err)
}
