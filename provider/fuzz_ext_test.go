package provider_test

import (
	"bytes"
	"net/http"
	"net/url"
	"testing"

	"github.com/outbound-go/outbound"
	"github.com/stretchr/testify/assert"
)

// FuzzJudges: whatever an API answers, no Judge panics, asks for a time that is negative, or changes the body; and a Judge that
// is asked again says the same.
func FuzzJudges(f *testing.F) {
	for _, p := range profiles {
		for _, e := range p.exchanges {
			for _, r := range e.replies {
				for name := range r.header {
					f.Add(r.status, name, r.header.Get(name), []byte(r.body))
				}
			}
		}
	}
	f.Add(429, "Ratelimit-Reset", "Mon, 30 Nov 9999 12:00:00 GMT", []byte(`{"error":{"details":[{"retryDelay":"1e300s"},{"retryDelay":"NaNs"}]}}`))
	f.Add(429, "X", "", []byte("\xef\xbb\xbf"+`[{"error":{"details":[{"retryDelay":"3s"}],"details":[null,[],1]}}]`))
	f.Add(202, "X-Ratelimit-Reset", "-9223372036854775808", []byte(`{"retry_after":1e400}`))
	f.Fuzz(func(t *testing.T, status int, name, value string, body []byte) {
		header := http.Header{name: {value}, "Date": {value}}
		resp := &http.Response{StatusCode: status, Header: header, Request: &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/payments"}}}
		before := bytes.Clone(body)
		for _, p := range profiles {
			judge := p.make().Judge
			if judge == nil {
				continue
			}
			v := judge(resp, body)
			if v.MinWait < 0 {
				t.Errorf("%s asks to wait %v", p.name, v.MinWait)
			}
			if v.Says == outbound.SaysSucceeded && status != 409 {
				t.Errorf("%s takes a %d for a success", p.name, status)
			}
			if v.Says == outbound.SaysRejected {
				t.Errorf("%s claims a rejection", p.name)
			}
			assert.Equal(t, v.Next, judge(resp, body).Next)
			_ = judge(&http.Response{StatusCode: status}, body) // no headers, no request
		}
		if !bytes.Equal(before, body) {
			t.Error("the body was changed")
		}
	})
}
