package outbound_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// resumed is the action as another process would read it back.
func resumed(t *testing.T, a *outbound.Action) *outbound.Action {
	t.Helper()
	data, err := json.Marshal(a)
	require.NoError(t, err)
	back := new(outbound.Action)
	require.NoError(t, json.Unmarshal(data, back))
	return back
}

func with(t *testing.T, a *outbound.Action) context.Context {
	return outbound.WithAction(t.Context(), a)
}

func TestActionCarriesItsKeyOverAttemptsAndRestarts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(503), fails(io.EOF), answers(201))
		action := outbound.NewAction()
		crash, cancel := context.WithTimeout(with(t, action), time.Nanosecond)
		defer cancel()
		_, err := post(t, newTransport(t, outbound.Config{Base: base}), crash)
		_ = err

		again := resumed(t, action)
		resp, err := post(t, newTransport(t, outbound.Config{Base: base}), with(t, again))
		require.NoError(t, err)
		r := reportOf(t, resp, err)
		assert.Equal(t, outbound.OutcomeSucceeded, r.Outcome)
		assert.Equal(t, action.Key, r.IdempotencyKey)
		require.Equal(t, 3, base.hits())
		for _, seen := range base.seen {
			assert.Equal(t, []string{action.Key}, seen.keys())
			assert.Equal(t, `{"amount":42}`, seen.body)
		}
	})
}

// TestFreshness: what is proven by the lack of attempts holds only for a key that nobody else can have used.
func TestFreshness(t *testing.T) {
	rows := map[string]struct {
		ctx    func(*testing.T, *outbound.Transport) context.Context
		header string
		fresh  bool
	}{
		"no action": {fresh: true},
		"new action": {fresh: true, ctx: func(t *testing.T, _ *outbound.Transport) context.Context {
			return with(t, outbound.NewAction())
		}},
		"new action, bound": {fresh: true, ctx: func(t *testing.T, _ *outbound.Transport) context.Context {
			a := outbound.NewAction()
			require.NoError(t, a.Bind(newRequest(t, t.Context(), http.MethodPost, "https://pay.test/v1/payments", `{"amount":42}`)))
			return with(t, a)
		}},
		"copied action": {fresh: true, ctx: func(t *testing.T, _ *outbound.Transport) context.Context {
			a := *outbound.NewAction()
			return with(t, &a)
		}},
		"read back": {ctx: func(t *testing.T, _ *outbound.Transport) context.Context {
			return with(t, resumed(t, outbound.NewAction()))
		}},
		"read back into a new action": {ctx: func(t *testing.T, _ *outbound.Transport) context.Context {
			a := outbound.NewAction()
			require.NoError(t, json.Unmarshal([]byte(`{"key":"k-1","started":"`+time.Now().Format(time.RFC3339)+`"}`), a))
			return with(t, a)
		}},
		"made by hand": {ctx: func(t *testing.T, _ *outbound.Transport) context.Context {
			return with(t, &outbound.Action{Key: "k-1", Started: time.Now()})
		}},
		"new action with another key": {ctx: func(t *testing.T, _ *outbound.Transport) context.Context {
			a := outbound.NewAction()
			a.Key = "k-1"
			return with(t, a)
		}},
		"used before": {ctx: func(t *testing.T, tr *outbound.Transport) context.Context {
			a := outbound.NewAction()
			_, _ = post(t, tr, with(t, a))
			return with(t, a)
		}},
		"a copy was used before": {ctx: func(t *testing.T, tr *outbound.Transport) context.Context {
			a := outbound.NewAction()
			used := *a
			_, _ = post(t, tr, with(t, &used))
			return with(t, a)
		}},
		"adopted key": {header: "sdk-1"},
	}
	for name, row := range rows {
		for answer, claim := range map[string]outbound.Outcome{"refused": outbound.OutcomeNotSent, "401": outbound.OutcomeRejected} {
			t.Run(name+", "+answer, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					end := refuses()
					if answer == "401" {
						end = answers(401)
					}
					tr := newTransport(t, outbound.Config{Base: playing(end), Breaker: outbound.BreakerPolicy{Disabled: true}})
					ctx := t.Context()
					if row.ctx != nil {
						ctx = row.ctx(t, tr)
					}
					req := newRequest(t, ctx, http.MethodPost, "https://pay.test/v1/payments", `{"amount":42}`)
					if row.header != "" {
						req.Header.Set("Idempotency-Key", row.header)
					}
					resp, err := send(tr, req)
					want := outbound.OutcomeUnknown
					if row.fresh {
						want = claim
					}
					assert.Equal(t, want, outbound.OutcomeOf(resp, err))
				})
			})
		}
	}
}

