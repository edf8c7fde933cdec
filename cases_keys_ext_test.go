package outbound_test

import (
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

func TestC44_OneKeyOnAllAttempts(t *testing.T) {
	for wire, serve := range caseWires {
		for _, method := range []string{"POST", "PATCH"} {
			t.Run(wire+" "+method, func(t *testing.T) {
				s := serve(t, caseSend(503, ""), caseDrop, caseSend(200, "ok"))
				r := caseOK(t, caseNew(t, caseConfig(s.base)), caseRequest(t, method, s.URL, "b"))
				require.Equal(t, 3, s.count())
				require.Len(t, r.Report.Attempts, 3)
				key := caseSameKey(t, s.all())
				assert.Equal(t, key, r.Report.IdempotencyKey)
				assert.LessOrEqual(t, len(key), 255)
				assert.Equal(t, -1, strings.IndexFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }))
			})
		}
	}
}

func TestC44_FreshKeyPerAction(t *testing.T) {
	const calls = 1000
	base := caseScript(caseReply(200))
	tr := caseNew(t, caseConfig(base))
	same := casePost(t)
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() { caseOK(t, tr, casePost(t)) })
	}
	wg.Wait()
	for range 2 {
		same.Body, _ = same.GetBody()
		caseOK(t, tr, same)
	}
	keys := map[string]bool{}
	for _, h := range base.all() {
		require.Len(t, h.Keys("Idempotency-Key"), 1)
		keys[h.Keys("Idempotency-Key")[0]] = true
	}
	assert.Len(t, keys, calls+2, "as many keys as actions")
}

func TestC45_CallersKeyWins(t *testing.T) {
	spellings := []string{"Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY", "Idempotency-key"}
	for wire, serve := range caseWires {
		for _, name := range spellings {
			t.Run(wire+" "+name, func(t *testing.T) {
				s := serve(t, caseSend(503, ""), caseSend(409, ""), caseSend(200, "ok"))
				req := caseRequest(t, "POST", s.URL, "b")
				req.Header[name] = []string{"order-42"}
				r := caseOK(t, caseNew(t, caseConfig(s.base)), req)
				require.Equal(t, 3, s.count())
				assert.Equal(t, "order-42", caseSameKey(t, s.all()))
				assert.Equal(t, "order-42", r.Report.IdempotencyKey)
				assert.Equal(t, []string{"order-42"}, req.Header[name])
				assert.Len(t, req.Header, 1)
			})
		}
	}
}

func TestC45_TwoKeysAreNoKey(t *testing.T) {
	rows := map[string]struct {
		header http.Header
		quote  bool
		sent   string // empty: refused
	}{
		"equal, twice":          {header: http.Header{"Idempotency-Key": {"a", "a"}}, sent: "a"},
		"equal, two spellings":  {header: http.Header{"Idempotency-Key": {"a"}, "idempotency-key": {"a"}}, sent: "a"},
		"differing":             {header: http.Header{"Idempotency-Key": {"a", "b"}}},
		"differing, spellings":  {header: http.Header{"Idempotency-Key": {"a"}, "idempotency-key": {"b"}}},
		"e-mail address":        {header: http.Header{"Idempotency-Key": {"jo@shop.example"}}},
		"too long":              {header: http.Header{"Idempotency-Key": {strings.Repeat("k", 256)}}},
		"space":                 {header: http.Header{"Idempotency-Key": {"a b"}}},
		"quoted, sent verbatim": {header: http.Header{"Idempotency-Key": {`"a"`}}, quote: true, sent: `"a"`},
		"bare, sent verbatim":   {header: http.Header{"Idempotency-Key": {"a"}}, quote: true, sent: "a"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			base := caseScript(caseReply(503), caseReply(200))
			cfg := caseConfig(base)
			cfg.Provider.QuoteKey = row.quote
			req := casePost(t)
			req.Header = row.header
			r := caseDo(t, caseNew(t, cfg), req)
			if row.sent == "" {
				require.ErrorIs(t, r.Err, outbound.ErrInvalidKey)
				assert.Zero(t, base.count())
				assert.Equal(t, outbound.OutcomeUnknown, r.Report.Outcome, "who knows what the caller did with it")
				return
			}
			require.Equal(t, 2, base.count())
			assert.Equal(t, row.sent, caseSameKey(t, base.all()))
			assert.Equal(t, "a", r.Report.IdempotencyKey)
		})
	}
}

