package outbound_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// once is a chain that makes one attempt a call, with a circuit that trips after n failures in a row.
func once(base http.RoundTripper, n int) outbound.Config {
	return outbound.Config{
		Base:    base,
		Retry:   outbound.RetryPolicy{MaxAttempts: 1},
		Breaker: outbound.BreakerPolicy{ConsecutiveFailures: n, OpenFor: 4 * time.Second},
	}
}

func get(t *testing.T, tr http.RoundTripper, url string) (*http.Response, error) {
	t.Helper()
	return send(tr, newRequest(t, t.Context(), http.MethodGet, url, ""))
}

func stateOf(tr *outbound.Transport) outbound.CircuitState { return tr.Circuits()[0].State }

const payURL = "https://pay.test/"

func TestWhatCountsForTheCircuit(t *testing.T) {
	rows := map[string]struct {
		end    step
		opens  bool
		resets bool
	}{
		"network error":   {fails(io.EOF), true, false},
		"refused":         {refuses(), true, false},
		"attempt timeout": {slowly(time.Hour, answers(200)), true, false},
		"500":             {answers(500), true, false},
		"503":             {answers(503), true, false},
		"599":             {answers(599), true, false},
		"broken body":     {answersBody(200, breaking("x", io.ErrUnexpectedEOF)), true, false},
		"501":             {answers(501), false, true},
		"505":             {answers(505), false, true},
		"200":             {answers(200), false, true},
		"404":             {answers(404), false, true},
		"401":             {answers(401), false, true},
		"302":             {answers(302), false, true},
		"429 is neutral":  {answers(429), false, false},
		"409 is neutral":  {answers(409), false, false},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tr := newTransport(t, once(playing(row.end), 20))
				for range 20 {
					_, _ = get(t, tr, payURL)
				}
				assert.Equal(t, row.opens, stateOf(tr) == outbound.CircuitOpen)

				tr = newTransport(t, once(playing(answers(500), answers(500), row.end, answers(500)), 3))
				for range 4 {
					_, _ = get(t, tr, payURL)
				}
				assert.Equal(t, !row.resets, stateOf(tr) == outbound.CircuitOpen, "does it break the row")
			})
		})
	}
}

func TestReplayedAnswersAreNeutral(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tr := newTransport(t, once(playing(answers(500, "Idempotent-Replayed", "true")), 3))
		for range 10 {
			_, err := post(t, tr, t.Context())
			require.NoError(t, err)
		}
		assert.Equal(t, outbound.CircuitClosed, stateOf(tr))
		assert.Zero(t, tr.Circuits()[0].Failures)
	})
}

func TestCallersCancelAndDeadlineAreNeutral(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tr := newTransport(t, once(playing(hangs()), 3))
		for i := range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if i%2 == 0 {
				time.AfterFunc(time.Millisecond, cancel)
			}
			_, err := post(t, tr, ctx)
			require.Error(t, err)
			cancel()
		}
		assert.Equal(t, outbound.CircuitClosed, stateOf(tr))
		c := tr.Circuits()[0]
		assert.Equal(t, []int{0, 0, 0, 0}, []int{c.ConsecutiveFailures, c.Failures, c.Successes, c.Pending})
	})
}

// TestRowOfFailuresIsNotForgotten however sparse the traffic: gobreaker's own window would.
func TestRowOfFailuresIsNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tr := newTransport(t, once(playing(answers(500)), 5))
		for i := range 5 {
			assert.Equal(t, outbound.CircuitClosed, append(tr.Circuits(), outbound.Circuit{})[0].State, "after %d", i)
			_, err := get(t, tr, payURL)
			require.NoError(t, err)
			time.Sleep(10 * time.Minute)
		}
		assert.Equal(t, outbound.CircuitOpen, stateOf(tr))
	})
}

func TestRatioInTheWindow(t *testing.T) {
	alternating := func() *fakeBase { return playing(answers(200), answers(500)) }
	for name, row := range map[string]struct {
		policy outbound.BreakerPolicy
		calls  int
		pause  time.Duration
		opens  bool
	}{
		"half of 20":            {outbound.BreakerPolicy{}, 20, 0, true},
		"half of 19":            {outbound.BreakerPolicy{}, 19, 0, false},
		"spread over too long":  {outbound.BreakerPolicy{}, 40, 10 * time.Second, false},
		"a higher ratio":        {outbound.BreakerPolicy{FailureRatio: 0.6}, 40, 0, false},
		"a smaller minimum":     {outbound.BreakerPolicy{MinRequests: 4}, 4, 0, true},
		"the window turned off": {outbound.BreakerPolicy{Window: -1}, 100, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				base := alternating()
				steps := base.steps
				for len(base.steps) < row.calls {
					base.steps = append(base.steps, steps...)
				}
				tr := newTransport(t, outbound.Config{Base: base, Retry: outbound.RetryPolicy{MaxAttempts: 1}, Breaker: row.policy})
				for range row.calls {
					_, _ = get(t, tr, payURL)
					time.Sleep(row.pause)
				}
				assert.Equal(t, row.opens, stateOf(tr) == outbound.CircuitOpen)
			})
		})
	}
}

