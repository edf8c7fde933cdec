package outbound_test

import (
	"bytes"
	"context"
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

func TestKeyGoesWhereTheProviderWantsIt(t *testing.T) {
	rows := map[string]struct {
		provider outbound.Provider
		method   string
		header   string
		quoted   bool
	}{
		"default":         {outbound.Provider{}, "POST", "Idempotency-Key", false},
		"PATCH":           {outbound.Provider{}, "PATCH", "Idempotency-Key", false},
		"another header":  {outbound.Provider{KeyHeader: "cko-idempotency-key"}, "POST", "Cko-Idempotency-Key", false},
		"quoted":          {outbound.Provider{QuoteKey: true}, "POST", "Idempotency-Key", true},
		"another method":  {outbound.Provider{KeyMethods: []string{"DELETE"}}, "DELETE", "Idempotency-Key", false},
		"no key on PUT":   {outbound.Provider{}, "PUT", "", false},
		"nor on DELETE":   {outbound.Provider{}, "DELETE", "", false},
		"nor on GET":      {outbound.Provider{}, "GET", "", false},
		"nor on HEAD":     {outbound.Provider{}, "HEAD", "", false},
		"nor on OPTIONS":  {outbound.Provider{}, "OPTIONS", "", false},
		"methods replace": {outbound.Provider{KeyMethods: []string{"DELETE"}}, "POST", "", false},
		"NoKeys":          {outbound.Provider{NoKeys: true}, "POST", "", false},
	}
	for name, row := range rows {
		base := playing(answers(200))
		resp, err := send(newTransport(t, outbound.Config{Base: base, Provider: row.provider}), newRequest(t, t.Context(), row.method, payURL, "x"))
		require.NoError(t, err, name)
		key := reportOf(t, resp, err).IdempotencyKey
		if row.header == "" {
			assert.Empty(t, key, name)
			assert.Empty(t, base.seen[0].header, name)
			continue
		}
		assert.Len(t, key, 36, name)
		want := key
		if row.quoted {
			want = `"` + key + `"`
		}
		assert.Equal(t, http.Header{row.header: {want}}, base.seen[0].header, name)
	}
}

func TestCallersKeyIsAdoptedVerbatim(t *testing.T) {
	for name, row := range map[string]struct {
		provider outbound.Provider
		header   http.Header
		wire     []string
		key      string
	}{
		"canonical":          {outbound.Provider{}, http.Header{"Idempotency-Key": {"order-42"}}, []string{"order-42"}, "order-42"},
		"other spelling":     {outbound.Provider{}, http.Header{"idempotency-KEY": {"order-42"}}, []string{"order-42"}, "order-42"},
		"twice the same":     {outbound.Provider{}, http.Header{"Idempotency-Key": {"k", "k"}}, []string{"k"}, "k"},
		"quoted":             {outbound.Provider{QuoteKey: true}, http.Header{"Idempotency-Key": {`"or\"der"`}}, []string{`"or\"der"`}, `or"der`},
		"raw where quoted":   {outbound.Provider{QuoteKey: true}, http.Header{"Idempotency-Key": {"order"}}, []string{"order"}, "order"},
		"empty list: no key": {outbound.Provider{}, http.Header{"Idempotency-Key": {}}, nil, ""},
		"empty: no key":      {outbound.Provider{}, http.Header{"Idempotency-Key": {""}}, nil, ""},
		"API ignores keys":   {outbound.Provider{NoKeys: true}, http.Header{"Idempotency-Key": {"order-42"}}, nil, ""},
	} {
		base := playing(answers(429), answers(409), answers(201))
		cfg := quick(base)
		cfg.Provider, cfg.Retry.Backoff = row.provider, fixed(0)
		req := newRequest(t, t.Context(), http.MethodPost, payURL, "x")
		req.Header = row.header
		resp, err := send(newTransport(t, cfg), req)
		require.NoError(t, err, name)
		assert.Equal(t, row.key, reportOf(t, resp, err).IdempotencyKey, name)
		for _, seen := range base.seen {
			assert.Equal(t, row.wire, seen.keys(), name)
		}
		hits := 3
		if row.key == "" {
			hits = 2 // a 409 to a keyless write is final
		}
		assert.Len(t, base.seen, hits, name)
	}
}

func TestInvalidKeySendsNothing(t *testing.T) {
	base := playing(answers(201))
	tr := newTransport(t, outbound.Config{Base: base, Provider: outbound.Provider{MaxKeyLength: 40}})
	for name, values := range map[string][]string{
		"two": {"a", "b"}, "blank": {"a b"}, "not ASCII": {"käse"}, "too long": {strings.Repeat("k", 41)}, "e-mail": {"jo@example.com"},
		"10 MB": {strings.Repeat("k", 10<<20)},
	} {
		req := newRequest(t, t.Context(), http.MethodPost, payURL, "x")
		req.Header["Idempotency-Key"] = values
		resp, err := send(tr, req)
		require.ErrorIs(t, err, outbound.ErrInvalidKey, name)
		assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, err), "nothing is known of a key that the caller brought")
		assert.Less(t, len(err.Error()), 300)
	}
	short := newTransport(t, outbound.Config{Base: base, Provider: outbound.Provider{MaxKeyLength: 20}})
	_, err := post(t, short, t.Context())
	require.ErrorIs(t, err, outbound.ErrInvalidKey, "a key made here has 36 characters")
	assert.Zero(t, base.hits())
}