func TestC49_KeyHeaderByConfiguration(t *testing.T) {
	rows := map[string]struct {
		provider outbound.Provider
		header   string
	}{
		"default":       {header: "Idempotency-Key"},
		"custom":        {outbound.Provider{KeyHeader: "X-Request-Key"}, "X-Request-Key"},
		"empty":         {outbound.Provider{KeyHeader: ""}, "Idempotency-Key"},
		"lower case":    {outbound.Provider{KeyHeader: "x-request-key"}, "X-Request-Key"},
		"net/http's":    {outbound.Provider{KeyHeader: "X-Idempotency-Key"}, "X-Idempotency-Key"},
		"off":           {outbound.Provider{NoKeys: true}, ""},
		"off by method": {outbound.Provider{KeyMethods: []string{"PATCH"}}, ""},
	}
	for wire, serve := range caseWires {
		for name, row := range rows {
			t.Run(wire+" "+name, func(t *testing.T) {
				s := serve(t, caseSend(200, "ok"))
				cfg := caseConfig(s.base)
				cfg.Provider = row.provider
				r := caseOK(t, caseNew(t, cfg), caseRequest(t, "POST", s.URL, "b"))
				sent := map[string]string{}
				for _, name := range []string{"Idempotency-Key", "X-Request-Key", "X-Idempotency-Key"} {
					for _, key := range s.all()[0].Keys(name) {
						sent[name] = key
					}
				}
				if row.header == "" {
					assert.Empty(t, sent)
					assert.Empty(t, r.Report.IdempotencyKey)
					return
				}
				assert.NotEmpty(t, r.Report.IdempotencyKey)
				assert.Equal(t, map[string]string{row.header: r.Report.IdempotencyKey}, sent)
			})
		}
	}
}

func TestC49_OddKeyHeaderIsRefused(t *testing.T) {
	for _, name := range []string{" ", "Idempotency Key", "Idempotency-Key:", "Key\n", "Schlüssel"} {
		_, err := outbound.New(outbound.Config{Provider: outbound.Provider{KeyHeader: name}})
		require.ErrorContains(t, err, "KeyHeader", "%q", name)
	}
}

// caseNoValue are the ways of a header that is there and says nothing.
var caseNoValue = map[string]http.Header{
	"no value":    {"Idempotency-Key": {}},
	"nil value":   {"Idempotency-Key": nil},
	"empty value": {"Idempotency-Key": {""}},
	"lower case":  {"idempotency-key": {}},
}

func TestC50_KeyHeaderWithoutAValueMeansNoKey(t *testing.T) {
	for name, header := range caseNoValue {
		for wire, serve := range caseWires {
			t.Run(name+" "+wire, func(t *testing.T) {
				s := serve(t, caseSend(200, "warm"), caseDrop, caseSend(200, "again"))
				tr := caseNew(t, caseConfig(s.base))
				caseOK(t, tr, caseRequest(t, "GET", s.URL, ""))
				req := caseRequest(t, "POST", s.URL, "b")
				req.Header = header.Clone()
				r := caseDo(t, tr, req)
				require.Error(t, r.Err)
				require.ErrorIs(t, r.Report.Stopped, outbound.ErrNotRetryable)
				require.Equal(t, 2, s.count(), "one request of the write, on a kept connection too")
				assert.Empty(t, s.all()[1].Keys("Idempotency-Key"))
				assert.Empty(t, r.Report.IdempotencyKey)
				assert.Equal(t, outbound.OutcomeUnknown, r.Report.Outcome)
				assert.Equal(t, header, req.Header)
			})
		}
	}
}

