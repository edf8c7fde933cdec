package outbound_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
)

// caseReaders are the body kinds that http.NewRequest can replay.
var caseReaders = map[string]func(string) io.Reader{
	"bytes.Reader":   func(s string) io.Reader { return bytes.NewReader([]byte(s)) },
	"strings.Reader": func(s string) io.Reader { return strings.NewReader(s) },
	"bytes.Buffer":   func(s string) io.Reader { return bytes.NewBufferString(s) },
}

func TestC01_WholeBodyAfterADroppedConnection(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 39) + "last"
	require.Len(t, body, 628)
	for wire, serve := range caseWires {
		for kind, reader := range caseReaders {
			for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut} {
				t.Run(wire+" "+kind+" "+method, func(t *testing.T) {
					s := serve(t, caseDrop, caseSend(200, "ok"))
					req, err := http.NewRequest(method, s.URL, reader(body))
					require.NoError(t, err)
					caseOK(t, caseNew(t, caseConfig(s.base)), req)
					caseWholeTwice(t, s.all(), body)
					if method != http.MethodPut {
						caseSameKey(t, s.all())
					}
				})
			}
		}
	}
}

func caseWholeTwice(t *testing.T, hits []caseHit, body string) {
	t.Helper()
	require.Len(t, hits, 2)
	caseSameBody(t, hits, body)
	assert.EqualValues(t, len(body), hits[0].Length)
	assert.EqualValues(t, len(body), hits[1].Length)
}

func TestC01_WholeBodyAfterADroppedKeepAlive(t *testing.T) {
	s := caseServe(t, caseSend(200, "warm"), caseDrop, caseSend(200, "ok"))
	tr := caseNew(t, caseConfig(s.base))
	caseOK(t, tr, caseRequest(t, "GET", s.URL, ""))
	r := caseOK(t, tr, caseRequest(t, "POST", s.URL, strings.Repeat("b", 628)))
	require.True(t, r.Report.Attempts[0].Reused, "the recipe needs a kept connection")
	caseWholeTwice(t, s.all()[1:], strings.Repeat("b", 628))
	caseSameKey(t, s.all()[1:])
}

func TestC02_FormPostIsCompleteAfter409(t *testing.T) {
	for wire, serve := range caseWires {
		t.Run(wire, func(t *testing.T) {
			s := serve(t, caseSend(409, "busy"), caseSend(409, "busy"), caseSend(200, "ok"))
			client := caseClient(t, caseConfig(s.base))
			resp, err := client.PostForm(s.URL, url.Values{"a": {"1"}, "b": {"2"}})
			require.NoError(t, err)
			body, err := caseRead(resp)
			require.NoError(t, err)
			assert.Equal(t, "ok", body)
			hits := s.all()
			require.Len(t, hits, 3)
			caseSameBody(t, hits, "a=1&b=2")
			caseSameKey(t, hits)
			for _, h := range hits {
				assert.Equal(t, "application/x-www-form-urlencoded", h.Header.Get("Content-Type"))
			}
		})
	}
}

func TestC03_BodyIsSentOncePerAttempt(t *testing.T) {
	body := `{"amount":1099,"currency":"eur","id":42}`
	require.Len(t, body, 40)
	rows := map[string]func(*http.Request) *http.Request{
		"plain": func(r *http.Request) *http.Request { return r },
		"action": func(r *http.Request) *http.Request {
			return r.WithContext(outbound.WithAction(r.Context(), outbound.NewAction()))
		},
		"own GetBody": func(r *http.Request) *http.Request {
			r.Body = io.NopCloser(strings.NewReader(body))
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
			return r
		},
	}
	for wire, serve := range caseWires {
		for name, prepare := range rows {
			t.Run(wire+" "+name, func(t *testing.T) {
				s := serve(t, caseSend(500, ""), caseSend(500, ""), caseSend(500, ""), caseSend(200, "ok"))
				caseOK(t, caseNew(t, caseConfig(s.base)), prepare(caseRequest(t, "POST", s.URL, body)))
				require.Equal(t, 4, s.count())
				caseSameBody(t, s.all(), body)
				require.True(t, json.Valid(s.all()[3].Body), "one document, not several")
			})
		}
	}
}

