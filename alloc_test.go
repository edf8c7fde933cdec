package outbound

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// memory is a Base that answers from memory. It asks for the context's end, closes the body and fires the trace, as
// http.Transport does. It takes one allocation itself, the response.
type memory struct{ statuses []int }

var noHeader = http.Header{}

func (m *memory) RoundTrip(req *http.Request) (*http.Response, error) {
	_ = req.Context().Done()
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil {
		trace.GetConn("pay.test:443")
		trace.GotConn(httptrace.GotConnInfo{})
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	status := m.statuses[0]
	if len(m.statuses) > 1 {
		m.statuses = m.statuses[1:]
	}
	return &http.Response{StatusCode: status, Header: noHeader, Body: http.NoBody, Request: req}, nil
}

// allocated is how many allocations a call takes, those of Base among them.
func allocated(t *testing.T, rt http.RoundTripper, req *http.Request, before func()) int {
	t.Helper()
	return int(testing.AllocsPerRun(200, func() {
		before()
		resp, err := rt.RoundTrip(req)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}))
}

// TestAllocations pins what the chain costs with all its features on. The counts repeat exactly; time is never gated in a
// test. A change that needs more should say in its commit what it buys.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Log("the race detector allocates on its own account; this pins the counts without it")
		return
	}
	payment := `{"amount":4200}`
	request := func(method string, body io.Reader) *http.Request {
		req, err := http.NewRequest(method, "https://pay.test/v1/payments", body)
		require.NoError(t, err)
		return req
	}
	chain := func(cfg Config) (*Transport, *memory) {
		base := &memory{statuses: []int{200}}
		cfg.Base = base
		tr, err := New(cfg)
		require.NoError(t, err)
		return tr, base
	}
	nothing := func() {}

	tr, _ := chain(Config{})
	assert.LessOrEqual(t, allocated(t, tr, request(http.MethodGet, nil), nothing), 1+11, "GET")
	assert.LessOrEqual(t, allocated(t, tr, request(http.MethodPost, strings.NewReader(payment)), nothing), 1+15, "keyed POST")

	quick := RetryPolicy{Backoff: FullJitter{Base: 1, Cap: 1}, Budget: BudgetPolicy{Disabled: true}}
	tr, base := chain(Config{Retry: quick, Breaker: BreakerPolicy{ConsecutiveFailures: 1 << 30, MinRequests: 1 << 30}})
	again := func() { base.statuses = []int{503, 503, 201} }
	assert.LessOrEqual(t, allocated(t, tr, request(http.MethodPost, strings.NewReader(payment)), again), 48, "503, 503, 201")

	tr, base = chain(Config{Breaker: BreakerPolicy{ConsecutiveFailures: 1, OpenFor: 1 << 40}, Retry: RetryPolicy{MaxAttempts: 1}})
	base.statuses = []int{500}
	_, err := tr.RoundTrip(request(http.MethodGet, nil))
	require.NoError(t, err)
	assert.LessOrEqual(t, allocated(t, tr, request(http.MethodPost, strings.NewReader(payment)), nothing), 1, "open circuit: its error")
}
