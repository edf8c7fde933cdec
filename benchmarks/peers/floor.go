package peers

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/sony/gobreaker/v2"
)

// floor is the smallest program with the duties that outbound can't leave out: one attempt that has a deadline it can name,
// proof of what was sent, a circuit with a rolling window, a key, a request for Base and another for the caller, and a hook on
// the body that releases it all. It retries nothing, judges nothing, reports nothing.
type floor struct {
	base    http.RoundTripper
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
}

func newFloor(base http.RoundTripper, _ options) http.RoundTripper {
	return &floor{base: base, breaker: gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Interval: time.Minute, BucketPeriod: 10 * time.Second, Timeout: openFor,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= failures },
	})}
}

// floorCall is all state of a call in one allocation.
type floorCall struct {
	sent, handed http.Request
	trace        httptrace.ClientTrace
	sought, got  atomic.Int32
	done         func(error)
	cancel       context.CancelCauseFunc
	timer        *time.Timer
	key          [1]string
	released     atomic.Bool
	body         io.ReadCloser
}

type floorKey struct{}

var (
	errLate   = errors.New("late")
	errServer = errors.New("5xx")
)

func (f *floor) RoundTrip(req *http.Request) (*http.Response, error) {
	done, err := f.breaker.Allow()
	if err != nil {
		return nil, err
	}
	c := &floorCall{done: done}
	parent := context.WithValue(req.Context(), floorKey{}, c)
	ctx, cancel := context.WithCancelCause(parent)
	c.cancel = cancel
	c.timer = time.AfterFunc(attemptTimeout, c.expire)
	c.trace.GetConn, c.trace.GotConn = c.getConn, c.gotConn
	c.handed = *req.WithContext(parent)
	c.sent = *req.WithContext(httptrace.WithClientTrace(ctx, &c.trace))
	if req.Method == http.MethodPost {
		c.key[0] = uuid.NewString()
		c.sent.Header = maps.Clone(req.Header)
		c.sent.Header["Idempotency-Key"] = c.key[:]
	}
	resp, err := f.base.RoundTrip(&c.sent)
	if err != nil {
		c.release(err)
		return nil, err
	}
	resp.Request, c.body, resp.Body = &c.handed, resp.Body, floorBody{c}
	if resp.StatusCode >= http.StatusInternalServerError {
		c.release(errServer)
	}
	return resp, nil
}

func (c *floorCall) expire()                       { c.cancel(errLate) }
func (c *floorCall) getConn(string)                { c.sought.Add(1) }
func (c *floorCall) gotConn(httptrace.GotConnInfo) { c.got.Add(1) }

func (c *floorCall) release(err error) {
	if c.released.CompareAndSwap(false, true) {
		c.timer.Stop()
		c.cancel(nil)
		c.done(err)
	}
}

type floorBody struct{ c *floorCall }

func (b floorBody) Read(p []byte) (int, error) {
	n, err := b.c.body.Read(p)
	if err == io.EOF {
		b.c.release(nil)
	}
	return n, err
}

func (b floorBody) Close() error {
	b.c.release(nil)
	return b.c.body.Close()
}
