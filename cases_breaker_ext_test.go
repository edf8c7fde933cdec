package outbound_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
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

// caseOneTry is caseTripping without retries.
func caseOneTry(base http.RoundTripper, failures int) outbound.Config {
	cfg := caseTripping(base, failures)
	cfg.Retry.MaxAttempts = 1
	return cfg
}

func TestC57_CallersCancelIsNeutral(t *testing.T) {
	const at = 30 * time.Millisecond
	headersOnly := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	ends := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(at, cancel)
			return ctx, cancel
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, at) },
	}
	for stall, act := range map[string]http.HandlerFunc{"headers": caseHang, "body": headersOnly, "buffered body": caseStalledBody} {
		for end, limit := range ends {
			caseVirtual(t, stall+" "+end, func(t *testing.T) {
				acts := make([]http.HandlerFunc, 10, 11)
				for i := range acts {
					acts[i] = act
				}
				s := casePipe(t, append(acts, caseSend(200, "ok"))...)
				tr := caseNew(t, caseTripping(s.base, 3))
				for range acts {
					ctx, cancel := limit(t.Context())
					r := caseDo(t, tr, caseRequest(t, "POST", s.URL, "b").WithContext(ctx))
					require.True(t, r.Err != nil || r.ReadErr != nil)
					cancel()
				}
				caseOK(t, tr, caseRequest(t, "POST", s.URL, "b"))
				c := caseCircuit(t, tr)
				assert.Equal(t, outbound.CircuitClosed, c.State)
				assert.Zero(t, c.Failures)
				assert.Equal(t, 1, c.Successes)
				assert.Zero(t, c.Pending)
			})
		}
	}
}

func TestC59_StreamingProbeDoesNotHoldThePlace(t *testing.T) {
	for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": casePipe, "HTTP2": casePipeH2} {
		caseVirtual(t, wire, func(t *testing.T) {
			s := serve(t, caseSend(500, ""), caseEvents(nil, time.Second, 5, "Content-Type", "text/event-stream"), caseSend(200, "ok"))
			tr := caseNew(t, caseOneTry(s.base, 1))
			caseDo(t, tr, caseRequest(t, "GET", s.URL, ""))
			caseHalfOpen(t, tr)
			probe, err := tr.RoundTrip(caseRequest(t, "GET", s.URL, ""))
			require.NoError(t, err)
			assert.Equal(t, outbound.CircuitClosed, caseCircuit(t, tr).State, "a stream's verdict falls at its headers")
			caseOK(t, tr, caseRequest(t, "GET", s.URL, ""))
			require.NoError(t, probe.Body.Close())
		})
	}
}

func TestC59_SlowReplyHoldsThePlaceUntilTheAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := casePipe(t, caseSend(500, ""), caseEvents(nil, time.Second, 5, "Content-Type", "application/pdf"), caseSend(200, "ok"))
		cfg := caseOneTry(s.base, 1)
		cfg.AttemptTimeout = 300 * time.Millisecond
		cfg.TotalTimeout = time.Minute
		tr := caseNew(t, cfg)
		caseDo(t, tr, caseRequest(t, "GET", s.URL, ""))
		caseHalfOpen(t, tr)
		probe, err := tr.RoundTrip(caseRequest(t, "GET", s.URL, ""))
		require.NoError(t, err)
		refused := caseDo(t, tr, caseRequest(t, "GET", s.URL, ""))
		require.ErrorIs(t, refused.Err, outbound.ErrCircuitOpen)
		time.Sleep(301 * time.Millisecond)
		caseOK(t, tr, caseRequest(t, "GET", s.URL, ""))
		assert.Equal(t, outbound.CircuitClosed, caseCircuit(t, tr).State)
		require.NoError(t, probe.Body.Close())
	})
}

func TestC59_HungProbeFailsAtTheAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := casePipe(t, caseSend(500, ""), caseHang, caseSend(200, "ok"))
		cfg := caseOneTry(s.base, 1)
		cfg.AttemptTimeout = 100 * time.Millisecond
		tr := caseNew(t, cfg)
		caseDo(t, tr, caseRequest(t, "GET", s.URL, ""))
		caseHalfOpen(t, tr)
		r := caseDo(t, tr, caseRequest(t, "GET", s.URL, ""))
		require.ErrorIs(t, r.Err, outbound.ErrAttemptTimeout)
		assert.Equal(t, 100*time.Millisecond, r.Elapsed)
		caseHalfOpen(t, tr) // it was open again
		caseOK(t, tr, caseRequest(t, "GET", s.URL, ""))
		assert.Equal(t, outbound.CircuitClosed, caseCircuit(t, tr).State)
	})
}

func TestC62_WhatOpensTheCircuit(t *testing.T) {
	rows := map[string]struct {
		step  caseStep
		opens bool
	}{
		"500": {caseReply(500), true}, "502": {caseReply(502), true}, "503": {caseReply(503), true}, "599": {caseReply(599), true},
		"reset": {caseErr(syscall.ECONNRESET), true}, "EOF": {caseErr(io.EOF), true}, "stall": {caseStall, true},
		"404": {caseReply(404), false}, "401": {caseReply(401), false}, "400": {caseReply(400), false}, "422": {caseReply(422), false},
		"501": {caseReply(501), false}, "505": {caseReply(505), false}, "200": {caseReply(200), false}, "302": {caseReply(302), false},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			base := caseScript(row.step)
			cfg := caseOneTry(base, 0) // ten in a row
			cfg.Breaker.FailureRatio = 1
			cfg.Breaker.MinRequests = 1000
			tr := caseNew(t, cfg)
			for i := range 20 {
				r := caseDo(t, tr, caseGet(t))
				if row.opens && i >= 10 {
					require.ErrorIs(t, r.Err, outbound.ErrCircuitOpen)
					continue
				}
				require.NotErrorIs(t, r.Err, outbound.ErrCircuitOpen)
				require.Len(t, r.Report.Attempts, 1)
				require.Equal(t, r.Report.Attempts[0].Status, r.Status, "an answer reaches the caller")
			}
			want, hits := outbound.CircuitClosed, 20
			if row.opens {
				want, hits = outbound.CircuitOpen, 10
			}
			assert.Equal(t, want, caseCircuit(t, tr).State)
			assert.Equal(t, hits, base.count())
		})
	}
}

// caseNeutral are the answers that neither open nor heal.
var caseNeutral = map[string]caseStep{
	"429":             caseReply(429),
	"409":             caseReply(409),
	"replayed 500":    caseReply(500, "Idempotent-Replayed", "true"),
	"replayed 200":    caseReply(200, "Idempotent-Replayed", "true"),
	"429 with advice": caseReply(429, "X-Should-Retry", "false"),
}

func TestC63_NeutralAnswersDoNotOpen(t *testing.T) {
	for name, step := range caseNeutral {
		t.Run(name, func(t *testing.T) {
			base := caseScript(step)
			tr := caseNew(t, caseOneTry(base, 3))
			for range 50 {
				require.NoError(t, caseDo(t, tr, casePost(t)).Err)
			}
			c := caseCircuit(t, tr)
			assert.Equal(t, outbound.CircuitClosed, c.State)
			assert.Zero(t, c.Successes+c.Failures)
			assert.Equal(t, 50, base.count())
		})
	}
}