func TestC50_WithoutAKeyOnlyTheUnsentIsRepeated(t *testing.T) {
	for name, header := range caseNoValue {
		caseVirtual(t, name, func(t *testing.T) {
			s := casePipe(t, caseSend(200, "ok")).failing(caseRefused())
			req := caseRequest(t, "POST", s.URL, "b")
			req.Header = header.Clone()
			r := caseOK(t, caseNew(t, caseConfig(s.base)), req)
			assert.Equal(t, 1, s.count())
			require.Len(t, r.Report.Attempts, 2)
			assert.Equal(t, outbound.OutcomeNotSent, r.Report.Attempts[0].Outcome)
			assert.Empty(t, s.all()[0].Keys("Idempotency-Key"))
		})
	}
}

func TestC51_KeysWhereTheyCount(t *testing.T) {
	rows := []struct {
		method string
		keyed  bool
		hits   int
	}{
		{"GET", false, 2}, {"HEAD", false, 2}, {"OPTIONS", false, 2}, {"TRACE", false, 2},
		{"POST", true, 2}, {"PATCH", true, 2}, {"PUT", false, 2}, {"DELETE", false, 2},
		{"LOCK", false, 1}, {"post", false, 1},
	}
	for _, row := range rows {
		t.Run(row.method, func(t *testing.T) {
			base := caseScript(caseReplyWith(503, ""), caseReplyWith(200, ""))
			caseDo(t, caseNew(t, caseConfig(base)), caseRequest(t, row.method, caseURL, ""))
			require.Equal(t, row.hits, base.count())
			for _, h := range base.all() {
				assert.Equal(t, row.keyed, len(h.Keys("Idempotency-Key")) == 1)
			}
		})
	}
}

func TestC51_KeyMethodsByConfiguration(t *testing.T) {
	for _, method := range []string{"PUT", "DELETE", "LOCK"} {
		base := caseScript(caseReply(503), caseReply(409), caseReply(200))
		cfg := caseConfig(base)
		cfg.Provider.KeyMethods = []string{"PUT", "DELETE", "LOCK"}
		caseOK(t, caseNew(t, cfg), caseRequest(t, method, caseURL, "b"))
		require.Equal(t, 3, base.count(), method)
		caseSameKey(t, base.all())
	}
}

func TestC52_ConflictIsWaitedOutWithTheSameKey(t *testing.T) {
	rows := map[string]struct {
		acts    []http.HandlerFunc
		hits    int
		status  int
		outcome outbound.Outcome
	}{
		"stored result at last": {
			[]http.HandlerFunc{caseDrop, caseSend(409, "busy"), caseSend(409, "busy"), caseSend(200, "paid", "Idempotent-Replayed", "true")},
			4, 200, outbound.OutcomeSucceeded,
		},
		"plain result at last": {
			[]http.HandlerFunc{caseDrop, caseSend(409, "busy"), caseSend(409, "busy"), caseSend(200, "paid")},
			4, 200, outbound.OutcomeSucceeded,
		},
		"stored refusal": {
			[]http.HandlerFunc{caseDrop, caseSend(409, "busy"), caseSend(422, "no", "Idempotent-Replayed", "true")},
			3, 422, outbound.OutcomeRejected,
		},
		"stored failure does not change": {
			[]http.HandlerFunc{caseDrop, caseSend(409, "busy"), caseSend(500, "no", "Idempotent-Replayed", "true")},
			3, 500, outbound.OutcomeUnknown,
		},
		"busy to the end": {
			[]http.HandlerFunc{caseDrop, caseSend(409, "busy")},
			4, 409, outbound.OutcomeUnknown,
		},
	}
	for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": casePipe, "HTTP2": casePipeH2} {
		for name, row := range rows {
			caseVirtual(t, wire+" "+name, func(t *testing.T) {
				s := serve(t, row.acts...)
				r := caseDo(t, caseNew(t, caseWaiting(s.base, 50*time.Millisecond)), caseRequest(t, "POST", s.URL, "pay"))
				require.NoError(t, r.Err)
				assert.Equal(t, row.status, r.Status)
				assert.Equal(t, row.hits, s.count())
				caseSameKey(t, s.all())
				caseSameBody(t, s.all(), "pay")
				assert.Equal(t, row.outcome, r.Report.Outcome)
				for _, wait := range caseWaits(r.Report) {
					assert.Equal(t, 50*time.Millisecond, wait)
				}
			})
		}
	}
}

