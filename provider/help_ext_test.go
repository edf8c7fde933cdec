package provider_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reply is what the API does with one request: an answer, or nothing at all after it has read the request.
type reply struct {
	status int
	body   string
	header http.Header
	breaks bool // after the body given here
}

var (
	lost  = reply{}           // the request was sent, and the connection broke
	hangs = reply{status: -1} // the request was sent, and nothing came back
)

// says is an answer with a JSON body, and headers in pairs.
func says(status int, body string, headers ...string) reply {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return reply{status: status, body: body, header: h}
}

// breakingOff is an answer whose body does not come to its end.
func breakingOff(status int) reply {
	r := says(status, "{")
	r.breaks = true
	return r
}

// api plays its replies, the last one over and over, and keeps the headers and bodies that it was sent.
type api struct {
	mu      sync.Mutex
	replies []reply
	headers []http.Header
	bodies  []string
}

func (a *api) RoundTrip(req *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil {
		trace.GetConn(req.URL.Host)
		trace.GotConn(httptrace.GotConnInfo{})
	}
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		_ = req.Body.Close()
	}
	r := a.next(req, string(body))
	switch r.status {
	case lost.status:
		return nil, errors.New("connection reset")
	case hangs.status:
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
	resp := &http.Response{
		StatusCode: r.status, ProtoMajor: 1, ProtoMinor: 1, Header: r.header.Clone(), Request: req,
		Body: io.NopCloser(strings.NewReader(r.body)), ContentLength: int64(len(r.body)),
	}
	if r.breaks {
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(r.body), failing{io.ErrUnexpectedEOF}))
		resp.ContentLength++
	}
	return resp, nil
}

func (a *api) next(req *http.Request, body string) reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.headers, a.bodies = append(a.headers, req.Header.Clone()), append(a.bodies, body)
	return a.replies[min(len(a.headers), len(a.replies))-1]
}

// keys are the values of a header in the nth request.
func (a *api) keys(n int, name string) (values []string) {
	for spelled, v := range a.headers[n] {
		if http.CanonicalHeaderKey(spelled) == http.CanonicalHeaderKey(name) {
			values = append(values, v...)
		}
	}
	return values
}

type noBackoff struct{}

func (noBackoff) Delay(int) time.Duration { return 0 }

// config leaves time for every documented wait, and waits for nothing but what an answer asks for.
func config(p outbound.Provider, base http.RoundTripper) outbound.Config {
	return outbound.Config{
		Base: base, Provider: p, AttemptTimeout: time.Minute, TotalTimeout: time.Hour,
		Retry: outbound.RetryPolicy{Backoff: noBackoff{}, Budget: outbound.BudgetPolicy{Disabled: true}},
	}
}

// result is how a call went.
type result struct {
	outbound.Report
	api  *api
	took time.Duration // in virtual time
}

// call sends one request in virtual time to an API that gives these replies.
func call(t *testing.T, p outbound.Provider, send func(*http.Request), method, url, body string, replies ...reply) (got result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		got = callNow(t, t.Context(), p, send, method, url, body, replies...)
	})
	return got
}

func callNow(t *testing.T, ctx context.Context, p outbound.Provider, change func(*http.Request), method, url, body string, replies ...reply) result {
	t.Helper()
	base := &api{replies: replies}
	tr, err := outbound.New(config(p, base))
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	if change != nil {
		change(req)
	}
	start := time.Now()
	resp, err := tr.RoundTrip(req)
	took := time.Since(start)
	if err == nil {
		data, err := io.ReadAll(resp.Body)
		last := base.replies[min(len(base.headers), len(base.replies))-1]
		require.Equal(t, last.breaks, err != nil)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, last.body, string(data), "the body stays readable")
	}
	report, ok := outbound.ReportOf(resp, err)
	require.True(t, ok)
	return result{report, base, took}
}

// verdict is what a call must come to. A wait that an answer asked for is spread upwards, by less than half.
type verdict struct {
	outcome  outbound.Outcome
	attempts int
	wait     time.Duration
}

func (v verdict) check(t *testing.T, got result) {
	t.Helper()
	assert.Equal(t, v.outcome, got.Outcome)
	assert.Len(t, got.Attempts, v.attempts)
	assert.GreaterOrEqual(t, got.took, v.wait)
	assert.LessOrEqual(t, got.took, v.wait+v.wait/2)
}