func TestOpenCircuitRefusesAndSaysUntilWhen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(500), answers(500), answers(200))
		tr := newTransport(t, once(base, 2))
		for range 2 {
			_, _ = get(t, tr, payURL)
		}
		start := time.Now()
		resp, err := post(t, tr, t.Context())
		require.ErrorIs(t, err, outbound.ErrCircuitOpen)
		assert.Zero(t, time.Since(start), "no wait")
		assert.Equal(t, outbound.OutcomeNotSent, outbound.OutcomeOf(resp, err))
		var open *outbound.CircuitOpenError
		require.ErrorAs(t, err, &open)
		assert.Equal(t, "https://pay.test:443", open.Target)
		assert.Equal(t, outbound.CircuitOpen, open.State)
		wait := time.Until(open.NextProbe)
		assert.InDelta(t, 4, wait.Seconds(), 1, "4 s, give or take a quarter")
		r := reportOf(t, resp, err)
		assert.Empty(t, r.Attempts)
		assert.Equal(t, wait, r.RetryAfter)
		assert.Equal(t, 2, base.hits())

		time.Sleep(wait + 1)
		assert.Equal(t, outbound.CircuitOpen, stateOf(tr), "looking moves nothing")
		_, err = get(t, tr, payURL)
		require.NoError(t, err)
		assert.Equal(t, outbound.CircuitClosed, stateOf(tr))
	})
}

func TestOpenForIsSpreadOverTheCircuits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tr := newTransport(t, once(playing(answers(500)), 1))
		var shortest, longest time.Duration = time.Hour, 0
		for i := range 400 {
			_, _ = get(t, tr, fmt.Sprintf("https://host%d.test/", i))
		}
		for _, c := range tr.Circuits() {
			d := c.NextProbe.Sub(c.Since)
			shortest, longest = min(shortest, d), max(longest, d)
		}
		assert.GreaterOrEqual(t, shortest, 3*time.Second)
		assert.Less(t, shortest, 3100*time.Millisecond)
		assert.LessOrEqual(t, longest, 5*time.Second)
		assert.Greater(t, longest, 4900*time.Millisecond)
	})
}

// trip opens the circuit and waits until a probe may go.
func trip(t *testing.T, tr *outbound.Transport) {
	t.Helper()
	_, _ = get(t, tr, payURL)
	require.Equal(t, outbound.CircuitOpen, stateOf(tr))
	time.Sleep(5*time.Second + 1)
}

func TestProbeFreesItsPlaceOnEveryPath(t *testing.T) {
	cancelled := func(t *testing.T, tr *outbound.Transport) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = post(t, tr, ctx)
	}
	panics := func(t *testing.T, tr *outbound.Transport) {
		assert.PanicsWithValue(t, "base", func() { _, _ = get(t, tr, payURL) })
	}
	plain := func(t *testing.T, tr *outbound.Transport) { _, _ = get(t, tr, payURL) }
	leftOpen := func(t *testing.T, tr *outbound.Transport) {
		resp, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, payURL, ""))
		require.NoError(t, err)
		time.Sleep(10*time.Second + 1)
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	rows := map[string]struct {
		probe step
		call  func(*testing.T, *outbound.Transport)
		after outbound.CircuitState
	}{
		"cancelled":         {hangs(), cancelled, outbound.CircuitHalfOpen},
		"429":               {answers(429), plain, outbound.CircuitHalfOpen},
		"Base panics":       {func(*http.Request) (*http.Response, error) { panic("base") }, panics, outbound.CircuitHalfOpen},
		"failed":            {answers(500), plain, outbound.CircuitOpen},
		"attempt timeout":   {slowly(time.Hour, answers(200)), plain, outbound.CircuitOpen},
		"nothing returned":  {func(*http.Request) (*http.Response, error) { return nil, nil }, plain, outbound.CircuitOpen},
		"body left unread":  {answersBody(200, stalling("x")), leftOpen, outbound.CircuitClosed},
		"stream still open": {answersBody(200, stalling("x"), "Content-Type", "text/event-stream"), leftOpen, outbound.CircuitClosed},
		"succeeded":         {answers(200), plain, outbound.CircuitClosed},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				tr := newTransport(t, once(playing(answers(500), row.probe, answers(200)), 1))
				trip(t, tr)
				row.call(t, tr)
				assert.Equal(t, row.after, stateOf(tr))
				assert.Zero(t, tr.Circuits()[0].Pending)
				if row.after == outbound.CircuitOpen {
					time.Sleep(5*time.Second + 1)
				}
				_, err := get(t, tr, payURL)
				require.NoError(t, err, "the next call is let through")
				assert.Equal(t, outbound.CircuitClosed, stateOf(tr))
			})
		})
	}
}

