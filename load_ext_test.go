package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// budgeted is a chain without a circuit, so that only the budget stops it.
func budgeted(base http.RoundTripper, p outbound.BudgetPolicy) outbound.Config {
	return outbound.Config{
		Base:    base,
		Retry:   outbound.RetryPolicy{Backoff: fixed(time.Millisecond), Budget: p},
		Breaker: outbound.BreakerPolicy{Disabled: true},
	}
}

func budgetLeft(tr *outbound.Transport) int { return tr.Circuits()[0].BudgetLeft }

// TestBudgetEmptyGivesTheOriginalBackAtOnce: answer or error, without a wait, and the reason in the report.
func TestBudgetEmptyGivesTheOriginalBackAtOnce(t *testing.T) {
	for name, end := range map[string]step{"answer": answers(503), "error": fails(io.ErrUnexpectedEOF), "429": answers(429)} {
		bubble(t, func(t *testing.T) {
			base := playing(end)
			tr := newTransport(t, budgeted(base, outbound.BudgetPolicy{Burst: 2, Ratio: 0.001}))
			_, _ = post(t, tr, t.Context())
			require.Equal(t, 3, base.hits(), "%s: two retries were saved up", name)
			start := time.Now()
			resp, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodPost, payURL, "x"))
			assert.Zero(t, time.Since(start), name)
			assert.Equal(t, 4, base.hits(), name)
			assert.ErrorIs(t, reportOf(t, resp, err).Stopped, outbound.ErrBudgetExhausted, name)
			if name == "error" {
				require.ErrorIs(t, err, outbound.ErrBudgetExhausted)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				return
			}
			require.NoError(t, err)
			data, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.NotEmpty(t, data)
		})
	}
}

func TestBudgetIsAShareOfTheCalls(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(503))
		tr := newTransport(t, budgeted(base, outbound.BudgetPolicy{}))
		for range 1000 {
			_, _ = post(t, tr, t.Context())
		}
		retries := base.hits() - 1000
		assert.InDelta(t, 10+100, retries, 2, "what was saved up, and a tenth of the calls")
	})
}

func TestBudgetLetsLowTrafficRetry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(503))
		tr := newTransport(t, budgeted(base, outbound.BudgetPolicy{Burst: 1, Ratio: 1e-6}))
		_, _ = post(t, tr, t.Context())
		require.Equal(t, 2, base.hits())
		for range 5 {
			time.Sleep(10 * time.Second)
			before := base.hits()
			_, _ = post(t, tr, t.Context())
			assert.Equal(t, 2, base.hits()-before, "one retry every 10 s")
			_, _ = post(t, tr, t.Context())
			assert.Equal(t, 3, base.hits()-before, "and no second one")
		}
	})
}

func TestBudgetSavesNoMoreThanItsBurst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(200))
		tr := newTransport(t, budgeted(base, outbound.BudgetPolicy{Burst: 3}))
		for range 100 {
			_, _ = post(t, tr, t.Context())
		}
		time.Sleep(time.Hour)
		assert.Equal(t, 3, budgetLeft(tr))
	})
}

func TestProvenUnsentIsFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(refuses())
		tr := newTransport(t, budgeted(base, outbound.BudgetPolicy{Burst: 1}))
		for range 20 {
			_, err := post(t, tr, t.Context())
			require.ErrorIs(t, err, outbound.ErrAttemptsExhausted)
		}
		assert.Equal(t, 80, base.hits())
		assert.Equal(t, 1, budgetLeft(tr))
	})
}

// TestDefinitiveAnswerRefunds the retry that brought it: single failures that heal cost nothing.
func TestDefinitiveAnswerRefunds(t *testing.T) {
	for _, final := range []int{201, 402, 404} {
		bubble(t, func(t *testing.T) {
			base := playing(answers(503), answers(final))
			base.steps = nil
			for range 100 {
				base.steps = append(base.steps, answers(503), answers(final))
			}
			tr := newTransport(t, budgeted(base, outbound.BudgetPolicy{Burst: 2, Ratio: 1e-6}))
			for range 100 {
				resp, err := post(t, tr, t.Context())
				require.NoError(t, err)
				require.Equal(t, final, resp.StatusCode)
			}
			assert.Equal(t, 2, budgetLeft(tr))
		})
	}
}