func TestC53_ConflictToTheEndComesBackWhole(t *testing.T) {
	body := `{"error":{"code":"idempotency_key_in_use","message":"` + strings.Repeat("busy ", 100) + `"}}`
	stop := outbound.Verdict{Next: outbound.NextStop}
	rows := map[string]struct {
		method  string
		set     func(*outbound.Config)
		hits    int
		outcome outbound.Outcome
	}{
		"POST":         {method: "POST", hits: 3},
		"off by If":    {"POST", func(c *outbound.Config) { c.Retry.If = func(a outbound.Attempt) bool { return a.Status != 409 } }, 1, 0},
		"off by Judge": {"POST", func(c *outbound.Config) { c.Provider.Judge = caseJudge(409, stop) }, 1, 0},
		"no keys":      {"POST", func(c *outbound.Config) { c.Provider.NoKeys = true }, 1, outbound.OutcomeRejected},
		"PUT":          {method: "PUT", hits: 1, outcome: outbound.OutcomeRejected},
		"DELETE":       {method: "DELETE", hits: 1, outcome: outbound.OutcomeRejected},
		"GET":          {method: "GET", hits: 1, outcome: outbound.OutcomeRejected},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			base := caseScript(caseReplyWith(409, body, "Content-Type", "application/json"))
			cfg := caseConfig(base)
			cfg.Retry.MaxAttempts = 3
			if row.set != nil {
				row.set(&cfg)
			}
			r := caseDo(t, caseNew(t, cfg), caseRequest(t, row.method, caseURL, "b"))
			require.NoError(t, r.Err)
			assert.Equal(t, 409, r.Status)
			assert.Equal(t, body, r.Body)
			assert.Equal(t, row.hits, base.count())
			assert.Equal(t, row.outcome, r.Report.Outcome)
		})
	}
}

// caseJudge has a verdict on one status.
func caseJudge(status int, v outbound.Verdict) func(*http.Response, []byte) outbound.Verdict {
	return func(resp *http.Response, _ []byte) outbound.Verdict {
		if resp.StatusCode == status {
			return v
		}
		return outbound.Verdict{}
	}
}

func TestC54_ServersAdviceOnRetries(t *testing.T) {
	rows := []struct {
		method        string
		status        int
		header, value string
		noKeys        bool
		hits          int
	}{
		{method: "POST", status: 503, header: "x-should-retry", value: "false", hits: 1},
		{method: "POST", status: 409, header: "Stripe-Should-Retry", value: "false", hits: 1},
		{method: "POST", status: 429, header: "X-Should-Retry", value: "false", hits: 1},
		{method: "GET", status: 503, header: "X-Should-Retry", value: "false", hits: 1},
		{method: "POST", status: 503, header: "x-should-retry", value: "maybe", hits: 2},
		{method: "POST", status: 503, header: "x-should-retry", value: "", hits: 2},
		{method: "POST", status: 400, header: "x-should-retry", value: "maybe", hits: 1},
		{method: "POST", status: 400, header: "x-should-retry", value: "true", hits: 2},
		{method: "POST", status: 501, header: "Stripe-Should-Retry", value: "true", hits: 2},
		{method: "GET", status: 404, header: "x-should-retry", value: "true", hits: 2},
		{method: "PUT", status: 409, header: "Stripe-Should-Retry", value: "true", hits: 2},
		{method: "POST", status: 200, header: "x-should-retry", value: "true", hits: 1},
		{method: "POST", status: 202, header: "x-should-retry", value: "true", hits: 1},
		{method: "POST", status: 400, header: "x-should-retry", value: "true", noKeys: true, hits: 1},
		{method: "POST", status: 503, header: "x-should-retry", value: "true", noKeys: true, hits: 1},
		{method: "POST", status: 429, header: "x-should-retry", value: "false", noKeys: true, hits: 1},
	}
	for _, row := range rows {
		t.Run(fmt.Sprint(row.method, row.status, row.header, row.value, row.noKeys), func(t *testing.T) {
			base := caseScript(caseReply(row.status, row.header, row.value), caseReply(200))
			cfg := caseConfig(base)
			cfg.Provider.NoKeys = row.noKeys
			r := caseDo(t, caseNew(t, cfg), caseRequest(t, row.method, caseURL, "b"))
			assert.Equal(t, row.hits, base.count())
			if row.hits == 1 {
				assert.Equal(t, row.status, r.Status)
			}
		})
	}
}

