package peers

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/sony/gobreaker/v2"
)

// floor is the smallest program with the duties that outbound can't leave out, each done in the plainest way: it looks for a
// chain above it and for what the context overrides, refuses what can't be sent, makes a key, asks a circuit with a rolling
// window, bounds the attempt and then the reading with a timer whose end has a name, sees by httptrace what was sent, keeps a
// ledger, and gives the caller a request of its own and a body that releases it all. It knows one target and one kind of
// retry; it has no budget, no actions, no redirects, no judge, no hooks and no outcome.
type floor struct {
	base    http.RoundTripper
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
}

func newFloor(base http.RoundTripper, _ options) http.RoundTripper {
	return &floor{base: base, breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Interval: time.Minute, BucketPeriod: 20 * time.Second, Timeout: openFor,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= failures },
	})}
}

// floorCall is all state of a call, with its first attempt, in one allocation.
type floorCall struct {
	start  time.Time
	ctx    context.Context
	header http.Header
	key    [1]string
	handed http.Request
	ledger []floorEntry
	first  [1]floorEntry

	initial floorAttempt
}

type floorEntry struct {
	start   time.Time
	elapsed time.Duration
	status  int
	err     error
	conns   int32
	method  string
}

type floorAttempt struct {
	start       time.Time
	sent        http.Request
	trace       httptrace.ClientTrace
	sought, got atomic.Int32
	done        func(error)
	cancel      context.CancelCauseFunc
	timer       *time.Timer
	reading     atomic.Bool
	released    atomic.Bool
	body        io.ReadCloser
}

// floorRefusal is what a refused call is told: what was asked, and until when nothing is sent.
type floorRefusal struct {
	method, url string
	elapsed     time.Duration
	until       time.Time
}

func (r *floorRefusal) Error() string { return "circuit open for " + r.url }

type (
	floorKey     struct{}
	floorLimits  struct{}
	floorLimit   string
	floorInvalid string
)

func (l floorLimit) Error() string   { return string(l) }
func (i floorInvalid) Error() string { return string(i) }

const floorTotal = 3 * attemptTimeout

var errServer = errors.New("5xx")

func (f *floor) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, nested := req.Context().Value(floorKey{}).(*floorCall); nested {
		return f.base.RoundTrip(req)
	}
	c := &floorCall{start: time.Now()}
	limit := attemptTimeout
	if own, ok := req.Context().Value(floorLimits{}).(time.Duration); ok {
		limit = own
	}
	if !sendable(req) {
		return nil, floorInvalid("the request can't be sent")
	}
	for n := 1; ; n++ {
		a := &c.initial
		if n > 1 {
			a = new(floorAttempt)
		}
		resp, err := f.attempt(c, a, req, n, limit)
		if err != nil || resp.StatusCode < http.StatusInternalServerError || n == maxAttempts {
			return resp, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		pause := time.NewTimer(firstWait)
		select {
		case <-pause.C:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
}

func sendable(req *http.Request) bool {
	if req.URL == nil || req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return false
	}
	for name, values := range req.Header {
		for i := range len(name) {
			if name[i] <= ' ' || name[i] >= 0x7f || name[i] == ':' {
				return false
			}
		}
		for _, v := range values {
			for i := range len(v) {
				if v[i] < ' ' && v[i] != '\t' || v[i] == 0x7f {
					return false
				}
			}
		}
	}
	return true
}

func (f *floor) attempt(c *floorCall, a *floorAttempt, req *http.Request, n int, limit time.Duration) (*http.Response, error) {
	a.start = time.Now()
	if floorTotal-a.start.Sub(c.start) <= 0 {
		return nil, floorLimit("total timeout")
	}
	done, err := f.breaker.Allow()
	if err != nil {
		return nil, &floorRefusal{req.Method, placeText(req.URL), a.start.Sub(c.start), a.start.Add(openFor)}
	}
	a.done = done
	if c.ctx == nil {
		c.prepare(req)
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	a.cancel = cancel
	a.timer = time.AfterFunc(min(limit, floorTotal-a.start.Sub(c.start)), a.expire)
	a.trace.GetConn, a.trace.GotConn = a.getConn, a.gotConn
	a.sent = *req.WithContext(httptrace.WithClientTrace(ctx, &a.trace))
	a.sent.Header = c.header
	if n > 1 && req.GetBody != nil {
		if a.sent.Body, err = req.GetBody(); err != nil {
			a.release(err)
			return nil, err
		}
	}
	resp, err := f.base.RoundTrip(&a.sent)
	c.record(a, resp, err, req.Method)
	if err != nil {
		a.release(err)
		return nil, err
	}
	return a.receive(c, resp), nil
}

func (c *floorCall) prepare(req *http.Request) {
	c.ctx = context.WithValue(req.Context(), floorKey{}, c)
	c.handed = *req.WithContext(c.ctx)
	c.header = req.Header
	if req.Method == http.MethodPost {
		c.key[0] = uuid.NewString()
		c.header = maps.Clone(req.Header)
		c.header["Idempotency-Key"] = c.key[:]
	}
}

func (c *floorCall) record(a *floorAttempt, resp *http.Response, err error, method string) {
	entry := floorEntry{start: a.start, elapsed: time.Since(a.start), err: err, conns: a.got.Load(), method: method}
	if resp != nil {
		entry.status = resp.StatusCode
	}
	if c.ledger == nil {
		c.ledger = c.first[:0]
	}
	c.ledger = append(c.ledger, entry)
}

// receive gives the reply its limit for reading, and its verdict at the end or at once.
func (a *floorAttempt) receive(c *floorCall, resp *http.Response) *http.Response {
	if resp.StatusCode >= http.StatusInternalServerError {
		a.done(errServer)
		a.done = nil
	}
	a.reading.Store(true)
	a.timer.Reset(floorTotal - time.Since(c.start))
	resp.Request, a.body, resp.Body = &c.handed, resp.Body, floorBody{a}
	return resp
}

func (a *floorAttempt) expire() {
	if a.reading.Load() {
		a.cancel(floorLimit("total timeout"))
		return
	}
	a.cancel(floorLimit("attempt timeout"))
}

func (a *floorAttempt) getConn(string)                { a.sought.Add(1) }
func (a *floorAttempt) gotConn(httptrace.GotConnInfo) { a.got.Add(1) }

func (a *floorAttempt) release(err error) {
	if !a.released.CompareAndSwap(false, true) {
		return
	}
	a.timer.Stop()
	a.cancel(nil)
	if a.done != nil {
		a.done(err)
	}
}

func placeText(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

type floorBody struct{ a *floorAttempt }

func (b floorBody) Read(p []byte) (int, error) {
	n, err := b.a.body.Read(p)
	if err == io.EOF {
		b.a.release(nil)
	}
	return n, err
}

func (b floorBody) Close() error {
	b.a.release(nil)
	return b.a.body.Close()
}