func TestC63_NeutralAnswersDoNotResetTheStreak(t *testing.T) {
	for name, step := range caseNeutral {
		t.Run(name, func(t *testing.T) {
			tr := caseNew(t, caseOneTry(caseScript(caseReply(500), caseReply(500), step, caseReply(500)), 3))
			for range 4 {
				caseDo(t, tr, casePost(t))
			}
			assert.Equal(t, outbound.CircuitOpen, caseCircuit(t, tr).State)
		})
	}
	tr := caseNew(t, caseOneTry(caseScript(caseReply(500), caseReply(500), caseReply(404), caseReply(500)), 3))
	for range 4 {
		caseDo(t, tr, casePost(t))
	}
	assert.Equal(t, outbound.CircuitClosed, caseCircuit(t, tr).State, "a 404 is a success")
}

func TestC63_NeutralProbeFreesItsPlace(t *testing.T) {
	for name, step := range caseNeutral {
		caseVirtual(t, name, func(t *testing.T) {
			base := caseScript(caseReply(500), step, step, step, caseReply(200))
			tr := caseNew(t, caseOneTry(base, 1))
			caseDo(t, tr, casePost(t))
			caseHalfOpen(t, tr)
			for range 3 {
				require.NoError(t, caseDo(t, tr, casePost(t)).Err)
				require.Equal(t, outbound.CircuitHalfOpen, caseCircuit(t, tr).State, "neither closed nor open")
			}
			caseOK(t, tr, casePost(t))
			assert.Equal(t, outbound.CircuitClosed, caseCircuit(t, tr).State)
		})
	}
}

func TestC64_OneCircuitPerHost(t *testing.T) {
	base := caseFunc(func(r *http.Request) (*http.Response, error) {
		if strings.EqualFold(r.URL.Hostname(), "a.test") && r.URL.Scheme == "http" && r.URL.Port() != "81" {
			return caseResponse(500, ""), nil
		}
		return caseResponse(200, ""), nil
	})
	tr := caseNew(t, caseOneTry(base, 2))
	caseDo(t, tr, caseRequest(t, "GET", "HTTP://A.test:80/x", ""))
	caseDo(t, tr, caseRequest(t, "GET", "http://a.test/y", ""))
	for url, open := range map[string]bool{
		"http://a.test/": true, "http://A.TEST/": true, "http://a.test:80/z": true, "http://user:pw@a.test/": true,
		"http://b.test/": false, "https://a.test/": false, "http://a.test:81/": false, "https://a.test:80/": false,
	} {
		r := caseDo(t, tr, caseRequest(t, "GET", url, ""))
		assert.Equal(t, open, r.Err != nil, url)
		if open {
			assert.ErrorIs(t, r.Err, outbound.ErrCircuitOpen)
		}
	}
	var names []string
	for _, c := range tr.Circuits() {
		names = append(names, c.Target)
	}
	assert.Equal(t, []string{"http://a.test:80", "http://a.test:81", "http://b.test:80", "https://a.test:443", "https://a.test:80"}, names)
}

func TestC64_StallingHostDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalled := make(chan struct{}, 20)
		base := caseFunc(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "a.test" {
				stalled <- struct{}{}
				return caseStall(r)
			}
			return caseResponse(200, ""), nil
		})
		tr := caseNew(t, caseOneTry(base, 100))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { caseDo(t, tr, caseRequest(t, "GET", "http://a.test/", "")) })
		}
		for range 20 {
			<-stalled
		}
		assert.Zero(t, caseOK(t, tr, caseRequest(t, "GET", "http://b.test/", "")).Elapsed)
		wg.Wait()
	})
}