// caseNetHTTPKeys are the headers that make net/http send a write again by itself.
var caseNetHTTPKeys = map[string]http.Header{
	"generated":           {},
	"adopted":             {"Idempotency-Key": {"order-42"}},
	"adopted, lower case": {"idempotency-key": {"order-42"}},
	"net/http's other":    {"X-Idempotency-Key": {"other"}},
	"other, no value":     {"X-Idempotency-Key": {}},
}

func TestC56_OneAttemptIsOneRequestOnTheWire(t *testing.T) {
	for name, header := range caseNetHTTPKeys {
		for _, attempts := range []int{1, 4} {
			for _, layers := range []string{"direct", "wrapped"} {
				t.Run(fmt.Sprint(name, " ", attempts, " ", layers), func(t *testing.T) {
					s := caseServe(t, caseSend(200, "warm"), caseDrop, caseSend(200, "ok"))
					hooks := caseHooks{}
					cfg := caseWaiting(s.base, caseNoMore) // a retry that waits would not be made
					if layers == "wrapped" {
						cfg.Base = caseFunc(s.base.RoundTrip)
					}
					cfg.Retry.MaxAttempts, cfg.Hooks = attempts, hooks.hooks()
					tr := caseNew(t, cfg)
					caseOK(t, tr, caseRequest(t, "POST", s.URL, "first"))
					req := caseRequest(t, "POST", s.URL, "second")
					req.Header = header.Clone()
					r := caseDo(t, tr, req)
					require.True(t, r.Report.Attempts[0].Reused, "the recipe needs a kept connection")
					require.Len(t, r.Report.Attempts, min(attempts, 2))
					caseOnTheWire(t, s.all()[1:], r, min(attempts, 2))
					require.Len(t, hooks.retries, min(attempts, 2)-1)
				})
			}
		}
	}
}

func caseOnTheWire(t *testing.T, hits []caseHit, r caseResult, attempts int) {
	t.Helper()
	require.Len(t, hits, attempts)
	assert.Equal(t, r.Report.IdempotencyKey, caseSameKey(t, hits))
	caseSameBody(t, hits, "second")
	if attempts == 1 {
		require.Error(t, r.Err)
		require.ErrorIs(t, r.Report.Stopped, outbound.ErrAttemptsExhausted)
		assert.Equal(t, outbound.OutcomeUnknown, r.Report.Outcome)
		return
	}
	require.NoError(t, r.Err)
	assert.Equal(t, 200, r.Status)
	assert.Equal(t, outbound.OutcomeSucceeded, r.Report.Outcome)
}

