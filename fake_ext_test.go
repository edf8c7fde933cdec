package outbound_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/stretchr/testify/require"
)

// step is what a fake Base does with one request.
type step func(*http.Request) (*http.Response, error)

// fakeBase plays its steps, the last one over and over, and keeps what it was asked.
type fakeBase struct {
	mu     sync.Mutex
	steps  []step
	seen   []seenRequest
	bodies []*replyBody
	idle   int // CloseIdleConnections calls
}

type seenRequest struct {
	method, url string
	header      http.Header
	body        string
	getBody     bool
	at          time.Time
}

// keys are the values of the key header, whatever its spelling.
func (r seenRequest) keys() (keys []string) {
	for name, values := range r.header {
		if strings.EqualFold(name, "Idempotency-Key") {
			keys = append(keys, values...)
		}
	}
	return keys
}

func playing(steps ...step) *fakeBase { return &fakeBase{steps: steps} }

func (f *fakeBase) RoundTrip(req *http.Request) (*http.Response, error) {
	seen := seenRequest{method: req.Method, url: req.URL.String(), header: req.Header.Clone(), getBody: req.GetBody != nil, at: time.Now()}
	if req.Body != nil {
		data, err := io.ReadAll(req.Body)
		_ = req.Body.Close()
		if err != nil {
			return nil, err
		}
		seen.body = string(data)
	}
	f.mu.Lock()
	f.seen = append(f.seen, seen)
	next := f.steps[min(len(f.seen), len(f.steps))-1]
	f.mu.Unlock()
	resp, err := next(req)
	if resp != nil && resp.Body != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		body := &replyBody{ReadCloser: resp.Body}
		f.bodies = append(f.bodies, body)
		resp.Body = body
	}
	return resp, err
}

func (f *fakeBase) CloseIdleConnections() { f.idle++ }

func (f *fakeBase) hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

// closes are how often each reply's body was closed.
func (f *fakeBase) closes() (n []int) {
	for _, b := range f.bodies {
		n = append(n, b.closed)
	}
	return n
}

type replyBody struct {
	io.ReadCloser
	closed int
}

func (b *replyBody) Close() error {
	b.closed++
	return b.ReadCloser.Close()
}

// connect fires httptrace as http.Transport does for a connection that was given.
func connect(req *http.Request, reused bool) {
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil {
		trace.GetConn(req.URL.Host)
		trace.GotConn(httptrace.GotConnInfo{Reused: reused})
	}
}

// answers replies with a status, headers in pairs, and a JSON body of unknown length.
func answers(status int, headers ...string) step {
	return repliesWith(status, fmt.Sprintf(`{"status":%d}`, status), headers...)
}

func repliesWith(status int, body string, headers ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		connect(req, false)
		return response(req, status, io.NopCloser(strings.NewReader(body)), headers...), nil
	}
}

// answersBody replies with the body that open returns at each call.
func answersBody(status int, open func(*http.Request) io.ReadCloser, headers ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		connect(req, false)
		return response(req, status, open(req), headers...), nil
	}
}

func response(req *http.Request, status int, body io.ReadCloser, headers ...string) *http.Response {
	resp := &http.Response{
		StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: req,
	}
	for i := 0; i+1 < len(headers); i += 2 {
		resp.Header.Set(headers[i], headers[i+1])
	}
	return resp
}

// fails returns an error after a connection was given: maybe sent.
func fails(err error) step {
	return func(req *http.Request) (*http.Response, error) {
		connect(req, false)
		return nil, err
	}
}

// failsReused does so on a kept connection.
func failsReused(err error) step {
	return func(req *http.Request) (*http.Response, error) {
		connect(req, true)
		return nil, err
	}
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// refuses returns an error before any connection was given: proven unsent.
func refuses() step { return refusesWith(errRefused) }

func refusesWith(err error) step {
	return func(req *http.Request) (*http.Response, error) {
		httptrace.ContextClientTrace(req.Context()).GetConn(req.URL.Host)
		return nil, err
	}
}

// hangs waits until the attempt's context ends.
func hangs() step {
	return func(req *http.Request) (*http.Response, error) {
		connect(req, false)
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
}

// slowly does the step after a time.
func slowly(d time.Duration, do step) step {
	return func(req *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return do(req)
		case <-req.Context().Done():
			connect(req, false)
			return nil, context.Cause(req.Context())
		}
	}
}

// stalling is a body that gives its text and then nothing until the attempt's context ends.
func stalling(text string) func(*http.Request) io.ReadCloser {
	return func(req *http.Request) io.ReadCloser {
		return io.NopCloser(io.MultiReader(strings.NewReader(text), readerFunc(func([]byte) (int, error) {
			<-req.Context().Done()
			return 0, req.Context().Err()
		})))
	}
}

// breaking is a body that gives its text and then an error.
func breaking(text string, err error) func(*http.Request) io.ReadCloser {
	return func(*http.Request) io.ReadCloser {
		return io.NopCloser(io.MultiReader(strings.NewReader(text), readerFunc(func([]byte) (int, error) { return 0, err })))
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// fixed waits the same before each retry.
type fixed time.Duration

func (d fixed) Delay(int) time.Duration { return time.Duration(d) }

// bubble runs a test in virtual time; it fails where a goroutine is left.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func newTransport(t *testing.T, cfg outbound.Config) *outbound.Transport {
	t.Helper()
	tr, err := outbound.New(cfg)
	require.NoError(t, err)
	return tr
}

func newRequest(t *testing.T, ctx context.Context, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, r)
	require.NoError(t, err)
	return req
}

// post sends a keyed payment and reads the reply to its end.
func post(t *testing.T, tr http.RoundTripper, ctx context.Context) (*http.Response, error) {
	t.Helper()
	return send(tr, newRequest(t, ctx, http.MethodPost, "https://pay.test/v1/payments", `{"amount":42}`))
}

func send(tr http.RoundTripper, req *http.Request) (*http.Response, error) {
	resp, err := tr.RoundTrip(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return resp, err
}

func reportOf(t *testing.T, resp *http.Response, err error) outbound.Report {
	t.Helper()
	r, ok := outbound.ReportOf(resp, err)
	require.True(t, ok, "a report of %v, %v", resp, err)
	return r
}