func TestReplayHeader(t *testing.T) {
	for name, row := range map[string]struct {
		status   int
		header   string
		outcome  outbound.Outcome
		replayed bool
		hits     int
	}{
		"success":        {201, "true", outbound.OutcomeSucceeded, true, 2},
		"stored 400":     {400, "TRUE", outbound.OutcomeRejected, true, 2},
		"stored 500":     {500, " true ", outbound.OutcomeUnknown, true, 2},
		"says false":     {400, "false", outbound.OutcomeUnknown, false, 2},
		"500, no header": {500, "", outbound.OutcomeUnknown, false, 4},
	} {
		base := playing(fails(io.EOF), answers(row.status, "X-Again", row.header))
		cfg := quick(base)
		cfg.Retry.Backoff, cfg.Provider.ReplayHeader = fixed(0), "x-again"
		resp, err := post(t, newTransport(t, cfg), t.Context())
		require.NoError(t, err, name)
		r := reportOf(t, resp, err)
		assert.Equal(t, row.outcome, r.Outcome, name)
		assert.Equal(t, row.replayed, r.Replayed, name)
		assert.Len(t, base.seen, row.hits, name)
	}
}

// TestJudge reads an API that says what happened in the body.
func TestJudge(t *testing.T) {
	var heard []string
	judge := func(resp *http.Response, body []byte) outbound.Verdict {
		heard = append(heard, string(body))
		switch {
		case bytes.Contains(body, []byte("in_progress")):
			return outbound.Verdict{Next: outbound.NextRetry, Says: outbound.SaysUnknown, MinWait: 30 * time.Second}
		case bytes.Contains(body, []byte("already_done")):
			return outbound.Verdict{Next: outbound.NextStop, Says: outbound.SaysSucceeded}
		case bytes.Contains(body, []byte("declined")):
			return outbound.Verdict{Says: outbound.SaysRejected}
		}
		return outbound.Verdict{}
	}
	rows := map[string]struct {
		steps   []step
		outcome outbound.Outcome
		hits    int
		last    string
	}{
		"409 that means done":      {[]step{repliesWith(409, "already_done")}, outbound.OutcomeSucceeded, 1, "already_done"},
		"422 that means in flight": {[]step{repliesWith(422, "in_progress"), repliesWith(201, "ok")}, outbound.OutcomeSucceeded, 2, "ok"},
		"200 that means declined":  {[]step{repliesWith(200, "declined")}, outbound.OutcomeRejected, 1, "declined"},
		"503 that means declined":  {[]step{fails(io.EOF), repliesWith(400, "declined")}, outbound.OutcomeRejected, 2, "declined"},
		"nothing special":          {[]step{repliesWith(402, "no money")}, outbound.OutcomeRejected, 1, "no money"},
		"a broken one has no body": {[]step{answersBody(422, breaking("already_done", io.ErrUnexpectedEOF)), repliesWith(201, "ok")}, outbound.OutcomeSucceeded, 2, "ok"},
		"a broken success":         {[]step{answersBody(200, breaking("declined", io.ErrUnexpectedEOF)), repliesWith(201, "ok")}, outbound.OutcomeSucceeded, 2, "ok"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				heard = nil
				base := playing(row.steps...)
				cfg := quick(base)
				cfg.Provider.Judge = judge
				cfg.AttemptTimeout, cfg.TotalTimeout = time.Minute, time.Hour
				start := time.Now()
				resp, err := newTransport(t, cfg).RoundTrip(newRequest(t, t.Context(), http.MethodPost, payURL, "x"))
				require.NoError(t, err)
				data, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.Equal(t, row.last, string(data), "the body stays readable")
				assert.Equal(t, row.last, heard[len(heard)-1])
				assert.Equal(t, row.outcome, outbound.OutcomeOf(resp, nil))
				assert.Equal(t, row.hits, base.hits())
				if strings.Contains(name, "in flight") {
					assert.GreaterOrEqual(t, time.Since(start), 30*time.Second)
					assert.LessOrEqual(t, time.Since(start), 40*time.Second)
				}
				switch name {
				case "a broken one has no body":
					assert.Equal(t, []string{"", "ok"}, heard)
				case "a broken success":
					assert.Equal(t, []string{"ok"}, heard)
				}
			})
		})
	}
}