func TestHalfOpenLetsOnlyProbesThrough(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(500), slowly(time.Second, answers(200)))
		tr := newTransport(t, once(base, 1))
		trip(t, tr)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = get(t, tr, payURL) })
		time.Sleep(time.Millisecond)
		_, err := get(t, tr, payURL)
		require.ErrorIs(t, err, outbound.ErrCircuitOpen)
		var open *outbound.CircuitOpenError
		require.ErrorAs(t, err, &open)
		assert.Equal(t, outbound.CircuitHalfOpen, open.State)
		assert.ErrorContains(t, err, "half-open")
		wg.Wait()
		assert.Equal(t, 2, base.hits())
		assert.Equal(t, outbound.CircuitClosed, stateOf(tr))
	})
}

// TestCircuitThatOpensInTheLoop: the reply comes back instead of being thrown away for a retry that cannot be made.
func TestCircuitThatOpensInTheLoop(t *testing.T) {
	for name, end := range map[string]step{"answer": answers(503), "error": refuses()} {
		bubble(t, func(t *testing.T) {
			base := playing(end)
			cfg := once(base, 2)
			cfg.Retry = outbound.RetryPolicy{MaxAttempts: 5, Backoff: fixed(time.Second)}
			start := time.Now()
			resp, err := newTransport(t, cfg).RoundTrip(newRequest(t, t.Context(), http.MethodPut, payURL, "x"))
			assert.Equal(t, 2, base.hits())
			assert.Equal(t, time.Second, time.Since(start), "one wait, none for the circuit")
			r := reportOf(t, resp, err)
			assert.ErrorIs(t, r.Stopped, outbound.ErrCircuitOpen)
			assert.Positive(t, r.RetryAfter)
			if name == "error" {
				require.ErrorIs(t, err, outbound.ErrCircuitOpen)
				require.ErrorIs(t, err, errRefused)
				return
			}
			require.NoError(t, err)
			data, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, `{"status":503}`, string(data))
		})
	}
}

// TestCircuitThatOpensDuringTheWait: the reply was given up already; its status stays in the report.
func TestCircuitThatOpensDuringTheWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(503))
		cfg := once(base, 2)
		cfg.Retry = outbound.RetryPolicy{MaxAttempts: 5, Backoff: fixed(2 * time.Second)}
		tr := newTransport(t, cfg)
		go func() {
			time.Sleep(time.Second)
			_, _ = get(t, tr, payURL)
		}()
		resp, err := post(t, tr, t.Context())
		require.ErrorIs(t, err, outbound.ErrCircuitOpen)
		r := reportOf(t, resp, err)
		require.Len(t, r.Attempts, 1)
		assert.Equal(t, 503, r.Attempts[0].Status)
		assert.Equal(t, outbound.OutcomeUnknown, r.Outcome)
	})
}

func TestSlowCallsCount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := once(playing(slowly(3*time.Second, answers(200))), 3)
		cfg.Breaker.SlowCall = 2 * time.Second
		tr := newTransport(t, cfg)
		for range 3 {
			_, err := get(t, tr, payURL)
			require.NoError(t, err)
		}
		assert.Equal(t, outbound.CircuitOpen, stateOf(tr))
	})
}

func TestTargets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tr := newTransport(t, outbound.Config{Base: playing(answers(200))})
		for _, url := range []string{"HTTPS://A.test/x", "https://a.TEST:443/y", "https://a.test", "http://a.test", "http://a.test:80", "https://a.test:8443", "https://[::1]/", "https://[::1]:443/z"} {
			_, err := get(t, tr, url)
			require.NoError(t, err)
		}
		var targets []string
		for _, c := range tr.Circuits() {
			targets = append(targets, c.Target)
		}
		assert.Equal(t, []string{"http://a.test:80", "https://[::1]:443", "https://a.test:443", "https://a.test:8443"}, targets)

		byTenant := newTransport(t, outbound.Config{Base: playing(answers(200)), Target: func(r *http.Request) string { return r.Header.Get("X-Tenant") }})
		for _, tenant := range []string{"b", "a", "b"} {
			req := newRequest(t, t.Context(), http.MethodGet, payURL, "")
			req.Header.Set("X-Tenant", tenant)
			_, err := send(byTenant, req)
			require.NoError(t, err)
		}
		require.Len(t, byTenant.Circuits(), 2)
		assert.Equal(t, "a", byTenant.Circuits()[0].Target)
		assert.Equal(t, 2, byTenant.Circuits()[1].Successes)
	})
}