// TestRetryThatIsNeverSentCostsNothing: cancelled in the wait, or refused by the circuit after it.
func TestRetryThatIsNeverSentCostsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := budgeted(playing(answers(503)), outbound.BudgetPolicy{Burst: 2, Ratio: 1e-6})
		cfg.Retry.Backoff = fixed(5 * time.Second)
		tr := newTransport(t, cfg)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := post(t, tr, ctx)
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, 2, budgetLeft(tr))
	})
	bubble(t, func(t *testing.T) {
		cfg := budgeted(playing(answers(503)), outbound.BudgetPolicy{Burst: 2, Ratio: 1e-6})
		cfg.Retry.Backoff = fixed(time.Second)
		cfg.Breaker = outbound.BreakerPolicy{ConsecutiveFailures: 2, OpenFor: time.Minute}
		tr := newTransport(t, cfg)
		go func() {
			time.Sleep(500 * time.Millisecond)
			_, _ = send(tr, newRequest(t, outbound.WithOverride(t.Context(), outbound.Override{MaxAttempts: 1}), http.MethodGet, "https://pay.test/v1/payments", ""))
		}()
		_, err := post(t, tr, t.Context())
		require.ErrorIs(t, err, outbound.ErrCircuitOpen)
		assert.Equal(t, 2, budgetLeft(tr))
	})
}

func TestBudgetIsKeptPerTarget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "down.test" {
				return answers(503)(req)
			}
			return answers(200)(req)
		})
		tr := newTransport(t, budgeted(base, outbound.BudgetPolicy{}))
		for range 50 {
			_, _ = get(t, tr, "https://down.test/")
		}
		_, err := get(t, tr, "https://up.test/")
		require.NoError(t, err)
		c := tr.Circuits()
		assert.Equal(t, []int{0, 10}, []int{c[0].BudgetLeft, c[1].BudgetLeft})

		off := newTransport(t, budgeted(base, outbound.BudgetPolicy{Disabled: true}))
		for range 50 {
			_, _ = get(t, off, "https://down.test/")
		}
		assert.Equal(t, -1, off.Circuits()[0].BudgetLeft)
	})
}

// TestBudgetUnderLoad is for the race detector, and for tokens that get lost or doubled.
func TestBudgetUnderLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var requests atomic.Int64
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			requests.Add(1)
			return answers(503)(req)
		})
		tr := newTransport(t, budgeted(base, outbound.BudgetPolicy{Ratio: 0.5, Burst: 100}))
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() { _, _ = get(t, tr, payURL) })
		}
		wg.Wait()
		retries := requests.Load() - 1000
		assert.LessOrEqual(t, retries, int64(100+500))
		assert.Greater(t, retries, int64(100))
	})
}

// full is a chain with one place, or more, per target.
func full(base http.RoundTripper, places int, wait time.Duration) outbound.Config {
	return outbound.Config{Base: base, Bulkhead: outbound.BulkheadPolicy{MaxInFlight: places, MaxWait: wait}}
}

func inFlight(tr *outbound.Transport) int { return tr.Circuits()[0].CallsInFlight }

func TestBulkheadRefusesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(slowly(5*time.Second, answers(200)))
		tr := newTransport(t, full(base, 2, 0))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _, _ = post(t, tr, t.Context()) })
		}
		time.Sleep(time.Second)
		assert.Equal(t, 2, inFlight(tr))
		start := time.Now()
		body := &countingBody{Reader: http.NoBody}
		req := newRequest(t, t.Context(), http.MethodPost, "https://pay.test/", "")
		req.Body = body
		resp, err := send(tr, req)
		require.ErrorIs(t, err, outbound.ErrBulkheadFull)
		assert.Equal(t, outbound.OutcomeNotSent, outbound.OutcomeOf(resp, err))
		assert.Zero(t, time.Since(start))
		assert.Equal(t, 1, body.closed)
		_, err = get(t, tr, "https://another.test/")
		require.NoError(t, err, "the places are kept per target")
		wg.Wait()
		_, err = post(t, tr, t.Context())
		require.NoError(t, err)
	})
}