// TestJudgeSeesTheBeginningOfALargeAnswer, and nothing of a large success.
func TestJudgeSeesTheBeginningOfALargeAnswer(t *testing.T) {
	large := strings.Repeat("x", 300<<10)
	for name, row := range map[string]struct {
		method  string
		status  int
		headers []string
		sees    int
	}{
		"a read's error":         {http.MethodGet, 404, nil, 64 << 10},
		"a binary error":         {http.MethodPost, 400, []string{"Content-Type", "image/png"}, 64 << 10},
		"a buffered error":       {http.MethodPost, 400, nil, 64 << 10},
		"a retried error":        {http.MethodPost, 429, []string{"X-Should-Retry", "false"}, 64 << 10},
		"a buffered success":     {http.MethodPost, 200, nil, 300 << 10},
		"a success not buffered": {http.MethodGet, 200, nil, 0},
	} {
		var sees int
		tr := newTransport(t, outbound.Config{Base: playing(repliesWith(row.status, large, row.headers...)), Provider: outbound.Provider{
			Judge: func(_ *http.Response, body []byte) outbound.Verdict {
				sees = len(body)
				return outbound.Verdict{Next: outbound.NextStop}
			},
		}})
		resp, err := tr.RoundTrip(newRequest(t, t.Context(), row.method, payURL, "x"))
		require.NoError(t, err, name)
		data, err := io.ReadAll(resp.Body)
		require.NoError(t, err, name)
		assert.True(t, large == string(data), name)
		assert.Equal(t, row.sees, sees, name)
		require.NoError(t, resp.Body.Close())
	}
}

func TestNoKeysRepeatsOnlyWhatWasNotSentOrRefused(t *testing.T) {
	for name, row := range map[string]struct {
		end     step
		hits    int
		outcome outbound.Outcome
		stopped error
	}{
		"refused":       {refuses(), 4, outbound.OutcomeNotSent, outbound.ErrAttemptsExhausted},
		"429":           {answers(429), 4, outbound.OutcomeRejected, outbound.ErrAttemptsExhausted},
		"network error": {fails(io.EOF), 1, outbound.OutcomeUnknown, outbound.ErrNotRetryable},
		"timeout":       {slowly(time.Hour, answers(200)), 1, outbound.OutcomeUnknown, outbound.ErrNotRetryable},
		"500":           {answers(500), 1, outbound.OutcomeUnknown, outbound.ErrNotRetryable},
		"409":           {answers(409), 1, outbound.OutcomeRejected, nil},
		"201":           {answers(201), 1, outbound.OutcomeSucceeded, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				cfg := quick(playing(row.end))
				cfg.Provider.NoKeys = true
				resp, err := post(t, newTransport(t, cfg), t.Context())
				r := reportOf(t, resp, err)
				assert.Equal(t, row.outcome, r.Outcome)
				assert.Len(t, r.Attempts, row.hits)
				assert.ErrorIs(t, r.Stopped, row.stopped)
			})
		})
	}
}

