package wire

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
)

// What the key's header looks like on the wire, for what the caller put into the request.
var names = []struct {
	name     string
	provider outbound.Provider
	header   http.Header
	want     field // over HTTP/1, directly above an *http.Transport; value "" for a generated one, name "" for none
	key      string
}{
	{name: "generated", want: field{"idempotency-key", ""}},
	{name: "canonical", header: http.Header{"Idempotency-Key": {"k"}}, want: field{"idempotency-key", "k"}, key: "k"},
	{name: "lower case", header: http.Header{"idempotency-key": {"k"}}, want: field{"idempotency-key", "k"}, key: "k"},
	{name: "odd", header: http.Header{"iDEMPOTENCY-kEY": {"k"}}, want: field{"idempotency-key", "k"}, key: "k"},
	{name: "two spellings", header: http.Header{"Idempotency-Key": {"k"}, "idempotency-key": {"k"}}, want: field{"idempotency-key", "k"}, key: "k"},
	{name: "said twice", header: http.Header{"Idempotency-Key": {"k", "k"}}, want: field{"idempotency-key", "k"}, key: "k"},
	{
		name: "X", provider: outbound.Provider{KeyHeader: "x-idempotency-key"},
		header: http.Header{"X-Idempotency-Key": {"k"}}, want: field{"x-idempotency-key", "k"}, key: "k",
	},
	{name: "X generated", provider: outbound.Provider{KeyHeader: "X-IDEMPOTENCY-KEY"}, want: field{"x-idempotency-key", ""}},
	{name: "its own name", provider: outbound.Provider{KeyHeader: "Paypal-Request-Id"}, want: field{"Paypal-Request-Id", ""}},
	{
		name: "quoted", provider: outbound.Provider{QuoteKey: true},
		header: http.Header{"Idempotency-Key": {`"k"`}}, want: field{"idempotency-key", `"k"`}, key: "k",
	},
	{name: "none wanted", header: http.Header{"Idempotency-Key": nil}},
	{name: "NoKeys", provider: outbound.Provider{NoKeys: true}, header: http.Header{"idempotency-KEY": {"k"}}},
}

func TestNamesOnTheWire(t *testing.T) {
	for _, p := range []protocol{http1, http2TLS, http2H2C} {
		r := newRig(t, p)
		for _, base := range bases {
			for _, tt := range names {
				t.Run(caseName(string(p), base, tt.name), func(t *testing.T) {
					path := r.path()
					if r.one != nil {
						r.one.script(path, answer(503, "later"), answer(200, "ok"))
					} else {
						r.two.script(path, answer2(503, "later"), answer2(200, "ok"))
					}
					given := cloneHeader(tt.header)
					w := write{method: http.MethodPost, body: replayable, base: base, keys: keys{
						name: tt.name, provider: tt.provider, set: func(req *http.Request) { req.Header = given },
					}}
					c := r.make(t, w, path, 4, nil)
					require.NoError(t, c.err)
					assert.Equal(t, cloneHeader(tt.header), given, "the caller's header map")
					c.checkName(t, tt.want, tt.key, p == http1)
				})
			}
		}
	}
}

// cloneHeader is a copy that is never nil.
func cloneHeader(h http.Header) http.Header {
	own := http.Header{}
	for name, values := range h {
		own[name] = slices.Clone(values)
	}
	return own
}

// checkName checks the one line that carries the key, on every request.
func (c *call) checkName(t *testing.T, want field, key string, overHTTP1 bool) {
	t.Helper()
	if want.name == "" {
		require.Len(t, c.wire, 1, "no key, no second request")
		assert.Empty(t, c.wire[0].named("Idempotency-Key"))
		return
	}
	require.Len(t, c.wire, 2)
	assert.True(t, strings.EqualFold(want.name, c.keys.header()))
	for _, s := range c.wire {
		lines := s.named(want.name)
		require.Len(t, lines, 1)
		if want.value != "" {
			assert.Equal(t, want.value, lines[0].value)
			assert.Equal(t, key, c.report.IdempotencyKey)
		} else {
			assert.Equal(t, c.report.IdempotencyKey, lines[0].value)
		}
		switch {
		case !overHTTP1:
			assert.Equal(t, strings.ToLower(want.name), lines[0].name)
		case c.base != wrapped:
			assert.Equal(t, want.name, lines[0].name)
		}
	}
}

// What else the caller sent arrives as it was sent, once.
func TestOtherHeadersArriveAsTheyWere(t *testing.T) {
	r := newRig(t, http1)
	for _, base := range bases {
		t.Run(base, func(t *testing.T) {
			path := r.path()
			w := write{method: http.MethodPost, body: replayable, base: base, keys: keys{set: func(req *http.Request) {
				maps.Copy(req.Header, http.Header{"X-A": {"1", "2"}, "x-odd-NAME": {"3"}, "X-Empty": {""}})
			}}}
			c := r.make(t, w, path, 1, nil)
			require.Len(t, c.wire, 1)
			assert.Equal(t, []field{{"X-A", "1"}, {"X-A", "2"}}, c.wire[0].named("X-A"))
			assert.Equal(t, []field{{"x-odd-NAME", "3"}}, c.wire[0].named("X-Odd-Name"))
			assert.Equal(t, []field{{"X-Empty", ""}}, c.wire[0].named("X-Empty"))
		})
	}
}