func TestC65_CircuitsAreBounded(t *testing.T) {
	const hosts, bound = 20_000, 4096 // a fifth of the recipe's
	caseVirtual(t, "default bound", func(t *testing.T) {
		tr := caseNew(t, caseOneTry(caseFunc(caseReply(200)), 1))
		grown := -caseHeap()
		for i := range hosts {
			caseDo(t, tr, caseRequest(t, "GET", fmt.Sprintf("http://h%d.test/", i), ""))
		}
		grown += caseHeap()
		assert.Len(t, tr.Circuits(), bound)
		assert.Less(t, grown, int64(30<<20))
	})
	caseVirtual(t, "an open one stays", func(t *testing.T) {
		base := caseFunc(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "x.test" {
				return caseResponse(500, ""), nil
			}
			return caseResponse(200, ""), nil
		})
		cfg := caseOneTry(base, 1)
		cfg.Breaker.MaxCircuits, cfg.Breaker.OpenFor = 16, time.Hour
		tr := caseNew(t, cfg)
		x := func() caseResult { return caseDo(t, tr, caseRequest(t, "GET", "http://x.test/", "")) }
		require.NoError(t, x().Err)
		for i := range hosts / 4 {
			caseDo(t, tr, caseRequest(t, "GET", fmt.Sprintf("http://h%d.test/", i), ""))
			if i%100 == 0 {
				require.ErrorIs(t, x().Err, outbound.ErrCircuitOpen, "after %d others", i)
			}
			time.Sleep(10 * time.Millisecond)
		}
		assert.LessOrEqual(t, len(tr.Circuits()), 16)
		time.Sleep(2 * time.Hour)
		require.NoError(t, x().Err, "its open time is over")
	})
}

func TestC66_OpenCircuitFailsFast(t *testing.T) {
	for _, method := range []string{"GET", "POST", "PUT"} {
		caseVirtual(t, method, func(t *testing.T) {
			base, hooks := caseScript(caseReply(500)), caseHooks{}
			cfg := caseTripping(base, 1)
			cfg.Retry, cfg.Hooks = outbound.RetryPolicy{MaxAttempts: 5, Backoff: caseBackoff(time.Second)}, hooks.hooks()
			tr := caseNew(t, cfg)
			caseDo(t, tr, caseRequest(t, method, caseURL, "b"))
			require.Equal(t, 1, base.count())
			r := caseDo(t, tr, caseRequest(t, method, caseURL, "b"))
			require.ErrorIs(t, r.Err, outbound.ErrCircuitOpen)
			require.ErrorIs(t, r.Report.Stopped, outbound.ErrCircuitOpen)
			var refusal *outbound.CircuitOpenError
			require.ErrorAs(t, r.Err, &refusal)
			assert.Equal(t, outbound.CircuitOpen, refusal.State)
			assert.Equal(t, "http://api.test:80", refusal.Target)
			assert.Equal(t, refusal.NextProbe, time.Now().Add(r.Report.RetryAfter))
			assert.Zero(t, r.Elapsed)
			assert.Equal(t, 1, base.count())
			assert.Empty(t, hooks.retries)
			assert.Empty(t, r.Report.Attempts)
			assert.Equal(t, outbound.OutcomeNotSent, r.Report.Outcome)
		})
	}
}

func TestC66_ProbesOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base, hooks := caseScript(caseReply(500), caseStall), caseHooks{}
		cfg := caseTripping(base, 1)
		cfg.Hooks, cfg.Breaker.Probes = hooks.hooks(), 2
		cfg.Retry.Backoff = caseBackoff(time.Second)
		tr := caseNew(t, cfg)
		caseDo(t, tr, caseGet(t))
		caseHalfOpen(t, tr)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { caseDo(t, tr, caseGet(t).WithContext(ctx)) })
		}
		synctest.Wait()
		require.Equal(t, 3, base.count(), "two probes under way")
		r := caseDo(t, tr, caseGet(t))
		require.ErrorIs(t, r.Err, outbound.ErrCircuitOpen)
		var refusal *outbound.CircuitOpenError
		require.ErrorAs(t, r.Err, &refusal)
		assert.Equal(t, outbound.CircuitHalfOpen, refusal.State)
		assert.Zero(t, r.Elapsed)
		assert.Equal(t, 3, base.count())
		assert.Empty(t, hooks.retries)
		cancel()
		wg.Wait()
	})
}