// TestOneDeadTargetLeavesTheOthersAlone, and holds nobody up.
func TestOneDeadTargetLeavesTheOthersAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "dead.test" {
				return slowly(time.Hour, answers(200))(req)
			}
			return answers(200)(req)
		})
		tr := newTransport(t, once(base, 3))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { _, _ = get(t, tr, "https://dead.test/") })
		}
		time.Sleep(time.Millisecond)
		start := time.Now()
		_, err := get(t, tr, "https://alive.test/")
		require.NoError(t, err)
		assert.Zero(t, time.Since(start))
		wg.Wait()
		assert.Equal(t, outbound.CircuitClosed, tr.Circuits()[0].State)
		assert.Equal(t, outbound.CircuitOpen, tr.Circuits()[1].State)
	})
}

func TestCircuitsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			if req.URL.Host == "dead.test" {
				return answers(500)(req)
			}
			return answers(200)(req)
		})
		cfg := once(base, 1)
		cfg.Breaker.MaxCircuits = 10
		tr := newTransport(t, cfg)
		_, _ = get(t, tr, "https://dead.test/")
		for i := range 1000 {
			_, err := get(t, tr, fmt.Sprintf("https://h%d.test/", i))
			require.NoError(t, err)
			_, err = get(t, tr, "https://often.test/")
			require.NoError(t, err)
			require.LessOrEqual(t, len(tr.Circuits()), 10)
			time.Sleep(time.Millisecond)
			if i%100 == 0 {
				_, err = get(t, tr, "https://dead.test/")
				require.ErrorIs(t, err, outbound.ErrCircuitOpen, "an open circuit in time stays")
			}
		}
		var kept []string
		for _, c := range tr.Circuits() {
			kept = append(kept, strings.TrimSuffix(strings.TrimPrefix(c.Target, "https://"), ".test:443"))
			if c.Target == "https://often.test:443" {
				assert.Equal(t, 1000, c.Successes, "the one in use was never thrown out")
			}
		}
		assert.Equal(t, []string{"dead", "h992", "h993", "h994", "h995", "h996", "h997", "h998", "h999", "often"}, kept, "the longest unused go first")

		time.Sleep(time.Hour)
		for i := range 20 {
			_, err := get(t, tr, fmt.Sprintf("https://n%d.test/", i))
			require.NoError(t, err)
		}
		for _, c := range tr.Circuits() {
			assert.NotEqual(t, outbound.CircuitOpen, c.State, "open past its time goes like any other")
		}
	})
}

func TestWhereAllCircuitsAreOpenANewTargetGoesWithout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := roundTripFunc(answers(500))
		cfg := once(base, 1)
		cfg.Breaker.MaxCircuits = 2
		tr := newTransport(t, cfg)
		for _, host := range []string{"a", "b", "c", "c"} {
			resp, err := get(t, tr, "https://"+host+".test/")
			require.NoError(t, err)
			assert.Equal(t, 500, resp.StatusCode)
		}
		assert.Len(t, tr.Circuits(), 2)
	})
}

// TestCircuitHook: in order, outside the lock, on the goroutine of the call, and free to use the client.
func TestCircuitHook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var tr *outbound.Transport
		var changes []outbound.CircuitChange
		var stacks []string
		cfg := once(playing(answers(500), answers(500), answers(200)), 1)
		cfg.Hooks.Circuit = func(c outbound.CircuitChange) {
			changes = append(changes, c)
			_ = tr.Circuits()
			_, _ = get(t, tr, "https://elsewhere.test/")
			stack := make([]byte, 1<<14)
			stacks = append(stacks, string(stack[:runtime.Stack(stack, false)]))
		}
		tr = newTransport(t, cfg)
		_, _ = get(t, tr, payURL)
		time.Sleep(6 * time.Second)
		_, _ = get(t, tr, payURL)
		var seen []string
		for _, c := range changes {
			if c.Target == "https://pay.test:443" {
				seen = append(seen, c.From.String()+" to "+c.To.String())
			}
			assert.False(t, c.At.IsZero())
		}
		assert.Equal(t, []string{"closed to open", "open to half-open", "half-open to closed"}, seen)
		for _, s := range stacks {
			assert.Contains(t, s, "TestCircuitHook", "on the caller's goroutine")
		}
	})
}

