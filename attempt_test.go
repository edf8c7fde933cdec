package outbound

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTheWriteIsRecognised by what is written below a Base of somebody else's, which may rename the key, rewrite the path, or
// make requests of its own.
func TestTheWriteIsRecognised(t *testing.T) {
	type field struct{ name, value string }
	http2 := func(method, path string, more ...field) []field {
		return append([]field{{":authority", "pay.test"}, {":method", method}, {":path", path}, {":scheme", "https"}}, more...)
	}
	rows := map[string]struct {
		fields  []field
		wrote   protocol
		trigger bool
		ours    bool
	}{
		"nothing":                              {nil, wroteNothing, false, false},
		"HTTP/2":                               {http2("POST", "/v1/pay?a=b", field{"idempotency-key", "k-1"}), wroteHTTP2, false, true},
		"HTTP/2, key renamed":                  {http2("POST", "/v1/pay?a=b", field{"x-tenant-key", "k-1"}), wroteHTTP2, false, true},
		"HTTP/2, key rewritten":                {http2("POST", "/v1/pay?a=b", field{"idempotency-key", "tenant-k-1"}), wroteHTTP2, false, true},
		"HTTP/2, path rewritten":               {http2("POST", "/base/v1/pay?a=b", field{"idempotency-key", "k-1"}), wroteHTTP2, false, true},
		"HTTP/2, a token refresh":              {http2("POST", "/oauth/token"), wroteHTTP2, false, false},
		"HTTP/2, a read of the same":           {http2("GET", "/v1/pay?a=b"), wroteHTTP2, false, false},
		"HTTP/1":                               {[]field{{"Host", "pay.test"}, {"Idempotency-Key", "k-1"}}, wroteHTTP1, true, true},
		"HTTP/1, hidden from net/http":         {[]field{{"Host", "pay.test"}, {"idempotency-key", "k-1"}}, wroteHTTP1, false, true},
		"HTTP/1, own name made the well-known": {[]field{{"X-Idempotency-Key", "k-1"}}, wroteHTTP1, true, true},
		"HTTP/1, a token refresh":              {[]field{{"Host", "pay.test"}, {"Authorization", "x"}}, wroteHTTP1, false, false},
	}
	for name, row := range rows {
		c := &call{t: &Transport{}, method: "POST", wire: "k-1", write: true, keyed: true}
		c.req = &http.Request{Method: "POST", URL: &url.URL{Scheme: "https", Host: "pay.test", Path: "/v1/pay", RawQuery: "a=b"}}
		a := &attempt{call: c}
		for _, f := range row.fields {
			a.noteWritten(f.name, []string{f.value})
		}
		wrote, trigger, ours := a.written(true)
		assert.Equal(t, []any{row.wrote, row.trigger, row.ours}, []any{wrote, trigger, ours}, name)
		wrote, trigger, ours = a.written(true)
		assert.Equal(t, []any{wroteNothing, false, false}, []any{wrote, trigger, ours}, "%s: a new connection", name)
	}
}
