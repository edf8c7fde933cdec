package outbound_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chains are what the contract of http.RoundTripper is held against: the whole chain, and the chain with one part after the
// other left out or put on top of another.
func chains(t *testing.T, base http.RoundTripper, hooks outbound.Hooks) map[string]http.RoundTripper {
	backoff := outbound.RetryPolicy{Backoff: fixed(time.Second)}
	build := func(cfg outbound.Config) http.RoundTripper {
		if cfg.Base == nil {
			cfg.Base = base
		}
		if cfg.Retry.Backoff == nil {
			cfg.Retry.Backoff = backoff.Backoff
		}
		cfg.Retry.Budget.Disabled = true
		cfg.Hooks = hooks
		return newTransport(t, cfg)
	}
	noKeys := outbound.Provider{NoKeys: true}
	judge := outbound.Provider{Judge: func(*http.Response, []byte) outbound.Verdict { return outbound.Verdict{} }}
	return map[string]http.RoundTripper{
		"whole chain":     build(outbound.Config{}),
		"without circuit": build(outbound.Config{Breaker: outbound.BreakerPolicy{Disabled: true}}),
		"without keys":    build(outbound.Config{Provider: noKeys}),
		"with a judge":    build(outbound.Config{Provider: judge}),
		"without limits":  build(outbound.Config{AttemptTimeout: -1, TotalTimeout: -1, IdleTimeout: -1}),
		"a chain below":   build(outbound.Config{Base: build(outbound.Config{})}),
	}
}

// underContract runs a probe for each chain, each with a Base of its own, in virtual time.
func underContract(t *testing.T, steps []step, probe func(t *testing.T, rt http.RoundTripper, base *fakeBase)) {
	for name := range chains(t, playing(), outbound.Hooks{}) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				base := playing(steps...)
				probe(t, chains(t, base, outbound.Hooks{})[name], base)
			})
		})
	}
}

// put is retried with and without a key.
func put(t *testing.T, ctx context.Context) *http.Request {
	return newRequest(t, ctx, http.MethodPut, "https://pay.test/v1/payments/7?q=1", "42 EUR")
}

func TestContractDiscardedRepliesAreClosedOnceAndTheLastStaysOpen(t *testing.T) {
	underContract(t, []step{answers(503), answers(503), answers(200)}, func(t *testing.T, rt http.RoundTripper, base *fakeBase) {
		resp, err := rt.RoundTrip(put(t, t.Context()))
		require.NoError(t, err)
		assert.Equal(t, []int{1, 1, 0}, base.closes())
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, `{"status":200}`, string(body))
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, []int{1, 1, 1}, base.closes())
	})
}

func TestContractRequestIsNotChanged(t *testing.T) {
	for name, header := range map[string]http.Header{"headers": {"Accept": {"a", "b"}, "x-lower": {"c"}}, "nil headers": nil} {
		t.Run(name, func(t *testing.T) {
			underContract(t, []step{answers(503), answers(200)}, func(t *testing.T, rt http.RoundTripper, base *fakeBase) {
				for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodGet} {
					req := newRequest(t, t.Context(), method, "https://user:pass@pay.test/v1?q=1#f", "42 EUR")
					req.Header = header.Clone()
					req.Trailer = http.Header{"X-End": nil}
					req.Host = "other.test"
					before, target, body := *req, *req.URL, req.Body
					_, err := send(rt, req)
					require.NoError(t, err)
					assert.Equal(t, header, req.Header)
					assert.Equal(t, target, *req.URL)
					assert.Same(t, before.URL, req.URL)
					assert.True(t, body == req.Body, "the body field")
					assert.Equal(t, before.Host, req.Host)
					assert.Equal(t, before.Trailer, req.Trailer)
					assert.Equal(t, before.ContentLength, req.ContentLength)
					assert.Equal(t, before.Context(), req.Context())
				}
			})
		})
	}
}

// countingBody counts its Closes.
type countingBody struct {
	io.Reader
	closed int
}

func (b *countingBody) Close() error { b.closed++; return nil }

