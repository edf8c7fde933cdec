package outbound_test

import (
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

// TestKeyRoutes: where the API ignores keys, a key protects nothing, whoever set it.
func TestKeyRoutes(t *testing.T) {
	routes := []string{"/payments", "/payments/{id}/refunds", "/v2/"}
	for path, honoured := range map[string]bool{
		"/payments": true, "/payments?a=b": true, "/payments/p1/refunds": true, "/v2/": true, "/v2/anything/at/all": true,
		"/v2/.well-known": true, "/payments/.../refunds": true,
		"/v2": false, "/v2//": false, "/v2/a/../../payments": false, "/payments/../refunds": false, "/payments//refunds": false, "/payments/p%2F1/refunds": false,
		"/%70ayments": false, "/Payments": false, "/api/payments": false, "/payments/p1/refunds/": false, "//": false,
		"/": false, "": false, "/payments/": false, "/payments/p1": false, "/payments/p1/q/refunds": false, "//payments": false, "/a/../payments": false, "/v3/": false,
	} {
		for name, given := range map[string]string{"made here": "", "adopted": "order-42"} {
			bubble(t, func(t *testing.T) {
				base := playing(fails(io.EOF), answers(201))
				cfg := quick(base)
				cfg.Provider.KeyRoutes = routes
				req := newRequest(t, t.Context(), http.MethodPost, "https://api.test"+path, "x")
				if given != "" {
					req.Header.Set("Idempotency-Key", given)
				}
				resp, err := send(newTransport(t, cfg), req)
				r := reportOf(t, resp, err)
				if honoured {
					assert.Equal(t, outbound.OutcomeSucceeded, r.Outcome, "%s, %s", path, name)
					assert.Equal(t, []string{r.IdempotencyKey}, base.seen[1].keys(), "%s, %s", path, name)
					return
				}
				assert.Equal(t, 1, base.hits(), "%s, %s", path, name)
				assert.Equal(t, outbound.OutcomeUnknown, r.Outcome, "%s, %s", path, name)
				assert.Equal(t, given, r.IdempotencyKey, "%s, %s", path, name)
			})
		}
	}
}

// TestAnActionWhereItsKeyIsIgnored is good for one use, like one on a method that takes no key.
func TestAnActionWhereItsKeyIsIgnored(t *testing.T) {
	base := playing(answers(201))
	tr := newTransport(t, outbound.Config{Base: base, Provider: outbound.Provider{KeyRoutes: []string{"/other"}}})
	a := outbound.NewAction()
	_, err := post(t, tr, with(t, a))
	require.NoError(t, err)
	assert.Empty(t, base.seen[0].keys())
	_, err = post(t, tr, with(t, a))
	require.ErrorIs(t, err, outbound.ErrNotRetryable)
	assert.Equal(t, 1, base.hits())
}

func TestKeyOfTheWrongForm(t *testing.T) {
	refuse := func(key string) error {
		if strings.Contains(key, ".") {
			return errors.New("letters, digits and dashes only")
		}
		return nil
	}
	base := playing(answers(201))
	tr := newTransport(t, outbound.Config{Base: base, Provider: outbound.Provider{MinKeyLength: 4, MaxKeyLength: 36, CheckKey: refuse}})
	for key, text := range map[string]string{"abc": "at least 4", "ab.c": "letters, digits and dashes only"} {
		req := newRequest(t, t.Context(), http.MethodPost, payURL, "x")
		req.Header.Set("Idempotency-Key", key)
		_, err := send(tr, req)
		require.ErrorIs(t, err, outbound.ErrInvalidKey, key)
		assert.ErrorContains(t, err, text)

		a := outbound.NewAction()
		a.Key = key
		_, err = post(t, tr, with(t, a))
		require.ErrorIs(t, err, outbound.ErrInvalidKey, key)
		assert.ErrorContains(t, err, text)
	}
	assert.Zero(t, base.hits())
	_, err := post(t, tr, t.Context())
	require.NoError(t, err, "a key made here will do")
}

func TestNoKeyIsMadeThatTheAPIWouldRefuse(t *testing.T) {
	base := playing(answers(201))
	for name, p := range map[string]outbound.Provider{
		"too long":  {MaxKeyLength: 35},
		"too short": {MinKeyLength: 37},
		"form":      {CheckKey: func(key string) error { return errors.New("digits only") }},
	} {
		resp, err := post(t, newTransport(t, outbound.Config{Base: base, Provider: p}), t.Context())
		require.ErrorIs(t, err, outbound.ErrInvalidKey, name)
		assert.ErrorContains(t, err, "a key made here would be refused", name)
		assert.Equal(t, outbound.OutcomeNotSent, outbound.OutcomeOf(resp, err), name)
	}
	assert.Zero(t, base.hits())
}

// keyInBody finds the key of an API that takes it in the body.
func keyInBody(req *http.Request) (string, error) {
	if req.GetBody == nil {
		return "", nil
	}
	body, err := req.GetBody()
	if err != nil {
		return "", err
	}
	var order struct{ Key string }
	if json.NewDecoder(body).Decode(&order) != nil {
		return "", errors.New("the body is not JSON")
	}
	return order.Key, nil
}

func TestKeyInTheBody(t *testing.T) {
	for name, row := range map[string]struct {
		body    string
		action  string
		hits    int
		key     string
		outcome outbound.Outcome
		err     error
	}{
		"adopted":          {`{"Key":"k-1"}`, "", 2, "k-1", outbound.OutcomeSucceeded, nil},
		"of an action":     {`{"Key":"k-1"}`, "k-1", 2, "k-1", outbound.OutcomeSucceeded, nil},
		"another action's": {`{"Key":"k-1"}`, "k-2", 0, "k-2", outbound.OutcomeUnknown, outbound.ErrInvalidKey},
		"action, no key":   {`{}`, "k-2", 0, "k-2", outbound.OutcomeUnknown, outbound.ErrInvalidKey},
		"no key":           {`{}`, "", 1, "", outbound.OutcomeUnknown, io.EOF},
		"not valid":        {`{"Key":"a b"}`, "", 0, "", outbound.OutcomeUnknown, outbound.ErrInvalidKey},
		"not readable":     {`<key>`, "", 0, "", outbound.OutcomeUnknown, outbound.ErrInvalidKey},
	} {
		bubble(t, func(t *testing.T) {
			base := playing(fails(io.EOF), answers(201))
			cfg := quick(base)
			cfg.Provider.KeyOf = keyInBody
			ctx := t.Context()
			if row.action != "" {
				ctx = outbound.WithAction(ctx, &outbound.Action{Key: row.action, Started: time.Now()})
			}
			req := newRequest(t, ctx, http.MethodPost, payURL, row.body)
			req.Header.Set("Idempotency-Key", "not this one")
			resp, err := send(newTransport(t, cfg), req)
			require.ErrorIs(t, err, row.err, name)
			r := reportOf(t, resp, err)
			assert.Equal(t, row.key, r.IdempotencyKey, name)
			assert.Equal(t, row.outcome, r.Outcome, name)
			require.Equal(t, row.hits, base.hits(), name)
			for _, seen := range base.seen {
				assert.Empty(t, seen.keys(), name)
				assert.Equal(t, row.body, seen.body, name)
			}
		})
	}
}

// TestKeyOfIsAskedOfWritesOnly, and not of a request that has no URL to look at.
func TestKeyOfIsAskedOfWritesOnly(t *testing.T) {
	asked := 0
	tr := newTransport(t, outbound.Config{Base: playing(answers(200)), Provider: outbound.Provider{KeyOf: func(req *http.Request) (string, error) {
		asked++
		return req.URL.Query().Get("key"), nil
	}}})
	_, err := send(tr, newRequest(t, t.Context(), http.MethodGet, payURL, ""))
	require.NoError(t, err)
	_, err = tr.RoundTrip(&http.Request{Method: http.MethodPost})
	require.ErrorIs(t, err, outbound.ErrNotRetryable)
	assert.Zero(t, asked)
	resp, err := send(tr, newRequest(t, t.Context(), http.MethodPost, payURL+"?key=k-7", "x"))
	require.NoError(t, err)
	assert.Equal(t, "k-7", reportOf(t, resp, err).IdempotencyKey)
}

// TestAllowDuplicates repeats what no key protects, and says of it no more than is known.
func TestAllowDuplicates(t *testing.T) {
	for name, row := range map[string]struct {
		steps   []step
		hits    int
		outcome outbound.Outcome
	}{
		"lost, then done":    {[]step{fails(io.EOF), answers(200)}, 2, outbound.OutcomeSucceeded},
		"lost, then refused": {[]step{fails(io.EOF), answers(400)}, 2, outbound.OutcomeUnknown},
		"503, then done":     {[]step{answers(503), answers(200)}, 2, outbound.OutcomeSucceeded},
		"timeout, then done": {[]step{slowly(time.Hour, answers(200)), answers(200)}, 2, outbound.OutcomeSucceeded},
		"always lost":        {[]step{fails(io.EOF)}, 4, outbound.OutcomeUnknown},
		"409":                {[]step{answers(409)}, 1, outbound.OutcomeRejected},
		"409, told to":       {[]step{answers(409, "X-Should-Retry", "true"), answers(200)}, 2, outbound.OutcomeSucceeded},
	} {
		bubble(t, func(t *testing.T) {
			base := playing(row.steps...)
			cfg := quick(base)
			cfg.Provider.NoKeys, cfg.Provider.AllowDuplicates = true, true
			resp, err := post(t, newTransport(t, cfg), t.Context())
			assert.Equal(t, row.outcome, reportOf(t, resp, err).Outcome, name)
			assert.Equal(t, row.hits, base.hits(), name)
			for _, seen := range base.seen {
				assert.Empty(t, seen.keys(), name)
			}
		})
	}
}

// TestJudgeKnowsTheRequest, also below a Base that says nothing of the request that it answered, or names another.
func TestJudgeKnowsTheRequest(t *testing.T) {
	for name, said := range map[string]*http.Request{"none": nil, "another": {Method: http.MethodGet}} {
		base := roundTripFunc(func(req *http.Request) (*http.Response, error) {
			resp, err := answers(422)(req)
			resp.Request = said
			return resp, err
		})
		var method string
		tr := newTransport(t, outbound.Config{Base: base, Provider: outbound.Provider{Judge: func(resp *http.Response, _ []byte) outbound.Verdict {
			method = resp.Request.Method
			return outbound.Verdict{}
		}}})
		_, err := post(t, tr, t.Context())
		require.NoError(t, err, name)
		assert.Equal(t, http.MethodPost, method, name)
	}
}

// TestJudgeIsHeardOnABrokenAnswer: what forbids to repeat a 500 forbids it too where its body breaks off, or never comes.
func TestJudgeIsHeardOnABrokenAnswer(t *testing.T) {
	for name, body := range map[string]func(*http.Request) io.ReadCloser{
		"broken off": breaking("{", io.ErrUnexpectedEOF), "too slow": stalling("{"),
	} {
		bubble(t, func(t *testing.T) {
			base := playing(answersBody(500, body), answers(201))
			cfg := quick(base)
			cfg.Provider.Judge = func(resp *http.Response, _ []byte) outbound.Verdict {
				if resp.StatusCode == 500 {
					return outbound.Verdict{Next: outbound.NextStop}
				}
				return outbound.Verdict{}
			}
			resp, err := post(t, newTransport(t, cfg), t.Context())
			r := reportOf(t, resp, err)
			assert.Equal(t, outbound.OutcomeUnknown, r.Outcome, name)
			assert.Equal(t, outbound.ErrNotRetryable, r.Stopped, "%s: it was no final answer", name)
			assert.Equal(t, 1, base.hits(), name)
		})
	}
}

// TestJudgeSeesAnErrorOfAStreamsType: only a success is a stream.
func TestJudgeSeesAnErrorOfAStreamsType(t *testing.T) {
	for _, media := range []string{"text/event-stream", "application/x-ndjson"} {
		var saw string
		tr := newTransport(t, outbound.Config{Base: playing(repliesWith(429, "quota", "Content-Type", media)), Provider: outbound.Provider{
			Judge: func(_ *http.Response, body []byte) outbound.Verdict {
				saw = string(body)
				return outbound.Verdict{Next: outbound.NextStop}
			},
		}})
		_, err := post(t, tr, t.Context())
		require.NoError(t, err)
		assert.Equal(t, "quota", saw, media)
	}
}

// TestARedirectToWhereNoKeyCounts: a write that may have been done is not repeated there; one that was not done goes on.
func TestARedirectToWhereNoKeyCounts(t *testing.T) {
	inQuery := outbound.Provider{KeyOf: func(req *http.Request) (string, error) { return req.URL.Query().Get("key"), nil }}
	for name, row := range map[string]struct {
		provider outbound.Provider
		method   string
		from, to string
		lost     bool
		action   bool
		hits     int
		err      error
	}{
		"another route, fresh action":       {outbound.Provider{KeyRoutes: []string{"/a"}}, "POST", "/a", "/b", false, true, 1, outbound.ErrNotRetryable},
		"another route, PUT of an action":   {outbound.Provider{KeyRoutes: []string{"/a"}, KeyMethods: []string{"PUT"}}, "PUT", "/a", "/b", false, true, 1, outbound.ErrNotRetryable},
		"duplicates allowed, an action":     {outbound.Provider{KeyRoutes: []string{"/a"}, AllowDuplicates: true}, "POST", "/a", "/b", false, true, 1, outbound.ErrNotRetryable},
		"another host, fresh action":        {outbound.Provider{}, "POST", "/a", "https://other.test/a", false, true, 1, outbound.ErrNotRetryable},
		"another host, not done":            {outbound.Provider{}, "POST", "/a", "https://other.test/a", false, false, 2, nil},
		"another route, maybe done":         {outbound.Provider{KeyRoutes: []string{"/a"}}, "POST", "/a", "/b", true, false, 2, outbound.ErrNotRetryable},
		"a slash more, maybe done":          {outbound.Provider{KeyRoutes: []string{"/a"}}, "POST", "/a", "/a/", true, false, 2, outbound.ErrNotRetryable},
		"another route, not done":           {outbound.Provider{KeyRoutes: []string{"/a"}}, "POST", "/a", "/b", false, false, 2, nil},
		"a key route, maybe done":           {outbound.Provider{KeyRoutes: []string{"/a", "/b"}}, "POST", "/a", "/b", true, false, 3, nil},
		"an adopted key that never counted": {outbound.Provider{KeyRoutes: []string{"/other"}}, "POST", "/a", "/a/", false, false, 2, nil},
		"PUT, maybe done":                   {outbound.Provider{KeyRoutes: []string{"/a"}, KeyMethods: []string{"PUT"}}, "PUT", "/a", "/b", true, false, 3, nil},
		"duplicates allowed":                {outbound.Provider{KeyRoutes: []string{"/a"}, AllowDuplicates: true}, "POST", "/a", "/b", true, false, 3, nil},
		"key left behind, maybe done":       {inQuery, "POST", "/a?key=k-1", "/b", true, false, 2, outbound.ErrNotRetryable},
		"key left behind, and so unknown":   {inQuery, "POST", "/a?key=k-1", "/b", false, false, 1, outbound.ErrNotRetryable},
		"key comes along":                   {inQuery, "POST", "/a?key=k-1", "/b?key=k-1", true, false, 3, nil},
		"key left behind, of an action":     {inQuery, "POST", "/a?key=k-1", "/b", false, true, 1, outbound.ErrInvalidKey},
		"another key comes, of an action":   {inQuery, "POST", "/a?key=k-1", "/b?key=k-2", false, true, 1, outbound.ErrInvalidKey},
		"key comes along, of an action":     {inQuery, "POST", "/a?key=k-1", "/b?key=k-1", true, true, 3, nil},
		"another route, resumed action":     {outbound.Provider{KeyRoutes: []string{"/a"}}, "POST", "/a", "/b", false, true, 1, outbound.ErrNotRetryable},
		"a key route, of a resumed action":  {outbound.Provider{KeyRoutes: []string{"/a", "/b"}}, "POST", "/a", "/b", false, true, 2, nil},
	} {
		bubble(t, func(t *testing.T) {
			steps := []step{answers(307, "Location", row.to), answers(201)}
			if row.lost {
				steps = append([]step{fails(io.EOF)}, steps...)
			}
			base := playing(steps...)
			cfg := quick(base)
			cfg.Provider = row.provider
			ctx := t.Context()
			if row.action {
				ctx = outbound.WithAction(ctx, &outbound.Action{Key: "k-1", Started: time.Now()})
			}
			if strings.HasSuffix(name, "fresh action") {
				ctx = outbound.WithAction(ctx, outbound.NewAction())
			}
			client := &http.Client{Transport: newTransport(t, cfg)}
			req := newRequest(t, ctx, row.method, "https://api.test"+row.from, "x")
			if strings.HasPrefix(name, "an adopted key") {
				req.Header.Set("Idempotency-Key", "order-42")
			}
			resp, err := client.Do(req)
			require.ErrorIs(t, err, row.err, name)
			assert.Equal(t, row.hits, base.hits(), name)
			want := outbound.OutcomeSucceeded
			switch {
			case strings.HasSuffix(name, "fresh action"):
				want = outbound.OutcomeRejected // a 307 was all that came of it
			case row.err != nil:
				want = outbound.OutcomeUnknown
			}
			assert.Equal(t, want, outbound.OutcomeOf(resp, err), name)
		})
	}
}

// TestAKeyOfTheCallersGoesOnWhereItCountsForNothing, in any form, with an action as without.
func TestAKeyOfTheCallersGoesOnWhereItCountsForNothing(t *testing.T) {
	refuse := func(string) error { return errors.New("never") }
	base := playing(answers(201))
	tr := newTransport(t, outbound.Config{Base: base, Provider: outbound.Provider{KeyRoutes: []string{"/other"}, CheckKey: refuse, MinKeyLength: 20}})
	req := newRequest(t, t.Context(), http.MethodPost, payURL, "x")
	req.Header.Set("Idempotency-Key", "order-42")
	_, err := send(tr, req)
	require.NoError(t, err)
	own := outbound.NewAction()
	req = newRequest(t, with(t, own), http.MethodPost, payURL, "x")
	req.Header.Set("Idempotency-Key", own.Key)
	_, err = send(tr, req)
	require.NoError(t, err)
	require.Len(t, base.seen, 2)
	assert.Equal(t, []string{"order-42"}, base.seen[0].keys())
	assert.Equal(t, []string{own.Key}, base.seen[1].keys())
}