func TestC04_NoBodyCrossesRequests(t *testing.T) {
	const calls, size = 200, 2048
	var mu sync.Mutex
	hits := map[string]int{}
	s := caseServe(t, func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Id")
		mu.Lock()
		defer mu.Unlock()
		if hits[id]++; hits[id] < 3 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	s.base.MaxConnsPerHost = 20
	tr := caseNew(t, caseConfig(s.base))
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			id := fmt.Sprintf("%08d", i)
			req := caseRequest(t, "POST", s.URL, strings.Repeat(id, size/len(id)), "X-Id", id)
			assert.Equal(t, http.StatusOK, caseDo(t, tr, req).Status)
		})
	}
	wg.Wait()
	require.Equal(t, 3*calls, s.count())
	for _, h := range s.all() {
		id := h.Header.Get("X-Id")
		require.Equal(t, strings.Repeat(id, size/len(id)), string(h.Body))
	}
	for id, n := range hits {
		require.Equal(t, 3, n, id)
	}
}

// caseTrigger is something that calls for a retry.
type caseTrigger struct {
	act     http.HandlerFunc
	refused []error // of the dial, before the act
	hits    int
	outcome outbound.Outcome // of a write that cannot be tried again
	status  int
}

var caseTriggers = map[string]caseTrigger{
	"409":             {act: caseSend(409, "busy"), hits: 2, status: 409},
	"429":             {act: caseSend(429, ""), hits: 2, status: 429, outcome: outbound.OutcomeRejected},
	"429 Retry-After": {act: caseSend(429, "", "Retry-After", "1"), hits: 2, status: 429, outcome: outbound.OutcomeRejected},
	"500":             {act: caseSend(500, ""), hits: 2, status: 500},
	"503":             {act: caseSend(503, ""), hits: 2, status: 503},
	"drop":            {act: caseDrop, hits: 2},
	"refused":         {act: caseSend(200, ""), refused: []error{caseRefused()}, hits: 1, outcome: outbound.OutcomeNotSent},
}

func TestC07_AnyTriggerFindsTheBodyReplayable(t *testing.T) {
	body := strings.Repeat("k", 1024)
	for name, row := range caseTriggers {
		caseVirtual(t, name, func(t *testing.T) {
			s := casePipe(t, row.act, caseSend(200, "ok")).failing(row.refused...)
			cfg := caseConfig(s.base)
			cfg.Retry.MaxAttempts = 2
			r := caseOK(t, caseNew(t, cfg), caseRequest(t, "POST", s.URL, body))
			require.Equal(t, row.hits, s.count())
			require.Len(t, r.Report.Attempts, 2)
			caseSameBody(t, s.all(), body)
			caseSameKey(t, s.all())
		})
	}
}

func TestC07_NoTriggerRepeatsABodyWithoutGetBody(t *testing.T) {
	for name, row := range caseTriggers {
		caseVirtual(t, name, func(t *testing.T) {
			s := casePipe(t, row.act, caseSend(200, "never")).failing(row.refused...)
			r := caseDo(t, caseNew(t, caseConfig(s.base)), caseOneShot(caseRequest(t, "POST", s.URL, "once")))
			assert.Equal(t, row.hits-1, s.count())
			assert.Len(t, r.Report.Attempts, 1)
			require.ErrorIs(t, r.Report.Stopped, outbound.ErrBodyNotReplayable)
			assert.Equal(t, row.outcome, r.Report.Outcome)
			assert.Equal(t, row.status, r.Status, "the answer itself comes back")
		})
	}
}

// caseFailingBody has a GetBody that fails from its nth call on, and counts what is opened and closed.
func caseFailingBody(req *http.Request, from int) (open func() int64) {
	var bodies []*caseBody
	reader := func() io.ReadCloser {
		b := &caseBody{ReadCloser: io.NopCloser(strings.NewReader("pay"))}
		bodies = append(bodies, b)
		return b
	}
	calls := 0
	req.Body, req.ContentLength = reader(), 3
	req.GetBody = func() (io.ReadCloser, error) {
		if calls++; calls >= from {
			return nil, errCase
		}
		return reader(), nil
	}
	return func() (open int64) {
		for _, b := range bodies {
			open += 1 - min(b.closed.Load(), 1)
		}
		return open
	}
}