func TestC67_TheRealFailureSurvives(t *testing.T) {
	cfgOf := func(base http.RoundTripper) outbound.Config {
		cfg := caseTripping(base, 2)
		cfg.Retry.MaxAttempts = 5
		return cfg
	}
	for _, method := range []string{"GET", "POST"} {
		caseVirtual(t, "refused "+method, func(t *testing.T) {
			s := casePipe(t, caseSend(200, "never")).failing(caseRefused(), caseRefused(), caseRefused())
			r := caseDo(t, caseNew(t, cfgOf(s.base)), caseRequest(t, method, s.URL, "b"))
			require.ErrorIs(t, r.Err, syscall.ECONNREFUSED)
			require.ErrorIs(t, r.Err, outbound.ErrCircuitOpen)
			assert.EqualValues(t, 2, s.dials.Load())
			assert.Len(t, r.Report.Attempts, 2)
			assert.Equal(t, outbound.OutcomeNotSent, r.Report.Outcome)
		})
		caseVirtual(t, "503 "+method, func(t *testing.T) {
			base := caseScript(caseReplyWith(503, "why"))
			r := caseDo(t, caseNew(t, cfgOf(base)), caseRequest(t, method, caseURL, "b"))
			require.NoError(t, r.Err)
			assert.Equal(t, 503, r.Status)
			assert.Equal(t, "why", r.Body)
			assert.Equal(t, 2, base.count())
			require.ErrorIs(t, r.Report.Stopped, outbound.ErrCircuitOpen)
			assert.Positive(t, r.Report.RetryAfter)
		})
	}
}

// caseShort is a GET's reply whose body breaks off.
var caseShort = caseCut(200, 1000, 10, "Content-Type", "application/octet-stream")

func TestC68_BodiesThatBreakOpenTheCircuit(t *testing.T) {
	rows := map[string]struct {
		method   string
		attempts int // each is one failure
		calls    int
	}{
		"handed over":             {"GET", 1, 3},
		"read inside the attempt": {"POST", 1, 3},
		"each attempt counts":     {"POST", 4, 1},
	}
	for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": casePipe, "HTTP2": casePipeH2} {
		for name, row := range rows {
			caseVirtual(t, wire+" "+name, func(t *testing.T) {
				s := serve(t, caseShort)
				cfg := caseTripping(s.base, 3)
				cfg.Retry.MaxAttempts = row.attempts
				tr := caseNew(t, cfg)
				for range row.calls {
					r := caseDo(t, tr, caseRequest(t, row.method, s.URL, "b"))
					require.NoError(t, r.Err)
					require.Error(t, r.ReadErr)
				}
				assert.Equal(t, 3, s.count())
				require.ErrorIs(t, caseDo(t, tr, caseRequest(t, row.method, s.URL, "b")).Err, outbound.ErrCircuitOpen)
			})
		}
	}
}

func TestC68_CallersEarlyEndOpensNothing(t *testing.T) {
	rows := map[string]func(*http.Response, context.CancelFunc){
		"close": func(resp *http.Response, _ context.CancelFunc) { _ = resp.Body.Close() },
		"cancel": func(resp *http.Response, cancel context.CancelFunc) {
			cancel()
			_, _ = caseRead(resp)
		},
		"read a bit, close": func(resp *http.Response, _ context.CancelFunc) {
			_, _ = io.ReadFull(resp.Body, make([]byte, 6))
			_ = resp.Body.Close()
			_, _ = resp.Body.Read(make([]byte, 1))
		},
	}
	for name, end := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			s := casePipe(t, caseEvents(nil, 0, 1, "Content-Type", "application/octet-stream"))
			tr := caseNew(t, caseOneTry(s.base, 3))
			for range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				resp, err := tr.RoundTrip(caseRequest(t, "GET", s.URL, "").WithContext(ctx))
				require.NoError(t, err)
				end(resp, cancel)
				cancel()
			}
			c := caseCircuit(t, tr)
			assert.Equal(t, outbound.CircuitClosed, c.State)
			assert.Zero(t, c.Failures)
			assert.Zero(t, c.Pending)
			assert.Equal(t, 20, s.count())
		})
	}
}