// TestNestedChainsDoNotMultiply, with something in between that is none of ours.
func TestNestedChainsDoNotMultiply(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodGet} {
		for name, provider := range map[string]outbound.Provider{"keys": {}, "own header": {KeyHeader: "X-Request-Key"}, "no keys": {NoKeys: true}} {
			bubble(t, func(t *testing.T) {
				base := playing(answers(429))
				inner := newTransport(t, quick(base))
				between := roundTripFunc(func(r *http.Request) (*http.Response, error) {
					r = r.Clone(r.Context())
					r.Header.Set("Authorization", "Bearer x")
					return inner.RoundTrip(r)
				})
				cfg := quick(between)
				cfg.Provider = provider
				resp, err := send(newTransport(t, cfg), newRequest(t, t.Context(), method, payURL, "x"))
				require.NoError(t, err)
				assert.Equal(t, 4, base.hits(), "%s, %s", method, name)
				r := reportOf(t, resp, err)
				assert.Len(t, r.Attempts, 4)
				for _, seen := range base.seen {
					if provider.KeyHeader == "" && r.IdempotencyKey != "" {
						assert.Equal(t, []string{r.IdempotencyKey}, seen.keys())
					}
				}
				assert.Empty(t, inner.Circuits(), "the circuit is the outer chain's")
			})
		}
	}
}

// TestTokenRefreshBelowAnAttemptIsIndependent: it has its own key, its own retries, and takes neither the action nor the
// override of the payment above it.
func TestTokenRefreshBelowAnAttemptIsIndependent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens := playing(answers(503), answers(200))
		refresher := newTransport(t, quick(tokens))
		payments := playing(answers(201))
		base := roundTripFunc(func(r *http.Request) (*http.Response, error) {
			token, err := send(refresher, newRequest(t, r.Context(), http.MethodPost, "https://auth.test/token", "grant"))
			require.NoError(t, err)
			assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(token, nil))
			return payments.RoundTrip(r)
		})
		a := outbound.NewAction()
		ctx := outbound.WithOverride(with(t, a), outbound.Override{MaxAttempts: 1})
		resp, err := post(t, newTransport(t, quick(base)), ctx)
		require.NoError(t, err)
		assert.Equal(t, a.Key, reportOf(t, resp, err).IdempotencyKey)
		require.Equal(t, 2, tokens.hits())
		assert.Equal(t, tokens.seen[0].keys(), tokens.seen[1].keys())
		assert.NotEqual(t, []string{a.Key}, tokens.seen[0].keys())
		assert.Equal(t, []string{a.Key}, payments.seen[0].keys())
	})
}

// TestAnActionOfItsOwnBelowAnAttemptCounts: only what the call above was given is not for the call below.
func TestAnActionOfItsOwnBelowAnAttemptCounts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		fees := playing(answers(503), answers(201))
		inner := newTransport(t, quick(fees))
		fee := outbound.NewAction()
		base := roundTripFunc(func(r *http.Request) (*http.Response, error) {
			ctx := outbound.WithOverride(outbound.WithAction(r.Context(), fee), outbound.Override{MaxAttempts: 2})
			resp, err := send(inner, newRequest(t, ctx, http.MethodPost, "https://fees.test/", "x"))
			require.NoError(t, err)
			assert.Equal(t, fee.Key, reportOf(t, resp, err).IdempotencyKey)
			return answers(201)(r)
		})
		_, err := post(t, newTransport(t, quick(base)), outbound.WithOverride(with(t, outbound.NewAction()), outbound.Override{MaxAttempts: 1}))
		require.NoError(t, err)
		assert.Equal(t, 2, fees.hits())
	})
}

func TestIfCanOnlyNarrow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var asked []int
		cfg := quick(playing(answers(503), answers(429), answers(400)))
		cfg.Retry.If = func(a outbound.Attempt) bool { asked = append(asked, a.Status); return a.Status != 429 }
		resp, err := post(t, newTransport(t, cfg), t.Context())
		require.NoError(t, err)
		assert.Equal(t, 429, resp.StatusCode)
		assert.Equal(t, []int{503, 429}, asked)
		assert.ErrorIs(t, reportOf(t, resp, err).Stopped, outbound.ErrNotRetryable)

		cfg = quick(playing(answers(400)))
		cfg.Retry.If = func(outbound.Attempt) bool { t.Error("not asked about what is final"); return true }
		_, err = post(t, newTransport(t, cfg), t.Context())
		require.NoError(t, err)
	})
}