func TestC08_GetBodyFailureKeepsTheEarlierCause(t *testing.T) {
	reset := caseErr(syscall.ECONNRESET)
	rows := map[string]struct {
		step    caseStep
		from    int
		action  bool
		hits    int
		cause   error
		status  int
		outcome outbound.Outcome
	}{
		"first call":               {step: reset, from: 1, hits: 1, cause: syscall.ECONNRESET},
		"second call":              {step: reset, from: 2, hits: 2, cause: syscall.ECONNRESET},
		"after a 503":              {step: caseReply(503), from: 1, hits: 1, status: 503},
		"action, binding":          {step: reset, from: 1, action: true, outcome: outbound.OutcomeNotSent},
		"action, first attempt":    {step: reset, from: 2, action: true, outcome: outbound.OutcomeNotSent},
		"action, second attempt":   {step: reset, from: 3, action: true, hits: 1, cause: syscall.ECONNRESET},
		"action, 503, then reset":  {step: caseReply(503), from: 3, action: true, hits: 1, status: 503},
		"429 keeps it as rejected": {step: caseReply(429), from: 1, hits: 1, status: 429, outcome: outbound.OutcomeRejected},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			base := caseScript(row.step)
			req := casePost(t)
			open := caseFailingBody(req, row.from)
			if row.action {
				req = req.WithContext(outbound.WithAction(req.Context(), outbound.NewAction()))
			}
			r := caseDo(t, caseNew(t, caseConfig(base)), req)
			require.ErrorIs(t, r.Err, errCase)
			assert.Equal(t, row.hits, base.count())
			require.Len(t, r.Report.Attempts, row.hits)
			if row.cause != nil {
				require.ErrorIs(t, r.Err, row.cause)
			}
			if row.hits > 0 {
				assert.Equal(t, row.status, r.Report.Attempts[row.hits-1].Status)
			}
			assert.Equal(t, row.outcome, r.Report.Outcome)
			assert.Zero(t, open(), "bodies left open")
			for i, n := range base.closes() {
				assert.Equal(t, 1, n, "reply %d", i+1)
			}
		})
	}
}

func TestC10_HopThatBecameGetStaysBodiless(t *testing.T) {
	for _, status := range []int{301, 302, 303} {
		for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": casePipe, "HTTP2": casePipeH2} {
			caseVirtual(t, fmt.Sprint(status, " ", wire), func(t *testing.T) {
				s := serve(t, caseSend(status, "", "Location", "/b"), caseSend(503, ""), caseSend(200, "done"))
				r := caseOK(t, caseDoer(caseClient(t, caseConfig(s.base))),
					caseRequest(t, "POST", s.URL+"/a", "x", "Content-Type", "text/plain"))
				require.Equal(t, 1, s.countAt("/a"))
				require.Equal(t, 2, s.countAt("/b"))
				require.Len(t, r.Report.Attempts, 3)
				assert.Equal(t, outbound.OutcomeUnknown, r.Report.Outcome, "what a GET says is nothing about the write")
				for _, h := range s.all()[1:] {
					assert.Equal(t, "GET", h.Method)
					assert.Empty(t, h.Body)
					assert.Zero(t, h.Length)
					assert.Empty(t, h.Header.Values("Content-Length"))
					assert.Empty(t, h.Header.Values("Content-Type"))
					assert.Empty(t, h.Keys("Idempotency-Key"))
				}
			})
		}
	}
}