func TestC56_StaleConnectionIsRetriedAtOnceOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := casePipe(t, caseSend(200, "warm"), caseDrop, caseSend(503, ""), caseSend(200, "ok"))
		tr := caseNew(t, caseWaiting(s.base, time.Second))
		caseOK(t, tr, caseRequest(t, "POST", s.URL, "b"))
		r := caseOK(t, tr, caseRequest(t, "POST", s.URL, "b"))
		assert.Equal(t, []time.Duration{0, time.Second}, caseWaits(r.Report))
	})
}

// HTTP/2's resets with PROTOCOL_ERROR and REFUSED_STREAM are those that net/http sends again by itself.
func TestC56_OneAttemptIsOneRequestOverHTTP2(t *testing.T) {
	for reset, code := range map[string]byte{"PROTOCOL_ERROR": 1, "REFUSED_STREAM": 7} {
		for _, attempts := range []int{1, 4} {
			for _, layers := range []string{"direct", "wrapped"} {
				t.Run(fmt.Sprint(reset, attempts, layers), func(t *testing.T) {
					s := caseServeFrames(t, func(n int, stream uint32) ([]byte, bool) {
						if n == 0 {
							return caseFrameRST(stream, code), false
						}
						return caseFrameOK(stream), false
					})
					cfg := caseConfig(s.base)
					if layers == "wrapped" {
						cfg.Base = caseFunc(s.base.RoundTrip)
					}
					cfg.Retry.MaxAttempts = attempts
					r := caseDo(t, caseNew(t, cfg), caseRequest(t, "POST", s.URL, "second"))
					require.Len(t, r.Report.Attempts, min(attempts, 2))
					require.Equal(t, min(attempts, 2), s.count(), "requests on the wire")
					caseSameBody(t, s.all(), "second")
					assert.Equal(t, attempts == 1, r.Err != nil)
				})
			}
		}
	}
}

// Calls share an HTTP/2 connection: what keeps one from being sent twice must leave the others alone.
func TestC56_PreventedResendSparesOtherCalls(t *testing.T) {
	const refusedStream = 7 // after which net/http uses the same connection again
	for _, layers := range []string{"direct", "wrapped"} {
		t.Run(layers, func(t *testing.T) {
			underway, other := make(chan struct{}), uint32(0)
			s := caseServeFrames(t, func(n int, stream uint32) ([]byte, bool) {
				switch n {
				case 0:
					other = stream
					close(underway)
					return nil, false
				case 1:
					return caseFrameRST(stream, refusedStream), false
				case 2:
					return append(caseFrameOK(stream), caseFrameOK(other)...), false
				}
				return caseFrameOK(stream), false
			})
			cfg := caseConfig(s.base)
			if layers == "wrapped" {
				cfg.Base = caseFunc(s.base.RoundTrip)
			}
			tr := caseNew(t, cfg)
			var wg sync.WaitGroup
			wg.Go(func() {
				r := caseDo(t, tr, caseRequest(t, "POST", s.URL, "other"))
				assert.Equal(t, 200, r.Status)
				assert.Len(t, r.Report.Attempts, 1, "a call beside")
			})
			<-underway
			r := caseDo(t, tr, caseRequest(t, "POST", s.URL, "second"))
			assert.Equal(t, 200, r.Status)
			assert.Len(t, r.Report.Attempts, 2)
			wg.Wait()
			assert.Equal(t, 3, s.count(), "requests on the wire")
		})
	}
}

// A write without a key whose reply is lost is never sent again.
func TestC56_LostReplyOfAKeylessWriteIsNeverRepeated(t *testing.T) {
	for name, lost := range map[string]error{"EOF": io.EOF, "reset": syscall.ECONNRESET, "EPIPE": syscall.EPIPE} {
		base := caseScript(caseErr(lost), caseReply(200))
		cfg := caseConfig(base)
		cfg.Provider.NoKeys = true
		r := caseDo(t, caseNew(t, cfg), casePost(t))
		require.ErrorIs(t, r.Err, lost, name)
		assert.Equal(t, 1, base.count())
		assert.Equal(t, outbound.OutcomeUnknown, r.Report.Outcome)
	}
}