// TestBulkheadHoldsThePlaceUntilTheReplyIsDoneWith, on every path.
func TestBulkheadHoldsThePlaceUntilTheReplyIsDoneWith(t *testing.T) {
	binary := []string{"Content-Type", "application/octet-stream"}
	stream := []string{"Content-Type", "text/event-stream"}
	open := func(t *testing.T, tr *outbound.Transport, method string) *http.Response {
		resp, err := tr.RoundTrip(newRequest(t, t.Context(), method, payURL, ""))
		require.NoError(t, err)
		return resp
	}
	rows := map[string]struct {
		end  step
		held bool // still, after RoundTrip returned
		free func(*http.Response)
	}{
		"read to the end":   {repliesWith(200, "abc", binary...), true, func(r *http.Response) { _, _ = io.ReadAll(r.Body) }},
		"closed early":      {repliesWith(200, "abc", binary...), true, func(r *http.Response) { _ = r.Body.Close() }},
		"broke off":         {answersBody(200, breaking("a", io.ErrUnexpectedEOF), binary...), true, func(r *http.Response) { _, _ = io.ReadAll(r.Body) }},
		"timed out, unread": {answersBody(200, stalling("a"), binary...), true, func(*http.Response) { time.Sleep(30*time.Second + 1) }},
		"a stream, closed":  {answersBody(200, stalling("a"), stream...), true, func(r *http.Response) { _ = r.Body.Close() }},
		"a stream, idle":    {answersBody(200, stalling("a"), stream...), true, func(r *http.Response) { _, _ = io.ReadAll(r.Body) }},
		"no body":           {answers(204), false, nil},
		"a 503 to the end":  {answers(503), true, func(r *http.Response) { _ = r.Body.Close() }},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tr := newTransport(t, full(playing(row.end), 1, 0))
				resp := open(t, tr, http.MethodGet)
				if row.held {
					require.Equal(t, 1, inFlight(tr))
					_, err := get(t, tr, payURL)
					require.ErrorIs(t, err, outbound.ErrBulkheadFull)
					row.free(resp)
				}
				require.Equal(t, 0, inFlight(tr))
				_ = resp.Body.Close()
				_ = resp.Body.Close()
				require.Equal(t, 0, inFlight(tr), "given back once")
				_ = open(t, tr, http.MethodGet).Body.Close()
			})
		})
	}
}

// TestBulkheadGivesThePlaceBackWithoutAReply: errors, refusals, panics.
func TestBulkheadGivesThePlaceBackWithoutAReply(t *testing.T) {
	for name, row := range map[string]struct {
		steps []step
		spoil func(*outbound.Config)
	}{
		"network error": {[]step{fails(io.EOF)}, nil},
		"refused":       {[]step{refuses()}, nil},
		"timeout":       {[]step{hangs()}, nil},
		"circuit open":  {[]step{answers(500)}, func(cfg *outbound.Config) { cfg.Breaker.ConsecutiveFailures = 1 }},
		"Base panics":   {[]step{func(*http.Request) (*http.Response, error) { panic("boom") }}, nil},
		"hook panics": {[]step{answers(200)}, func(cfg *outbound.Config) {
			cfg.Hooks.Done = func(context.Context, outbound.Report) { panic("boom") }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cfg := full(playing(row.steps...), 1, 0)
				if row.spoil != nil {
					row.spoil(&cfg)
				}
				tr := newTransport(t, cfg)
				for range 3 {
					func() {
						defer func() { _ = recover() }()
						_, err := post(t, tr, t.Context())
						require.NotErrorIs(t, err, outbound.ErrBulkheadFull)
					}()
					require.Equal(t, 0, inFlight(tr))
				}
			})
		})
	}
}

func TestBulkheadWaitsInOrderOfArrival(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var order []string
		var mu sync.Mutex
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			order = append(order, req.URL.Path)
			mu.Unlock()
			return slowly(time.Second, answers(200))(req)
		})
		tr := newTransport(t, full(base, 1, 20*time.Second))
		var wg sync.WaitGroup
		var want []string
		for i := range 10 {
			path := fmt.Sprintf("/%d", i)
			want = append(want, path)
			wg.Go(func() {
				_, err := get(t, tr, "https://pay.test"+path)
				assert.NoError(t, err)
			})
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		assert.Equal(t, want, order)
	})
}