// TestCircuitHookIsNotCalledByATimer: a verdict that a timer gave is told by the next use.
func TestCircuitHookIsNotCalledByATimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var changes []outbound.CircuitState
		cfg := once(playing(answers(500), answersBody(200, stalling("x")), answers(200)), 1)
		cfg.Hooks.Circuit = func(c outbound.CircuitChange) { changes = append(changes, c.To) }
		tr := newTransport(t, cfg)
		trip(t, tr)
		resp, err := tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, payURL, ""))
		require.NoError(t, err)
		time.Sleep(10*time.Second + 1)
		assert.Equal(t, outbound.CircuitClosed, stateOf(tr))
		assert.Len(t, changes, 2)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, []outbound.CircuitState{outbound.CircuitOpen, outbound.CircuitHalfOpen, outbound.CircuitClosed}, changes)
	})
}

func TestCircuitCanBeTurnedOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(500))
		cfg := once(base, 1)
		cfg.Breaker.Disabled = true
		tr := newTransport(t, cfg)
		for range 50 {
			_, err := get(t, tr, payURL)
			require.NoError(t, err)
		}
		c := tr.Circuits()[0]
		assert.Equal(t, outbound.CircuitClosed, c.State)
		assert.Zero(t, c.Failures+c.Successes+c.ConsecutiveFailures)
	})
}

// TestInvalidRequestsDoNotTouchTheCircuit: they say nothing of the target.
func TestInvalidRequestsDoNotTouchTheCircuit(t *testing.T) {
	tr := newTransport(t, once(playing(answers(200)), 1))
	req := newRequest(t, t.Context(), http.MethodGet, payURL, "")
	req.Header.Set("A", "b\x00")
	_, err := send(tr, req)
	require.ErrorIs(t, err, outbound.ErrNotRetryable)
	assert.Empty(t, tr.Circuits())
}

// TestSlowProbeIsOvertaken: one that a silent server swallowed keeps nobody away for longer than OpenFor, and where it
// succeeds after all, that counts.
func TestSlowProbeIsOvertaken(t *testing.T) {
	slow := func(d time.Duration, status int) func(*testing.T, *outbound.Transport) {
		return func(t *testing.T, tr *outbound.Transport) {
			_, _ = send(tr, newRequest(t, t.Context(), http.MethodGet, fmt.Sprintf("%s?after=%s&status=%d", payURL, d, status), ""))
		}
	}
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
		q := req.URL.Query()
		d, _ := time.ParseDuration(q.Get("after"))
		var status int
		_, _ = fmt.Sscan(q.Get("status"), &status)
		return slowly(d, answers(status))(req)
	})
	begin := func(t *testing.T) *outbound.Transport {
		cfg := once(base, 1)
		cfg.AttemptTimeout, cfg.TotalTimeout = time.Minute, time.Minute
		tr := newTransport(t, cfg)
		slow(0, 500)(t, tr)
		time.Sleep(5*time.Second + 1)
		return tr
	}
	bubble(t, func(t *testing.T) { // the newer probe closes the circuit
		tr := begin(t)
		go slow(time.Hour, 200)(t, tr)
		time.Sleep(time.Second)
		_, err := get(t, tr, payURL+"?status=200")
		require.ErrorIs(t, err, outbound.ErrCircuitOpen, "not yet")
		time.Sleep(4 * time.Second)
		_, err = get(t, tr, payURL+"?status=200")
		require.NoError(t, err)
		assert.Equal(t, outbound.CircuitClosed, stateOf(tr))
		time.Sleep(time.Minute)
		assert.Equal(t, outbound.CircuitClosed, stateOf(tr), "the old one's timeout no longer counts")
		assert.Zero(t, tr.Circuits()[0].Pending)
	})
	bubble(t, func(t *testing.T) { // the old probe's late success closes it, while newer ones are out
		tr := begin(t)
		go slow(12*time.Second, 200)(t, tr)
		time.Sleep(6 * time.Second)
		go slow(30*time.Second, 500)(t, tr)
		time.Sleep(time.Second)
		assert.Equal(t, outbound.CircuitHalfOpen, stateOf(tr))
		assert.Equal(t, 2, tr.Circuits()[0].Pending)
		time.Sleep(6 * time.Second)
		assert.Equal(t, outbound.CircuitClosed, stateOf(tr))
		time.Sleep(time.Minute)
		assert.Zero(t, tr.Circuits()[0].Pending)
	})
	bubble(t, func(t *testing.T) { // the newer one's failure opens it again, and the old one's failure changes nothing
		tr := begin(t)
		go slow(20*time.Second, 500)(t, tr)
		time.Sleep(6 * time.Second)
		slow(0, 500)(t, tr)
		assert.Equal(t, outbound.CircuitOpen, stateOf(tr))
		until := tr.Circuits()[0].NextProbe
		time.Sleep(15 * time.Second)
		assert.Equal(t, until, tr.Circuits()[0].NextProbe)
	})
}