func TestC11_SecondHopIsAsRetryableAsTheFirst(t *testing.T) {
	body := strings.Repeat("r", 1024)
	for _, status := range []int{307, 308} {
		for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": casePipe, "HTTP2": casePipeH2} {
			caseVirtual(t, fmt.Sprint(status, " ", wire), func(t *testing.T) {
				s := serve(t, caseSend(status, "", "Location", "/b"), caseSend(503, ""), caseSend(200, "done"))
				req, err := http.NewRequest("POST", s.URL+"/a", bytes.NewReader([]byte(body)))
				require.NoError(t, err)
				r := caseOK(t, caseDoer(caseClient(t, caseConfig(s.base))), req)
				assert.Equal(t, 1, s.countAt("/a"))
				assert.Equal(t, 2, s.countAt("/b"))
				require.Equal(t, 3, s.count())
				caseSameBody(t, s.all(), body)
				assert.Equal(t, caseSameKey(t, s.all()), r.Report.IdempotencyKey)
				assert.Len(t, r.Report.Attempts, 3)
				assert.Equal(t, outbound.OutcomeSucceeded, r.Report.Outcome)
			})
		}
	}
}

// Streaming and memory.

// caseEvents sends events with gaps in between, then holds the stream open until release is closed.
func caseEvents(release <-chan struct{}, gap time.Duration, events int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		for range events {
			_, _ = io.WriteString(w, "event\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(gap):
			case <-r.Context().Done():
				return
			}
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
}

func TestC86_RepliesPassAsTheyCome(t *testing.T) {
	rows := map[string]struct{ method, media string }{
		"GET of no known kind": {"GET", "application/octet-stream"},
		"GET of events":        {"GET", "text/event-stream"},
		"POST of events":       {"POST", "text/event-stream; charset=utf-8"},
		"POST of ndjson":       {"POST", "application/x-ndjson"},
		"POST of a download":   {"POST", "application/octet-stream"},
	}
	for name, row := range rows {
		for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": casePipe, "HTTP2": casePipeH2} {
			caseVirtual(t, name+" "+wire, func(t *testing.T) {
				release := make(chan struct{})
				s := serve(t, caseEvents(release, 0, 1, "Content-Type", row.media))
				start := time.Now()
				resp, err := caseNew(t, caseConfig(s.base)).RoundTrip(caseRequest(t, row.method, s.URL, "b"))
				require.NoError(t, err)
				event := make([]byte, len("event\n"))
				_, err = io.ReadFull(resp.Body, event)
				require.NoError(t, err)
				assert.Equal(t, "event\n", string(event))
				assert.Zero(t, time.Since(start), "the server still holds the stream open")
				close(release)
				rest, err := caseRead(resp)
				require.NoError(t, err)
				assert.Empty(t, rest)
			})
		}
	}
}

func TestC86_LargeRepliesAreNotHeld(t *testing.T) {
	const size = 64 << 20 // a quarter of the recipe's, with half its limit
	rows := map[string]struct {
		method, media string
		length        int64
	}{
		"GET":                         {"GET", "application/json", size},
		"keyed POST":                  {"POST", "application/json", size},
		"keyed POST, length unknown":  {"POST", "application/json", -1},
		"keyed POST, kind not stored": {"POST", "application/octet-stream", -1},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			zeros := newCaseZeros(size)
			tr := caseNew(t, caseConfig(caseFunc(func(r *http.Request) (*http.Response, error) {
				resp := caseResponse(200, "", "Content-Type", row.media)
				resp.Body, resp.ContentLength = zeros, row.length
				return resp, nil
			})))
			resp, err := tr.RoundTrip(caseRequest(t, row.method, caseURL, "b"))
			require.NoError(t, err)
			n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 32<<10))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.EqualValues(t, size, n)
			require.Positive(t, zeros.start)
			assert.Less(t, zeros.peak.Load(), int64(8<<20))
		})
	}
}

func TestC87_CancelUnblocksAReadOfAStalledStream(t *testing.T) {
	for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": casePipe, "HTTP2": casePipeH2} {
		for _, media := range []string{"text/event-stream", "application/octet-stream"} {
			caseVirtual(t, wire+" "+media, func(t *testing.T) {
				s := serve(t, caseEvents(nil, 0, 2, "Content-Type", media))
				ctx, cancel := caseCancelAfter(t, 100*time.Millisecond)
				defer cancel()
				start := time.Now()
				resp, err := caseNew(t, caseConfig(s.base)).RoundTrip(caseRequest(t, "GET", s.URL, "").WithContext(ctx))
				require.NoError(t, err)
				body, err := caseRead(resp)
				assert.Equal(t, "event\nevent\n", body)
				require.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, 100*time.Millisecond, time.Since(start))
			})
		}
	}
}