// TestBulkheadWaitIsBounded: by MaxWait, by the total timeout, by the caller's context.
func TestBulkheadWaitIsBounded(t *testing.T) {
	boom := errors.New("shutting down")
	for name, row := range map[string]struct {
		wait, total time.Duration
		cancel      time.Duration
		is          error
		after       time.Duration
	}{
		"MaxWait":       {3 * time.Second, 30 * time.Second, 0, outbound.ErrBulkheadFull, 3 * time.Second},
		"total timeout": {time.Minute, 20 * time.Second, 0, outbound.ErrTotalTimeout, 20 * time.Second},
		"cancel":        {time.Minute, 30 * time.Second, 2 * time.Second, boom, 2 * time.Second},
		"off":           {-1, 30 * time.Second, 0, outbound.ErrBulkheadFull, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cfg := full(playing(answersBody(200, stalling("x"), "Content-Type", "text/event-stream")), 1, row.wait)
				cfg.TotalTimeout = row.total
				tr := newTransport(t, cfg)
				held, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, payURL, ""))
				require.NoError(t, err)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if row.cancel != 0 {
					time.AfterFunc(row.cancel, func() { cancel(boom) })
				}
				start := time.Now()
				resp, err := send(tr, newRequest(t, ctx, http.MethodPost, payURL, "x"))
				require.ErrorIs(t, err, row.is)
				assert.Equal(t, row.after, time.Since(start))
				assert.Equal(t, outbound.OutcomeNotSent, outbound.OutcomeOf(resp, err))
				require.NoError(t, held.Body.Close())
				assert.Equal(t, 0, inFlight(tr), "no waiter left")
			})
		})
	}
}

// TestFullBulkheadLeavesAnUnknownActionUnknown.
func TestFullBulkheadLeavesAnUnknownActionUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tr := newTransport(t, full(playing(answersBody(200, stalling("x"), "Content-Type", "text/event-stream")), 1, 0))
		held, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, "https://pay.test/", ""))
		require.NoError(t, err)
		resp, err := post(t, tr, with(t, resumed(t, outbound.NewAction())))
		require.ErrorIs(t, err, outbound.ErrBulkheadFull)
		assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, err))
		require.NoError(t, held.Body.Close())
	})
}

// TestEachHopTakesAPlaceOfItsOwn: the one before has given its place back by then.
func TestEachHopTakesAPlaceOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tr := newTransport(t, full(playing(answers(307, "Location", "/b"), answers(307, "Location", "/c"), answers(201)), 1, 0))
		resp, err := do(t, tr, t.Context())
		require.NoError(t, err)
		assert.Equal(t, 201, resp.StatusCode)
		assert.Equal(t, 0, inFlight(tr))
	})
}

// TestTargetInUseKeepsItsPlaces: it is not thrown out of the registry for a new one.
func TestTargetInUseKeepsItsPlaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := full(playing(answersBody(200, stalling("x"), "Content-Type", "text/event-stream"), answers(200)), 1, 0)
		cfg.Breaker.MaxCircuits = 2
		tr := newTransport(t, cfg)
		held, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, payURL, ""))
		require.NoError(t, err)
		for i := range 10 {
			time.Sleep(time.Millisecond)
			_, err := get(t, tr, fmt.Sprintf("https://h%d.test/", i))
			require.NoError(t, err)
		}
		_, err = get(t, tr, payURL)
		require.ErrorIs(t, err, outbound.ErrBulkheadFull)
		require.NoError(t, held.Body.Close())
	})
}

// TestKeyIsMadeWithTheFirstAttempt: a call that met an open circuit and is let through after all has its key.
func TestKeyIsMadeWithTheFirstAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(500), slowly(8*time.Second, answers(500)), answers(201))
		cfg := full(base, 1, 20*time.Second)
		cfg.Breaker = outbound.BreakerPolicy{ConsecutiveFailures: 2, OpenFor: time.Second}
		cfg.Retry.MaxAttempts = 1
		tr := newTransport(t, cfg)
		_, err := get(t, tr, payURL)
		require.NoError(t, err)
		held := make(chan struct{})
		go func() {
			defer close(held)
			resp, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, payURL, ""))
			assert.NoError(t, err)
			time.Sleep(5 * time.Second) // the circuit is open, and the place is held
			_ = resp.Body.Close()
		}()
		time.Sleep(9 * time.Second)
		require.Equal(t, outbound.CircuitOpen, stateOf(tr))
		resp, err := post(t, tr, t.Context())
		require.NoError(t, err)
		<-held
		key := reportOf(t, resp, err).IdempotencyKey
		assert.Len(t, key, 36)
		assert.Equal(t, []string{key}, base.seen[2].keys())
	})
}

func TestRefusedCallMakesNoKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tr := newTransport(t, once(playing(answers(500)), 1))
		_, _ = get(t, tr, payURL)
		resp, err := post(t, tr, t.Context())
		require.ErrorIs(t, err, outbound.ErrCircuitOpen)
		assert.Empty(t, reportOf(t, resp, err).IdempotencyKey)
		a := outbound.NewAction()
		_, err = post(t, tr, with(t, a))
		require.ErrorIs(t, err, outbound.ErrCircuitOpen)
		assert.Equal(t, a.Key, reportOf(t, nil, err).IdempotencyKey, "an action has one already")
	})
}

// TestWindowIsCheckedAfterTheWaitForAPlace: an action may have grown too old in it.
func TestWindowIsCheckedAfterTheWaitForAPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answersBody(200, stalling("x"), "Content-Type", "text/event-stream"), answers(201))
		cfg := full(base, 1, 30*time.Second)
		cfg.AttemptTimeout, cfg.TotalTimeout = 2*time.Second, time.Minute
		cfg.Provider.KeyWindow = 10 * time.Second
		tr := newTransport(t, cfg)
		held, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, "https://pay.test/", ""))
		require.NoError(t, err)
		time.AfterFunc(20*time.Second, func() { _ = held.Body.Close() })
		a := &outbound.Action{Key: "k-1", Started: time.Now().Add(-5 * time.Second)}
		resp, err := post(t, tr, with(t, a))
		require.ErrorIs(t, err, outbound.ErrKeyExpired)
		r := reportOf(t, resp, err)
		assert.Equal(t, outbound.OutcomeUnknown, r.Outcome)
		assert.Equal(t, "k-1", r.IdempotencyKey)
		assert.Equal(t, 1, base.hits())
	})
}

func TestHugeBudgetIsABudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, p := range []outbound.BudgetPolicy{{Burst: 1<<63 - 1}, {Ratio: 1e300}, {Burst: 1<<63 - 1, Ratio: 1e300}} {
			base := playing(answers(503))
			tr := newTransport(t, budgeted(base, p))
			_, _ = post(t, tr, t.Context())
			assert.Equal(t, 4, base.hits(), "%+v", p)
			assert.Positive(t, budgetLeft(tr), "%+v", p)
		}
	})
}

// TestPanicGivesTheTokenBack: the retry was never sent.
func TestPanicGivesTheTokenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := budgeted(playing(answers(503)), outbound.BudgetPolicy{Ratio: 1e-6})
		cfg.Hooks.Retry = func(context.Context, outbound.Attempt, time.Duration) { panic("boom") }
		tr := newTransport(t, cfg)
		for range 20 {
			assert.Panics(t, func() { _, _ = post(t, tr, t.Context()) })
		}
		assert.Equal(t, 10, budgetLeft(tr))
		assert.Equal(t, 0, inFlight(tr))
	})
}

// TestPanicOnAdmissionClosesTheReader that GetBody had just made.
func TestPanicOnAdmissionClosesTheReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		panics := false
		cfg := once(playing(answers(500), answers(201)), 1)
		cfg.Hooks.Circuit = func(outbound.CircuitChange) {
			if panics {
				panic("boom")
			}
		}
		tr := newTransport(t, cfg)
		trip(t, tr)
		panics = true
		var made []*countingBody
		req := newRequest(t, with(t, outbound.NewAction()), http.MethodPost, payURL, "x")
		req.GetBody = func() (io.ReadCloser, error) {
			made = append(made, &countingBody{Reader: http.NoBody})
			return made[len(made)-1], nil
		}
		assert.Panics(t, func() { _, _ = tr.RoundTrip(req) })
		require.Len(t, made, 2, "one that was hashed, one to send")
		assert.Equal(t, []int{1, 1}, []int{made[0].closed, made[1].closed})
	})
}