func TestHintAboveTheLimitIsHandedOver(t *testing.T) {
	for value, want := range map[string]time.Duration{"61": 61 * time.Second, "277403": 277403 * time.Second, "60": 0} {
		bubble(t, func(t *testing.T) {
			base := playing(answers(429, "Retry-After", value), answers(201))
			cfg := quick(base)
			cfg.TotalTimeout = -1
			start := time.Now()
			resp, err := post(t, newTransport(t, cfg), t.Context())
			require.NoError(t, err)
			if want == 0 {
				assert.Equal(t, 201, resp.StatusCode, "exactly at the limit is waited for")
				assert.GreaterOrEqual(t, time.Since(start), time.Minute)
				return
			}
			r := reportOf(t, resp, err)
			assert.Equal(t, value, resp.Header.Get("Retry-After"))
			assert.Equal(t, want, r.RetryAfter)
			assert.ErrorIs(t, r.Stopped, outbound.ErrNotRetryable)
			assert.Zero(t, time.Since(start))
		})
	}
}

// TestStaleConnectionIsRetriedAtOnce: once per action, and only where a retry is allowed at all.
func TestStaleConnectionIsRetriedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(failsReused(io.EOF), failsReused(io.EOF), answers(201))
		start := time.Now()
		resp, err := post(t, newTransport(t, quick(base)), t.Context())
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(start))
		r := reportOf(t, resp, err)
		assert.Equal(t, []time.Duration{0, 0, time.Second}, []time.Duration{r.Attempts[0].Wait, r.Attempts[1].Wait, r.Attempts[2].Wait})
		assert.True(t, r.Attempts[0].Reused)

		cfg := quick(playing(failsReused(io.EOF), answers(201)))
		cfg.Provider.NoKeys = true
		resp, err = post(t, newTransport(t, cfg), t.Context())
		require.ErrorIs(t, err, io.EOF)
		assert.Len(t, reportOf(t, resp, err).Attempts, 1, "a keyless write may have been performed")

		for name, end := range map[string]step{"fresh connection": fails(io.EOF), "another error": failsReused(errors.New("bad reply"))} {
			start = time.Now()
			_, err = post(t, newTransport(t, quick(playing(end, answers(201)))), t.Context())
			require.NoError(t, err)
			assert.Equal(t, time.Second, time.Since(start), name)
		}
	})
}

func TestGetBodyThatFailsKeepsTheEarlierFailure(t *testing.T) {
	bubble(t, func(t *testing.T) {
		boom := errors.New("disk")
		for name, end := range map[string]step{"error": fails(io.ErrUnexpectedEOF), "answer": answers(503)} {
			base := playing(end)
			req := newRequest(t, t.Context(), http.MethodPost, payURL, "x")
			req.GetBody = func() (io.ReadCloser, error) { return nil, boom }
			resp, err := send(newTransport(t, quick(base)), req)
			require.ErrorIs(t, err, boom, name)
			r := reportOf(t, resp, err)
			assert.Equal(t, outbound.OutcomeUnknown, r.Outcome)
			require.Len(t, r.Attempts, 1)
			if name == "error" {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			} else {
				assert.Equal(t, 503, r.Attempts[0].Status)
			}
			assert.Equal(t, 1, base.hits())
		}
	})
}

