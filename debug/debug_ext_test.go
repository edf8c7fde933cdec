package debug_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/debug"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// base answers by host: down.test with 500, slow.test with a body that is never read, all others with 200.
type base struct{}

func (base) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: req}
	switch req.URL.Hostname() {
	case "down.test":
		resp.StatusCode = 500
	case "slow.test":
		resp.Body = io.NopCloser(strings.NewReader("x"))
		resp.ContentLength = -1
	}
	return resp, nil
}

func newTransport(t *testing.T, disabled bool) *outbound.Transport {
	t.Helper()
	tr, err := outbound.New(outbound.Config{
		Base:    base{},
		Retry:   outbound.RetryPolicy{MaxAttempts: 1, Budget: outbound.BudgetPolicy{Disabled: disabled}},
		Breaker: outbound.BreakerPolicy{ConsecutiveFailures: 2, OpenFor: time.Minute, Disabled: disabled},
	})
	require.NoError(t, err)
	return tr
}

func call(t *testing.T, tr *outbound.Transport, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	return resp
}

func serve(h http.Handler, target, accept string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, target, nil)
	req.Header.Set("Accept", accept)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec
}

func TestJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pay, mail := newTransport(t, false), newTransport(t, true)
		h := debug.Handler(map[string]*outbound.Transport{"pay": pay, "mail": mail, "none": nil})
		for range 2 {
			_ = call(t, pay, "https://down.test/").Body.Close()
		}
		held := call(t, pay, "https://slow.test/")
		_ = call(t, mail, "https://mail.test/").Body.Close()

		for _, ask := range [][2]string{{"/?format=json", "text/html"}, {"/", "application/json"}} {
			rec := serve(h, ask[0], ask[1])
			assert.Equal(t, "application/json", rec.Header().Get("Content-Type"))
			var got []debug.Target
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &got))
			require.Len(t, got, 3)
			assert.Equal(t, debug.Target{Transport: "mail", Target: "https://mail.test:443", Circuit: "closed", BudgetLeft: -1}, got[0])
			assert.Equal(t, "open", got[1].Circuit)
			assert.Equal(t, "https://down.test:443", got[1].Target)
			require.NotNil(t, got[1].NextProbe)
			assert.InDelta(t, 60, time.Until(*got[1].NextProbe).Seconds(), 15)
			assert.Equal(t, 10, got[1].BudgetLeft)
			assert.Equal(t, 1, got[2].CallsInFlight)
			assert.Equal(t, 1, got[2].Pending)
		}
		_ = held.Body.Close()
		time.Sleep(2 * time.Minute)
		assert.Contains(t, serve(h, "/", "text/html").Body.String(), "with the next call")
		assert.Equal(t, outbound.CircuitOpen, pay.Circuits()[0].State, "looking moves nothing")
	})
}

func TestPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, false)
		h := debug.Handler(map[string]*outbound.Transport{"<pay>": tr, "free": newTransport(t, true)})
		assert.Contains(t, serve(h, "/", "text/html").Body.String(), "No target has been called yet.")
		for range 2 {
			_ = call(t, tr, "https://down.test/").Body.Close()
		}
		time.Sleep(12 * time.Second)
		rec := serve(h, "/", "text/html,application/xhtml+xml")
		assert.Equal(t, "text/html; charset=utf-8", rec.Header().Get("Content-Type"))
		text := rec.Body.String()
		for _, want := range []string{"&lt;pay&gt;", `<span class="state open">open</span>`, "https://down.test:443", `http-equiv="refresh"`, `<td class="n">12s</td>`, "<td>in "} {
			assert.Contains(t, text, want)
		}
		for _, elsewhere := range []string{"<script", "src=", "@import", "url("} {
			assert.NotContains(t, text, elsewhere)
		}
	})
}