// TestConcurrentUseTakesFreshnessFromTheFirstToo: what a second call may have done, the first must not deny.
func TestConcurrentUseTakesFreshnessFromTheFirstToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow, quick := slowly(2*time.Second, refuses()), answers(201)
		tr := newTransport(t, outbound.Config{Base: playing(slow, quick, refuses())})
		a := outbound.NewAction()
		go func() {
			time.Sleep(time.Second)
			resp, err := post(t, tr, with(t, a))
			assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, err))
		}()
		resp, err := post(t, tr, with(t, a))
		assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, err))
	})
}

func TestActionMismatchSendsNothing(t *testing.T) {
	base := playing(answers(201))
	tr := newTransport(t, outbound.Config{Base: base})
	a := outbound.NewAction()
	_, err := post(t, tr, with(t, a))
	require.NoError(t, err)
	require.NotEmpty(t, a.Fingerprint, "the first send binds")
	for name, req := range map[string]*http.Request{
		"body":   newRequest(t, with(t, a), http.MethodPost, "https://pay.test/v1/payments", `{"amount":43}`),
		"URL":    newRequest(t, with(t, a), http.MethodPost, "https://pay.test/v1/payments?x=1", `{"amount":42}`),
		"host":   newRequest(t, with(t, a), http.MethodPost, "https://other.test/v1/payments", `{"amount":42}`),
		"method": newRequest(t, with(t, a), http.MethodPatch, "https://pay.test/v1/payments", `{"amount":42}`),
	} {
		_, err := send(tr, req)
		require.ErrorIs(t, err, outbound.ErrActionMismatch, name)
	}
	same := newRequest(t, with(t, resumed(t, a)), http.MethodPost, "https://u:p@PAY.test:443/v1/payments#f", `{"amount":42}`)
	_, err = send(tr, same)
	require.NoError(t, err, "case, default port, user info and fragment make no other request")
	assert.Equal(t, 2, base.hits())
}

func TestMismatchOfAFreshActionIsNotSent(t *testing.T) {
	tr := newTransport(t, outbound.Config{Base: playing(answers(201))})
	a := outbound.NewAction()
	require.NoError(t, a.Bind(newRequest(t, t.Context(), http.MethodPost, "https://pay.test/other", "")))
	resp, err := post(t, tr, with(t, a))
	require.ErrorIs(t, err, outbound.ErrActionMismatch)
	assert.Equal(t, outbound.OutcomeNotSent, outbound.OutcomeOf(resp, err))
}

func TestActionNeedsABodyThatCanBeReadAgain(t *testing.T) {
	base := playing(answers(201))
	tr := newTransport(t, outbound.Config{Base: base})
	body := &countingBody{Reader: strings.NewReader("x")}
	req := newRequest(t, with(t, outbound.NewAction()), http.MethodPost, "https://pay.test/", "")
	req.Body = body
	require.ErrorIs(t, outbound.NewAction().Bind(req), outbound.ErrBodyNotReplayable)
	_, err := send(tr, req)
	require.ErrorIs(t, err, outbound.ErrBodyNotReplayable)
	assert.Equal(t, 1, body.closed)
	assert.Zero(t, base.hits())

	boom := errors.New("disk")
	req.GetBody = func() (io.ReadCloser, error) { return nil, boom }
	require.ErrorIs(t, outbound.NewAction().Bind(req), boom)
	req.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(readerFunc(func([]byte) (int, error) { return 0, boom })), nil
	}
	require.ErrorIs(t, outbound.NewAction().Bind(req), boom)
	req.URL = nil
	require.ErrorContains(t, outbound.NewAction().Bind(req), "no URL")
}