// TestAFailedProbeIsNotRepeated, not even one that was overtaken and fails when the circuit is closed again: after a silent
// outage of a whole fleet those would come on top of all that is new.
func TestAFailedProbeIsNotRepeated(t *testing.T) {
	for name, row := range map[string]struct {
		late    step
		hits    int
		outcome outbound.Outcome
		stopped error
	}{
		"timeout":    {slowly(time.Hour, answers(201)), 1, outbound.OutcomeUnknown, outbound.ErrNotRetryable},
		"503":        {slowly(20*time.Second, answers(503)), 1, outbound.OutcomeUnknown, outbound.ErrNotRetryable},
		"429":        {slowly(20*time.Second, answers(429)), 2, outbound.OutcomeSucceeded, nil},
		"in the end": {slowly(20*time.Second, answers(201)), 1, outbound.OutcomeSucceeded, nil},
	} {
		bubble(t, func(t *testing.T) {
			probe := playing(row.late, answers(201))
			base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
				switch req.URL.Path {
				case "/down":
					return answers(500)(req)
				case "/probe":
					return probe.RoundTrip(req)
				}
				return answers(200)(req)
			})
			tr := newTransport(t, outbound.Config{
				Base: base, AttemptTimeout: time.Minute, TotalTimeout: 5 * time.Minute,
				Breaker: outbound.BreakerPolicy{ConsecutiveFailures: 1, OpenFor: 4 * time.Second},
			})
			_, _ = get(t, tr, "https://api.test/down")
			time.Sleep(6 * time.Second)
			reports := make(chan outbound.Report, 1)
			go func() {
				resp, err := send(tr, newRequest(t, t.Context(), http.MethodPost, "https://api.test/probe", "x"))
				r, _ := outbound.ReportOf(resp, err)
				reports <- r
			}()
			time.Sleep(6 * time.Second)
			_, err := get(t, tr, "https://api.test/up")
			require.NoError(t, err, name)
			require.Equal(t, outbound.CircuitClosed, stateOf(tr), name)
			r := <-reports
			assert.Equal(t, row.outcome, r.Outcome, name)
			assert.ErrorIs(t, r.Stopped, row.stopped, name)
			assert.Equal(t, row.hits, probe.hits(), name)
		})
	}
}

// TestRefusedCallsShareNothing: they take turns with one and the same memory, and no report may show another call's.
func TestRefusedCallsShareNothing(t *testing.T) {
	cfg := once(playing(answers(500)), 1)
	var mu sync.Mutex
	told := map[string]outbound.Report{}
	cfg.Hooks.Done = func(_ context.Context, r outbound.Report) {
		mu.Lock()
		defer mu.Unlock()
		told[r.URL] = r
	}
	cfg.Breaker.OpenFor = time.Hour
	tr := newTransport(t, cfg)
	_, err := get(t, tr, "https://api.test/down")
	require.NoError(t, err)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 200 {
				url := fmt.Sprintf("https://api.test/%d/%d", worker, i)
				req := newRequest(t, t.Context(), http.MethodPost, url, "x")
				key := fmt.Sprintf("key-%d-%d", worker, i)
				if i%2 == 0 {
					req.Header.Set("Idempotency-Key", key)
				} else {
					key = ""
				}
				resp, err := send(tr, req)
				r := reportOf(t, resp, err)
				var refused *outbound.CircuitOpenError
				if !assert.ErrorAs(t, err, &refused) || !assert.Equal(t, url, r.URL) || !assert.Equal(t, key, r.IdempotencyKey) || !assert.Empty(t, r.Attempts) {
					return
				}
				mu.Lock()
				assert.Equal(t, r, told[url])
				mu.Unlock()
			}
		})
	}
	all.Wait()
	assert.Equal(t, int64(0), int64(tr.Circuits()[0].CallsInFlight))
}

