package outbound

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"a", "order-42", NewIdempotencyKey(), strings.Repeat("k", 255), `"quoted"`, "order@42", "a@b@c.de", "@x.de", "mail@", "a@b.1", "~!{}"} {
		assert.NoError(t, checkKey(key, 255), "%q", key)
	}
	for key, says := range map[string]string{
		"":                        "it is empty",
		strings.Repeat("k", 256):  "it has 256 characters, and at most 255 are allowed",
		"a b":                     "position 2 is not visible ASCII",
		"a\n":                     "position 2",
		"\x00":                    "position 1",
		"a\x7f":                   "position 2",
		"käse":                    "position 2",
		"jo@example.com":          "e-mail address",
		"jo.d+x@mail.example.ORG": "e-mail address",
	} {
		err := checkKey(key, 255)
		require.ErrorIs(t, err, ErrInvalidKey, "%q", key)
		assert.ErrorContains(t, err, says)
		if len(key) > 3 {
			assert.NotContains(t, err.Error(), key, "what may be personal is not printed")
		}
	}
}

func TestHeaderKeyFoundUnderAnySpelling(t *testing.T) {
	p := Provider{}.withDefaults()
	for _, name := range []string{"Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY", "idempotency-KEY"} {
		key, wire, given, err := headerKey(http.Header{name: {"k-1"}}, &p)
		require.NoError(t, err)
		assert.Equal(t, []any{"k-1", "k-1", true}, []any{key, wire, given}, name)
	}
	_, _, given, err := headerKey(http.Header{"X-Idempotency-Key": {"k-1"}}, &p)
	require.NoError(t, err)
	assert.False(t, given, "another header")
}

func TestHeaderKeyWithoutAValueMeansNoKey(t *testing.T) {
	p := Provider{}.withDefaults()
	for _, values := range [][]string{nil, {}, {""}, {"", ""}} {
		key, _, given, err := headerKey(http.Header{"Idempotency-Key": values}, &p)
		require.NoError(t, err)
		assert.Empty(t, key)
		assert.True(t, given)
	}
}

func TestTwoKeysAreRefused(t *testing.T) {
	p := Provider{}.withDefaults()
	for _, h := range []http.Header{
		{"Idempotency-Key": {"a", "b"}},
		{"Idempotency-Key": {"a"}, "idempotency-key": {"b"}},
		{"Idempotency-Key": {"a", ""}},
	} {
		_, _, _, err := headerKey(h, &p)
		assert.ErrorIs(t, err, ErrInvalidKey, "%v", h)
	}
	key, _, _, err := headerKey(http.Header{"Idempotency-Key": {"a"}, "idempotency-key": {"a"}}, &p)
	require.NoError(t, err)
	assert.Equal(t, "a", key, "the same key twice is one key")
}

func TestQuotedKeys(t *testing.T) {
	for _, key := range []string{"plain", `with"quote`, `back\slash`, `\"`, `""`} {
		wire := quoteKey(key, true)
		back, err := unquoteKey(wire, true)
		require.NoError(t, err, wire)
		assert.Equal(t, key, back)
		assert.Equal(t, key, quoteKey(key, false))
	}
	assert.Equal(t, `"a\"b\\c"`, quoteKey(`a"b\c`, true))

	raw, err := unquoteKey("raw", true)
	require.NoError(t, err)
	assert.Equal(t, "raw", raw)
	for _, wire := range []string{`"`, `"a`, `"a"b`, `"a\"`, `"a\x"`, `"a"; p=1`} {
		_, err := unquoteKey(wire, true)
		assert.ErrorIs(t, err, ErrInvalidKey, wire)
	}
}

// TestNetHTTPDoesNotSeeTheKey: its test for a replayable request looks for the canonical name only.
func TestNetHTTPDoesNotSeeTheKey(t *testing.T) {
	h := http.Header{"Idempotency-Key": {"a"}, "X-Idempotency-Key": {"b"}, "Accept": {"c"}}
	assert.True(t, replayableByNetHTTP(h))
	hideFromNetHTTP(h)
	assert.False(t, replayableByNetHTTP(h))
	assert.Equal(t, http.Header{"idempotency-key": {"a"}, "x-idempotency-key": {"b"}, "Accept": {"c"}}, h)

	both := http.Header{"X-Idempotency-Key": {"b"}, "x-idempotency-key": {"a"}}
	hideFromNetHTTP(both)
	assert.Equal(t, http.Header{"x-idempotency-key": {"a", "b"}}, both, "neither value is lost")
}