func TestKeyWindow(t *testing.T) {
	rows := map[string]struct {
		started func() time.Time
		window  time.Duration
		refused bool
	}{
		"now":                         {func() time.Time { return time.Now() }, 0, false},
		"a day ago":                   {func() time.Time { return time.Now().Add(-24 * time.Hour) }, 0, true},
		"an attempt would outlive it": {func() time.Time { return time.Now().Add(-24*time.Hour + 9*time.Second) }, 0, true},
		"an attempt just fits":        {func() time.Time { return time.Now().Add(-24*time.Hour + 10*time.Second) }, 0, false},
		"a little in the future":      {func() time.Time { return time.Now().Add(5 * time.Minute) }, 0, false},
		"more than a little":          {func() time.Time { return time.Now().Add(5*time.Minute + time.Second) }, 0, true},
		"never started":               {func() time.Time { return time.Time{} }, 0, true},
		"no window, long ago":         {func() time.Time { return time.Now().Add(-1000 * time.Hour) }, -1, false},
		"short window":                {func() time.Time { return time.Now().Add(-time.Hour) }, time.Hour, true},
		"only the wall clock says so": {func() time.Time { return time.Now().Round(0).Add(-25 * time.Hour) }, 0, true},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				base := playing(answers(201))
				tr := newTransport(t, outbound.Config{Base: base, Provider: outbound.Provider{KeyWindow: row.window}})
				resp, err := post(t, tr, with(t, &outbound.Action{Key: "k-1", Started: row.started()}))
				if !row.refused {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, outbound.ErrKeyExpired)
				assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, err))
				assert.Zero(t, base.hits())
			})
		})
	}
}

func TestKeyWindowEndsTheLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(503))
		tr := newTransport(t, outbound.Config{
			Base: base, Provider: outbound.Provider{KeyWindow: time.Minute}, TotalTimeout: time.Hour,
			Retry: outbound.RetryPolicy{MaxAttempts: 100, Backoff: fixed(9 * time.Second)},
		})
		resp, err := post(t, tr, t.Context())
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode)
		assert.ErrorIs(t, reportOf(t, resp, err).Stopped, outbound.ErrKeyExpired)
		assert.Equal(t, 6, base.hits(), "the last one began at 45 s: the next would begin at 54 s and could last until 64 s")
	})
}

func TestKeyAndHeaderThatDifferAreRefused(t *testing.T) {
	base := playing(answers(201))
	tr := newTransport(t, outbound.Config{Base: base})
	a := outbound.NewAction()
	req := newRequest(t, with(t, a), http.MethodPost, "https://pay.test/", "x")
	req.Header.Set("Idempotency-Key", "another")
	_, err := send(tr, req)
	require.ErrorIs(t, err, outbound.ErrInvalidKey)
	req = newRequest(t, with(t, a), http.MethodPost, "https://pay.test/", "x")
	req.Header["idempotency-KEY"] = []string{a.Key}
	_, err = send(tr, req)
	require.NoError(t, err, "the same key twice is one key")
	require.Equal(t, 1, base.hits())
	assert.Equal(t, []string{a.Key}, base.seen[0].keys())
}

func TestResumedActionWithoutAKeyIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		method   string
		provider outbound.Provider
	}{
		"the API ignores keys":        {http.MethodPost, outbound.Provider{NoKeys: true}},
		"a method that carries none":  {http.MethodPut, outbound.Provider{}},
		"none on a method of one own": {"CHARGE", outbound.Provider{}},
	} {
		base := playing(answers(201))
		tr := newTransport(t, outbound.Config{Base: base, Provider: row.provider})
		a := outbound.NewAction()
		_, err := send(tr, newRequest(t, with(t, a), row.method, "https://pay.test/", "x"))
		require.NoError(t, err, name)
		for _, old := range []*outbound.Action{a, resumed(t, a)} {
			resp, err := send(tr, newRequest(t, with(t, old), row.method, "https://pay.test/", "x"))
			require.ErrorIs(t, err, outbound.ErrNotRetryable, name)
			assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, err), name)
		}
		require.Equal(t, 1, base.hits(), name)
		assert.Empty(t, base.seen[0].keys(), name)
	}
}

func TestActionIsForWritesOnly(t *testing.T) {
	base := playing(answers(200))
	tr := newTransport(t, outbound.Config{Base: base})
	a := outbound.NewAction()
	_, err := send(tr, newRequest(t, with(t, a), http.MethodGet, "https://pay.test/", ""))
	require.NoError(t, err)
	assert.Empty(t, base.seen[0].keys())
	assert.Empty(t, a.Fingerprint)
	_, err = send(tr, newRequest(t, outbound.WithAction(with(t, a), nil), http.MethodPost, "https://pay.test/", "x"))
	require.NoError(t, err)
	assert.NotEqual(t, []string{a.Key}, base.seen[1].keys(), "a nil action takes it away")
}

func TestActionJSON(t *testing.T) {
	a := outbound.NewAction()
	require.NoError(t, a.Bind(newRequest(t, t.Context(), http.MethodPost, "https://pay.test/", "x")))
	back := resumed(t, a)
	assert.Equal(t, a.Key, back.Key)
	assert.True(t, a.Started.Equal(back.Started))
	assert.Equal(t, a.Fingerprint, back.Fingerprint)
	for _, bad := range []string{`[]`, `{"key":7}`, `{"started":"yesterday"}`, `{`} {
		require.Error(t, json.Unmarshal([]byte(bad), back), bad)
	}
	assert.Equal(t, a.Key, back.Key, "what could not be read changes nothing")
}

// TestAttemptsOfAnActionSendTheHashedBody: not even the first takes the caller's reader.
func TestAttemptsOfAnActionSendTheHashedBody(t *testing.T) {
	base := playing(answers(503), answers(201))
	tr := newTransport(t, outbound.Config{Base: base, Retry: outbound.RetryPolicy{Backoff: fixed(0)}})
	own := &countingBody{Reader: strings.NewReader("something else")}
	req := newRequest(t, with(t, outbound.NewAction()), http.MethodPost, "https://pay.test/", "hashed")
	req.Body = own
	_, err := send(tr, req)
	require.NoError(t, err)
	assert.Equal(t, []string{"hashed", "hashed"}, []string{base.seen[0].body, base.seen[1].body})
	assert.Equal(t, 1, own.closed)
}

// TestAKeyUsedUnderAnotherNameIsNotFresh: a copy that was read back, or the same key in a header.
func TestAKeyUsedUnderAnotherNameIsNotFresh(t *testing.T) {
	for name, use := range map[string]func(*testing.T, *outbound.Transport, *outbound.Action){
		"read back": func(t *testing.T, tr *outbound.Transport, a *outbound.Action) {
			_, _ = post(t, tr, with(t, resumed(t, a)))
		},
		"rebuilt": func(t *testing.T, tr *outbound.Transport, a *outbound.Action) {
			_, _ = post(t, tr, with(t, &outbound.Action{Key: a.Key, Started: a.Started}))
		},
		"header": func(t *testing.T, tr *outbound.Transport, a *outbound.Action) {
			req := newRequest(t, t.Context(), http.MethodPost, "https://pay.test/v1/payments", `{"amount":42}`)
			req.Header.Set("Idempotency-Key", a.Key)
			_, _ = send(tr, req)
		},
	} {
		bubble(t, func(t *testing.T) {
			tr := newTransport(t, quick(playing(answers(401))))
			a := outbound.NewAction()
			use(t, tr, a)
			resp, err := post(t, tr, with(t, a))
			require.NoError(t, err)
			assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, err), name)

			tr = newTransport(t, quick(playing(slowly(2*time.Second, refuses()), answers(401), refuses())))
			b := outbound.NewAction()
			go func() {
				time.Sleep(time.Second)
				use(t, tr, b)
			}()
			resp, err = post(t, tr, with(t, b))
			require.ErrorIs(t, err, errRefused)
			assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, err), "%s, meanwhile", name)
		})
	}
}