func TestC87_IdleLimitEndsASilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := casePipe(t, caseEvents(nil, 0, 2, "Content-Type", "text/event-stream"))
		cfg := caseConfig(s.base)
		cfg.IdleTimeout = 200 * time.Millisecond
		start := time.Now()
		resp, err := caseNew(t, cfg).RoundTrip(caseRequest(t, "GET", s.URL, ""))
		require.NoError(t, err)
		body, err := caseRead(resp)
		assert.Equal(t, "event\nevent\n", body)
		require.ErrorIs(t, err, outbound.ErrIdleTimeout)
		caseTimeout(t, err)
		assert.Equal(t, 200*time.Millisecond, time.Since(start))
	})
}

func caseTimeout(t *testing.T, err error) {
	t.Helper()
	var timeout interface{ Timeout() bool }
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout())
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestC87_IdleLimitSparesASlowStream(t *testing.T) {
	rows := map[string]struct {
		gap    time.Duration // of the server, between events
		pause  time.Duration // of the reader, before each read
		limits func(*outbound.Config)
	}{
		"gaps below the limit":     {gap: 100 * time.Millisecond},
		"reader slower than limit": {pause: time.Second},
		"longer than the total time": {gap: 100 * time.Millisecond, limits: func(c *outbound.Config) {
			c.AttemptTimeout, c.TotalTimeout = 300*time.Millisecond, 500*time.Millisecond
		}},
		"no limit": {gap: time.Minute, limits: func(c *outbound.Config) { c.IdleTimeout = -1 }},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			release := make(chan struct{})
			close(release)
			s := casePipe(t, caseEvents(release, row.gap, 10, "Content-Type", "text/event-stream"))
			cfg := caseConfig(s.base)
			cfg.IdleTimeout = 200 * time.Millisecond
			if row.limits != nil {
				row.limits(&cfg)
			}
			resp, err := caseNew(t, cfg).RoundTrip(caseRequest(t, "GET", s.URL, ""))
			require.NoError(t, err)
			defer func() { _ = resp.Body.Close() }()
			var got bytes.Buffer
			for err == nil {
				time.Sleep(row.pause)
				_, err = io.CopyN(&got, resp.Body, 6)
			}
			require.Equal(t, io.EOF, err)
			assert.Equal(t, strings.Repeat("event\n", 10), got.String())
		})
	}
}

func TestC88_LargeUploadsAreNotHeld(t *testing.T) {
	const size = 64 << 20 // an eighth of the recipe's, with a quarter of its limit
	for _, method := range []string{"PUT", "POST"} {
		for _, replayable := range []bool{true, false} {
			t.Run(fmt.Sprint(method, " replayable ", replayable), func(t *testing.T) {
				var sent []int64
				base := caseFunc(func(r *http.Request) (*http.Response, error) {
					n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 32<<10))
					sent = append(sent, n)
					return caseResponse([]int{503, 200}[len(sent)-1], "{}"), errors.Join(err, r.Body.Close())
				})
				zeros := newCaseZeros(size)
				req, err := http.NewRequest(method, caseURL, zeros)
				require.NoError(t, err)
				req.ContentLength = size
				if replayable {
					req.GetBody = func() (io.ReadCloser, error) { zeros.left = size; return zeros, nil }
				}
				r := caseDo(t, caseNew(t, caseConfig(base)), req)
				require.NoError(t, r.Err)
				assert.Less(t, zeros.peak.Load(), int64(8<<20))
				if replayable {
					assert.Equal(t, 200, r.Status)
					assert.Equal(t, []int64{size, size}, sent)
					return
				}
				assert.Equal(t, 503, r.Status)
				assert.Equal(t, []int64{size}, sent)
				require.ErrorIs(t, r.Report.Stopped, outbound.ErrBodyNotReplayable)
			})
		}
	}
}