func TestContractBodyIsClosed(t *testing.T) {
	ends := map[string][]step{
		"success":         {answers(200)},
		"retried":         {answers(503), answers(200)},
		"status for ever": {answers(503)},
		"network error":   {fails(io.EOF)},
		"refused":         {refuses()},
	}
	for name, steps := range ends {
		t.Run(name, func(t *testing.T) {
			underContract(t, steps, func(t *testing.T, rt http.RoundTripper, _ *fakeBase) {
				var made []*countingBody
				open := func() (io.ReadCloser, error) {
					made = append(made, &countingBody{Reader: strings.NewReader("42 EUR")})
					return made[len(made)-1], nil
				}
				req := put(t, t.Context())
				req.Body, _ = open()
				req.GetBody = open
				_, _ = send(rt, req)
				for i, b := range made {
					assert.Equal(t, 1, b.closed, "reader %d of %d", i, len(made))
				}
			})
		})
	}
}

func TestContractBodyIsClosedWhereNothingIsSent(t *testing.T) {
	underContract(t, []step{answers(200)}, func(t *testing.T, rt http.RoundTripper, base *fakeBase) {
		done, cancel := context.WithCancel(t.Context())
		cancel()
		bad := map[string]func(*http.Request){
			"cancelled before": func(r *http.Request) { *r = *r.WithContext(done) },
			"nil URL":          func(r *http.Request) { r.URL = nil },
			"no host":          func(r *http.Request) { r.URL = &url.URL{Scheme: "https"} },
			"scheme":           func(r *http.Request) { r.URL = &url.URL{Scheme: "ftp", Host: "pay.test"} },
			"method":           func(r *http.Request) { r.Method = "PO ST" },
			"header name":      func(r *http.Request) { r.Header["a b"] = []string{"c"} },
			"header value":     func(r *http.Request) { r.Header["A"] = []string{"c\n"} },
		}
		for name, spoil := range bad {
			body := &countingBody{Reader: strings.NewReader("42 EUR")}
			req := put(t, t.Context())
			req.Body = body
			spoil(req)
			resp, err := rt.RoundTrip(req)
			assert.Nil(t, resp, name)
			require.Error(t, err, name)
			assert.Equal(t, outbound.OutcomeNotSent, outbound.OutcomeOf(resp, err), name)
			assert.Equal(t, 1, body.closed, name)
		}
		assert.Zero(t, base.hits())
	})
}

func TestContractResponseIsNeverTurnedIntoAnError(t *testing.T) {
	underContract(t, []step{answers(503, "X-Why", "maintenance")}, func(t *testing.T, rt http.RoundTripper, base *fakeBase) {
		resp, err := rt.RoundTrip(put(t, t.Context()))
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, "maintenance", resp.Header.Get("X-Why"))
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		assert.Equal(t, `{"status":503}`, string(body))
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 4, base.hits())
		assert.ErrorIs(t, reportOf(t, resp, nil).Stopped, outbound.ErrAttemptsExhausted)
	})
}

func TestContractCancelKeepsAllThreeFacts(t *testing.T) {
	underContract(t, []step{hangs()}, func(t *testing.T, rt http.RoundTripper, base *fakeBase) {
		boom, last := errors.New("shutting down"), errors.New("last words")
		base.steps = []step{func(req *http.Request) (*http.Response, error) {
			connect(req, false)
			<-req.Context().Done()
			return nil, last
		}}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(boom) })
		resp, err := rt.RoundTrip(put(t, ctx))
		assert.Nil(t, resp)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, boom)
		require.ErrorIs(t, err, last)
		assert.Equal(t, 1, base.hits())
		assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, err))
	})
}