// TestASlowCircuitHookCounts against the limits of the call that tells it, and not as the server's slowness.
func TestASlowCircuitHookCounts(t *testing.T) {
	// down opens the circuit, and leaves it past its time; from then on the hook is slow, once.
	down := func(t *testing.T, cfg outbound.Config, hook time.Duration) *outbound.Transport {
		slow := false
		cfg.Breaker.ConsecutiveFailures, cfg.Breaker.OpenFor = 1, time.Second
		cfg.Hooks.Circuit = func(outbound.CircuitChange) {
			if slow {
				slow = false
				time.Sleep(hook)
			}
		}
		tr := newTransport(t, cfg)
		_, _ = get(t, tr, payURL+"/down")
		slow = true
		return tr
	}
	answering := func(after time.Duration, performed *int) roundTripFunc {
		return func(req *http.Request) (*http.Response, error) {
			if strings.HasSuffix(req.URL.Path, "/down") {
				return answers(500)(req)
			}
			*performed++
			return slowly(after, answers(201))(req)
		}
	}
	bubble(t, func(t *testing.T) { // the total timeout
		performed := 0
		tr := down(t, outbound.Config{Base: answering(time.Second, &performed), TotalTimeout: 3 * time.Second}, 5*time.Second)
		time.Sleep(2 * time.Second)
		start := time.Now()
		resp, err := post(t, tr, t.Context())
		require.ErrorIs(t, err, outbound.ErrTotalTimeout)
		assert.Equal(t, 5*time.Second, time.Since(start))
		assert.Equal(t, outbound.OutcomeNotSent, outbound.OutcomeOf(resp, err))
		assert.Zero(t, performed)
		_, err = post(t, tr, t.Context())
		require.NoError(t, err, "the probe's place was given back")
	})
	bubble(t, func(t *testing.T) { // the key's window
		performed := 0
		tr := down(t, outbound.Config{
			Base: answering(time.Millisecond, &performed), AttemptTimeout: 5 * time.Second, TotalTimeout: -1, Provider: outbound.Provider{KeyWindow: time.Minute},
		}, 30*time.Second)
		a := outbound.NewAction()
		time.Sleep(54 * time.Second)
		_, err := post(t, tr, with(t, a))
		require.ErrorIs(t, err, outbound.ErrKeyExpired)
		assert.Zero(t, performed)
	})
	bubble(t, func(t *testing.T) { // it is no slow call
		performed := 0
		tr := down(t, outbound.Config{Base: answering(time.Millisecond, &performed), Breaker: outbound.BreakerPolicy{SlowCall: time.Second}}, 1500*time.Millisecond)
		time.Sleep(2 * time.Second)
		_, err := post(t, tr, t.Context())
		require.NoError(t, err)
		assert.Equal(t, outbound.CircuitClosed, stateOf(tr))
	})
}

// TestASlowFuncLeavesTheTargetItsPlace: the one that makes room for it was used meanwhile, and is idle all the same.
func TestASlowFuncLeavesTheTargetItsPlace(t *testing.T) {
	nap := func(req *http.Request) {
		if req.URL.Host == "slow.test" {
			time.Sleep(100 * time.Millisecond)
		}
	}
	for name, cfg := range map[string]outbound.Config{
		"KeyOf": {Provider: outbound.Provider{KeyOf: func(req *http.Request) (string, error) {
			nap(req)
			return "k", nil
		}}},
		"Target": {Target: func(req *http.Request) string {
			nap(req)
			return req.URL.Host
		}},
	} {
		bubble(t, func(t *testing.T) {
			cfg.Base, cfg.Breaker.MaxCircuits = playing(answers(200)), 1
			tr := newTransport(t, cfg)
			done := make(chan error, 1)
			go func() {
				_, err := send(tr, newRequest(t, t.Context(), http.MethodPost, "https://slow.test/", "x"))
				done <- err
			}()
			time.Sleep(50 * time.Millisecond)
			_, err := get(t, tr, "https://quick.test/")
			require.NoError(t, err, name)
			require.NoError(t, <-done, name)
			require.Len(t, tr.Circuits(), 1, name)
			assert.Contains(t, tr.Circuits()[0].Target, "slow.test", name)
		})
	}
}

// TestOneHungProbeOfSeveralIsOvertaken: it is the oldest that makes room, whatever became of newer ones.
func TestOneHungProbeOfSeveralIsOvertaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			switch req.URL.Path {
			case "/down":
				return answers(500)(req)
			case "/hang":
				return slowly(time.Hour, answers(200))(req)
			}
			return answers(200)(req)
		})
		tr := newTransport(t, outbound.Config{
			Base: base, AttemptTimeout: 30 * time.Second, Retry: outbound.RetryPolicy{MaxAttempts: 1},
			Breaker: outbound.BreakerPolicy{ConsecutiveFailures: 1, OpenFor: time.Second, Probes: 2},
		})
		_, _ = get(t, tr, "https://api.test/down")
		time.Sleep(2 * time.Second)
		hung := make(chan struct{})
		go func() {
			defer close(hung)
			_, _ = send(tr, newRequest(t, t.Context(), http.MethodGet, "https://api.test/hang", ""))
		}()
		synctest.Wait()
		_, err := get(t, tr, "https://api.test/up")
		require.NoError(t, err, "the second probe")
		_, err = get(t, tr, "https://api.test/up")
		require.ErrorIs(t, err, outbound.ErrCircuitOpen, "both are out, or done")
		time.Sleep(2 * time.Second)
		_, err = get(t, tr, "https://api.test/up")
		require.NoError(t, err)
		assert.Equal(t, outbound.CircuitClosed, stateOf(tr))
		<-hung
		assert.Equal(t, outbound.CircuitClosed, stateOf(tr))
	})
}