// caseEarlyExits are the ways of a probe to end before it has a result.
var caseEarlyExits = map[string]struct {
	probe  caseStep
	set    func(*outbound.Config)
	req    func(*http.Request)
	panics bool
	opens  bool // it is a failure
}{
	"Base panics":     {probe: func(*http.Request) (*http.Response, error) { panic("base") }, panics: true},
	"Base gives nil":  {probe: caseErr(nil), opens: true},
	"Base gives both": {probe: func(*http.Request) (*http.Response, error) { return caseResponse(200, ""), io.ErrUnexpectedEOF }, opens: true},
	"Judge panics": {
		probe: caseReply(404),
		set: func(c *outbound.Config) {
			c.Provider.Judge = func(resp *http.Response, _ []byte) outbound.Verdict {
				if resp.StatusCode == 404 {
					panic("judge")
				}
				return outbound.Verdict{}
			}
		},
		panics: true,
	},
	"body panics": {
		probe: func(*http.Request) (*http.Response, error) {
			resp := caseResponse(200, "xx")
			resp.Body = io.NopCloser(casePanics{})
			return resp, nil
		},
		panics: true,
	},
	"If panics": {
		probe:  caseReply(429),
		set:    func(c *outbound.Config) { c.Retry.If = func(outbound.Attempt) bool { panic("if") } },
		panics: true,
	},
	"Attempt hook panics": {
		probe: caseReply(429),
		set: func(c *outbound.Config) {
			c.Hooks.Attempt = func(_ context.Context, a outbound.Attempt) {
				if a.Status == 429 {
					panic("hook")
				}
			}
		},
		panics: true,
	},
	"Retry hook panics": {
		probe: caseReply(429),
		set: func(c *outbound.Config) {
			c.Hooks.Retry = func(context.Context, outbound.Attempt, time.Duration) { panic("hook") }
		},
		panics: true,
	},
	"Done hook panics": {
		probe: caseReply(400),
		set: func(c *outbound.Config) {
			c.Hooks.Done = func(_ context.Context, r outbound.Report) {
				if r.Outcome == outbound.OutcomeRejected {
					panic("hook")
				}
			}
		},
		panics: true,
	},
	"GetBody fails": {
		probe: caseReply(429),
		req:   func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, errCase } },
	},
	"GetBody panics": {
		probe:  caseReply(429),
		req:    func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { panic("body") } },
		panics: true,
	},
}

type casePanics struct{}

func (casePanics) Read([]byte) (int, error) { panic("read") }

func TestC69_NoEarlyExitKeepsTheProbesPlace(t *testing.T) {
	for name, row := range caseEarlyExits {
		caseVirtual(t, name, func(t *testing.T) {
			base := caseScript(caseReply(503), row.probe, caseReply(200))
			cfg := caseTripping(base, 1)
			if row.set != nil {
				row.set(&cfg)
			}
			if row.opens {
				cfg.Retry.MaxAttempts = 1
			}
			tr := caseNew(t, cfg)
			caseDo(t, tr, caseOneShot(casePost(t)))
			caseHalfOpen(t, tr)
			req := casePost(t)
			if row.req != nil {
				row.req(req)
			}
			if row.panics {
				assert.Panics(t, func() { _, _ = tr.RoundTrip(req) }, "the panic goes on to the caller")
			} else {
				caseDo(t, tr, req)
			}
			assert.Zero(t, caseCircuit(t, tr).Pending)
			if row.opens {
				caseHalfOpen(t, tr)
			}
			caseOK(t, tr, casePost(t))
			assert.Equal(t, outbound.CircuitClosed, caseCircuit(t, tr).State)
			for i, n := range base.closes() {
				assert.Positive(t, n, "reply %d is open", i+1)
			}
		})
	}
}