// TestPanicsGoOnToTheCaller with all that the call held given back.
func TestPanicsGoOnToTheCaller(t *testing.T) {
	boom := "boom"
	at := func(cfg *outbound.Config, req *http.Request, place string) {
		switch place {
		case "Attempt hook":
			cfg.Hooks.Attempt = func(context.Context, outbound.Attempt) { panic(boom) }
		case "Retry hook":
			cfg.Hooks.Retry = func(context.Context, outbound.Attempt, time.Duration) { panic(boom) }
		case "Done hook":
			cfg.Hooks.Done = func(context.Context, outbound.Report) { panic(boom) }
		case "Circuit hook":
			cfg.Hooks.Circuit = func(outbound.CircuitChange) { panic(boom) }
			cfg.Breaker.ConsecutiveFailures = 1
		case "Judge":
			cfg.Provider.Judge = func(*http.Response, []byte) outbound.Verdict { panic(boom) }
		case "If":
			cfg.Retry.If = func(outbound.Attempt) bool { panic(boom) }
		case "Backoff":
			cfg.Retry.Backoff = panicking{}
		case "Target":
			cfg.Target = func(*http.Request) string { panic(boom) }
		case "GetBody":
			req.GetBody = func() (io.ReadCloser, error) { panic(boom) }
		case "Base":
			cfg.Base = roundTripFunc(func(r *http.Request) (*http.Response, error) { _ = r.Body.Close(); panic(boom) })
		}
	}
	for _, place := range []string{"Attempt hook", "Retry hook", "Done hook", "Circuit hook", "Judge", "If", "Backoff", "Target", "GetBody", "Base"} {
		t.Run(place, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				base := playing(answers(503), answers(200))
				cfg := quick(base)
				body := &countingBody{Reader: strings.NewReader("x")}
				req := newRequest(t, t.Context(), http.MethodPost, payURL, "")
				req.Body, req.GetBody = body, func() (io.ReadCloser, error) { return http.NoBody, nil }
				at(&cfg, req, place)
				tr := newTransport(t, cfg)
				assert.PanicsWithValue(t, boom, func() { _, _ = tr.RoundTrip(req) })
				assert.GreaterOrEqual(t, body.closed, 1, "the caller's body")
				for _, n := range base.closes() {
					assert.Positive(t, n, "the reply's body")
				}
				for _, c := range tr.Circuits() {
					assert.Zero(t, c.Pending)
				}
			})
		})
	}
}

// TestPanickingHooksLeakNothing: the next call finds the circuit's place free.
func TestPanickingHooksLeakNothing(t *testing.T) {
	for place, spoil := range map[string]func(*outbound.Config, *bool){
		"Circuit hook": func(cfg *outbound.Config, on *bool) {
			cfg.Hooks.Circuit = func(outbound.CircuitChange) {
				if *on {
					panic("boom")
				}
			}
		},
		"Done hook": func(cfg *outbound.Config, on *bool) {
			cfg.Hooks.Done = func(context.Context, outbound.Report) {
				if *on {
					panic("boom")
				}
			}
		},
	} {
		bubble(t, func(t *testing.T) {
			var on bool
			base := playing(answers(500), answersBody(200, stalling("x"), "Content-Type", "application/octet-stream"), answers(200))
			cfg := once(base, 1)
			spoil(&cfg, &on)
			tr := newTransport(t, cfg)
			trip(t, tr)
			on = true
			assert.Panics(t, func() { _, _ = tr.RoundTrip(newRequest(t, t.Context(), http.MethodGet, payURL, "")) }, place)
			on = false
			assert.Zero(t, tr.Circuits()[0].Pending, place)
			_, err := get(t, tr, payURL)
			require.NoError(t, err, place)
			for i, n := range base.closes() {
				assert.Positive(t, n, "%s: body %d", place, i)
			}
		})
	}
}

func TestPanicInBaseClosesTheBodyItHad(t *testing.T) {
	var made []*countingBody
	open := func() (io.ReadCloser, error) {
		made = append(made, &countingBody{Reader: strings.NewReader("x")})
		return made[len(made)-1], nil
	}
	req := newRequest(t, t.Context(), http.MethodPut, payURL, "")
	req.Body, _ = open()
	req.GetBody = open
	calls := 0
	tr := newTransport(t, outbound.Config{Retry: outbound.RetryPolicy{Backoff: fixed(0)}, Base: roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if calls++; calls == 2 {
			panic("boom")
		}
		_ = r.Body.Close()
		return answers(503)(r)
	})})
	assert.Panics(t, func() { _, _ = tr.RoundTrip(req) })
	require.Len(t, made, 2)
	assert.Equal(t, []int{1, 1}, []int{made[0].closed, made[1].closed})
}

func TestGetBodyWithoutAReaderIsAnError(t *testing.T) {
	req := newRequest(t, t.Context(), http.MethodPut, payURL, "x")
	req.GetBody = func() (io.ReadCloser, error) { return nil, nil }
	base := playing(answers(503))
	_, err := send(newTransport(t, outbound.Config{Base: base, Retry: outbound.RetryPolicy{Backoff: fixed(0)}}), req)
	require.ErrorContains(t, err, "GetBody returned no reader")
	assert.Equal(t, 1, base.hits())
}

type panicking struct{}

func (panicking) Delay(int) time.Duration { panic("boom") }