// TestContractResponseXorError goes through the end states of a call, and listens to net/http's complaints.
func TestContractResponseXorError(t *testing.T) {
	both := func(req *http.Request) (*http.Response, error) {
		connect(req, false)
		return response(req, 200, io.NopCloser(strings.NewReader("x"))), io.ErrUnexpectedEOF
	}
	neither := func(req *http.Request) (*http.Response, error) { connect(req, false); return nil, nil }
	noBody := func(req *http.Request) (*http.Response, error) {
		connect(req, false)
		return &http.Response{StatusCode: 503, Header: http.Header{}}, nil
	}
	ends := map[string]struct {
		steps  []step
		status int
		is     error
	}{
		"200":                     {[]step{answers(200)}, 200, nil},
		"503 to the end":          {[]step{answers(503)}, 503, nil},
		"network error":           {[]step{fails(io.EOF)}, 0, io.EOF},
		"503, then network error": {[]step{answers(503), fails(io.EOF)}, 0, io.EOF},
		"network error, then 404": {[]step{fails(io.EOF), answers(404)}, 404, nil},
		"both":                    {[]step{both}, 0, io.ErrUnexpectedEOF},
		"neither":                 {[]step{neither}, 0, outbound.ErrAttemptsExhausted},
		"no body, no length":      {[]step{noBody}, 503, nil},
		"attempt timeout":         {[]step{slowly(time.Hour, answers(200))}, 0, context.DeadlineExceeded},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var complaints bytes.Buffer
				defer log.SetOutput(log.Writer())
				log.SetOutput(&complaints)
				base := playing(end.steps...)
				client, err := outbound.NewClient(outbound.Config{Base: base})
				require.NoError(t, err)
				resp, err := client.Do(put(t, t.Context()))
				if end.status != 0 {
					require.NoError(t, err)
					assert.Equal(t, end.status, resp.StatusCode)
					require.NotNil(t, resp.Body)
					require.NoError(t, resp.Body.Close())
				} else {
					assert.Nil(t, resp)
					require.ErrorIs(t, err, end.is)
				}
				for i, n := range base.closes() {
					assert.GreaterOrEqual(t, n, 1, "body %d", i)
				}
				assert.Empty(t, complaints.String())
			})
		})
	}
}

func TestContractReplyIsLeftAsBaseMadeIt(t *testing.T) {
	underContract(t, []step{func(req *http.Request) (*http.Response, error) {
		connect(req, false)
		resp := response(req, 200, io.NopCloser(strings.NewReader("ab")), "Content-Type", "application/octet-stream")
		resp.Trailer = http.Header{"X-End": {"1"}}
		resp.Uncompressed = true
		return resp, nil
	}}, func(t *testing.T, rt http.RoundTripper, _ *fakeBase) {
		req := put(t, t.Context())
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		assert.Equal(t, http.Header{"X-End": {"1"}}, resp.Trailer)
		assert.True(t, resp.Uncompressed)
		assert.EqualValues(t, -1, resp.ContentLength)
		assert.NotSame(t, req, resp.Request)
		assert.Equal(t, req.Header, resp.Request.Header, "no key of ours")
		assert.Equal(t, req.URL, resp.Request.URL)
		assert.NotNil(t, resp.Request.GetBody)
	})
}

func TestContractIsSafeForConcurrentUse(t *testing.T) {
	underContract(t, []step{answers(200)}, func(t *testing.T, rt http.RoundTripper, base *fakeBase) {
		base.steps = []step{func(req *http.Request) (*http.Response, error) {
			connect(req, false)
			if len(req.URL.Query().Get("id"))%2 == 0 {
				return response(req, 200, io.NopCloser(strings.NewReader(req.URL.RawQuery))), nil
			}
			return response(req, 429, io.NopCloser(strings.NewReader(req.URL.RawQuery))), nil
		}}
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				query := "id=" + strings.Repeat("x", i)
				req := newRequest(t, t.Context(), http.MethodPost, "https://pay.test/?"+query, query)
				resp, err := rt.RoundTrip(req)
				if assert.NoError(t, err) {
					body, _ := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					assert.Equal(t, query, string(body))
					assert.Len(t, reportOf(t, resp, nil).Attempts, 1+i%2*3)
				}
			})
		}
		wg.Wait()
	})
}

func TestContractCloseIdleConnectionsIsPassedOn(t *testing.T) {
	base := playing(answers(200))
	for name, rt := range chains(t, base, outbound.Hooks{}) {
		base.idle = 0
		(&http.Client{Transport: rt}).CloseIdleConnections()
		assert.Equal(t, 1, base.idle, name)
	}
	without := newTransport(t, outbound.Config{Base: roundTripFunc(answers(200))})
	assert.NotPanics(t, without.CloseIdleConnections, "a Base without the method")
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