func TestMismatchWhileAnotherCallIsOutIsNotSentToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tr := newTransport(t, quick(playing(hangs())))
		a := outbound.NewAction()
		go func() { _, _ = post(t, tr, with(t, a)) }()
		time.Sleep(time.Second)
		resp, err := send(tr, newRequest(t, with(t, a), http.MethodPost, "https://pay.test/other", "x"))
		require.ErrorIs(t, err, outbound.ErrActionMismatch)
		assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, err))
	})
}

// TestActionCanBeStoredWhileItIsSent is for the race detector.
func TestActionCanBeStoredWhileItIsSent(t *testing.T) {
	tr := newTransport(t, outbound.Config{Base: playing(answers(201))})
	a := outbound.NewAction()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			_, _ = json.Marshal(a)
		}
	}()
	_, err := post(t, tr, with(t, a))
	require.NoError(t, err)
	<-done
}

func TestWindowEndsAtAHopToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(slowly(9*time.Second, answers(429)), slowly(9*time.Second, answers(307, "Location", "/b")), answers(201))
		cfg := outbound.Config{
			Base: base, Provider: outbound.Provider{KeyWindow: time.Minute}, TotalTimeout: time.Hour,
			Retry: outbound.RetryPolicy{Backoff: fixed(40 * time.Second)},
		}
		resp, err := do(t, newTransport(t, cfg), t.Context())
		require.ErrorIs(t, err, outbound.ErrKeyExpired)
		assert.Equal(t, outbound.OutcomeRejected, outbound.OutcomeOf(resp, err))
		assert.Equal(t, 2, base.hits())
	})
}

func TestWindowCountsAnAttemptWithoutALimitOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(201))
		tr := newTransport(t, outbound.Config{Base: base, AttemptTimeout: -1, TotalTimeout: time.Hour})
		_, err := post(t, tr, with(t, &outbound.Action{Key: "k", Started: time.Now().Add(-23*time.Hour - time.Second)}))
		require.ErrorIs(t, err, outbound.ErrKeyExpired, "it could last an hour")
		_, err = post(t, tr, with(t, &outbound.Action{Key: "k", Started: time.Now().Add(-23 * time.Hour)}))
		require.NoError(t, err)
	})
}

// TestRefusedActionIsReportedWithItsKey: an unknown outcome cannot be reconciled without. A fresh one is not sent.
func TestRefusedActionIsReportedWithItsKey(t *testing.T) {
	tr := newTransport(t, outbound.Config{Base: playing(answers(201))})
	fresh, old := outbound.NewAction(), resumed(t, outbound.NewAction())
	for name, row := range map[string]struct {
		action  *outbound.Action
		url     string
		outcome outbound.Outcome
	}{
		"fresh, bad request":   {fresh, "ftp://pay.test/", outbound.OutcomeNotSent},
		"resumed, bad request": {old, "ftp://pay.test/", outbound.OutcomeUnknown},
		"expired":              {&outbound.Action{Key: "k-1"}, payURL, outbound.OutcomeUnknown},
		"bound to another":     {&outbound.Action{Key: "k-1", Started: time.Now(), Fingerprint: "x"}, payURL, outbound.OutcomeUnknown},
	} {
		resp, err := send(tr, newRequest(t, with(t, row.action), http.MethodPost, row.url, "x"))
		require.Error(t, err, name)
		r := reportOf(t, resp, err)
		assert.Equal(t, row.outcome, r.Outcome, name)
		assert.Equal(t, row.action.Key, r.IdempotencyKey, name)
	}
}