// TestProbesUnderLoad is for the race detector: probes that a hook delays, that are refused after they were admitted, that others
// overtake, while refused calls share their memory.
func TestProbesUnderLoad(t *testing.T) {
	base := roundTripFunc(func(req *http.Request) (*http.Response, error) { return nil, io.EOF })
	nap := func(outbound.CircuitChange) { time.Sleep(3 * time.Millisecond) }
	for _, hook := range []func(outbound.CircuitChange){nil, nap} {
		probesUnderLoad(t, base, hook)
	}
}

func probesUnderLoad(t *testing.T, base http.RoundTripper, hook func(outbound.CircuitChange)) {
	bubble(t, func(t *testing.T) {
		tr := newTransport(t, outbound.Config{
			Base: base, Retry: outbound.RetryPolicy{MaxAttempts: 1},
			Breaker: outbound.BreakerPolicy{ConsecutiveFailures: 1, OpenFor: 10 * time.Millisecond, Probes: 2},
			Hooks:   outbound.Hooks{Circuit: hook},
		})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 300 {
					ctx := outbound.WithOverride(with(t, outbound.NewAction()), outbound.Override{TotalTimeout: 2 * time.Millisecond})
					req := newRequest(t, ctx, http.MethodPost, payURL, "x")
					body, asked := req.GetBody, 0
					req.GetBody = func() (io.ReadCloser, error) {
						if asked++; asked == 2 { // not for the fingerprint, but for the attempt
							time.Sleep(2 * time.Millisecond)
						}
						return body()
					}
					resp, err := send(tr, req)
					r := reportOf(t, resp, err)
					assert.Equal(t, payURL, r.URL)
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Wait()
		assert.Zero(t, tr.Circuits()[0].Pending)
		assert.Zero(t, tr.Circuits()[0].CallsInFlight)
	})
}

// TestASlowCircuitHookIsInElapsed, also where it is told of the answer that ends the call.
func TestASlowCircuitHookIsInElapsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := once(playing(answers(500)), 1)
		cfg.Hooks.Circuit = func(outbound.CircuitChange) { time.Sleep(3 * time.Second) }
		resp, err := get(t, newTransport(t, cfg), payURL)
		assert.Equal(t, 3*time.Second, reportOf(t, resp, err).Elapsed)
	})
}

// TestASlowCircuitHookHoldsNoPlace for longer than a slow probe does, and makes no probe of a call that is none.
func TestASlowCircuitHookHoldsNoPlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := once(roundTripFunc(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/down" {
				return answers(500)(req)
			}
			return answers(200)(req)
		}), 1)
		slow := false
		cfg.Hooks.Circuit = func(outbound.CircuitChange) {
			if slow {
				slow = false
				time.Sleep(time.Minute)
			}
		}
		cfg.Breaker.OpenFor = 4 * time.Second
		tr := newTransport(t, cfg)
		_, _ = get(t, tr, "https://api.test/down")
		time.Sleep(6 * time.Second)
		slow = true
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = send(tr, newRequest(t, t.Context(), http.MethodGet, "https://api.test/up", ""))
		}()
		refused := 0
		for range 20 {
			time.Sleep(time.Second)
			if _, err := send(tr, newRequest(t, t.Context(), http.MethodGet, "https://api.test/up", "")); err != nil {
				refused++
			}
		}
		assert.LessOrEqual(t, refused, 5)
		<-done
	})
}

// TestALateSuccessTakesAFreePlace, and takes none from a probe whose failure still counts.
func TestALateSuccessTakesAFreePlace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			switch req.URL.Path {
			case "/late":
				return slowly(12*time.Second, answers(200))(req)
			case "/fails":
				return slowly(10*time.Second, answers(500))(req)
			case "/cancelled":
				return slowly(time.Hour, answers(200))(req)
			}
			return answers(500)(req)
		})
		cfg := once(base, 1)
		cfg.AttemptTimeout, cfg.TotalTimeout = time.Minute, time.Minute
		cfg.Breaker.OpenFor, cfg.Breaker.Probes = 4*time.Second, 2
		tr := newTransport(t, cfg)
		_, _ = get(t, tr, "https://api.test/down")
		time.Sleep(6 * time.Second)
		var all sync.WaitGroup
		ask := func(ctx context.Context, path string) {
			all.Go(func() { _, _ = send(tr, newRequest(t, ctx, http.MethodGet, "https://api.test"+path, "")) })
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		ask(t.Context(), "/late")
		ask(ctx, "/cancelled")
		time.Sleep(6 * time.Second)
		ask(t.Context(), "/fails") // overtakes the first
		cancel()
		time.Sleep(8 * time.Second)
		assert.Equal(t, outbound.CircuitHalfOpen, stateOf(tr), "one success of two")
		time.Sleep(2500 * time.Millisecond)
		assert.Equal(t, outbound.CircuitOpen, stateOf(tr), "the failure counts")
		all.Wait()
	})
}
