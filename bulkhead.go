package outbound

import (
	"net/http"
	"time"
)

// BulkheadPolicy bounds how many calls to one target are in flight at once, so that a slow provider can't hold all of the
// caller's goroutines. A call holds its place from entry until its reply's body is closed, read to its end or timed out, waits
// included, and an upgraded connection (101) until Close; each redirect hop is a call of its own.
type BulkheadPolicy struct {
	// MaxInFlight is how many calls per target. Default: 0, no limit. Negative: refused by New.
	MaxInFlight int
	// MaxWait is how long a call waits for a place, in order of arrival; the total timeout and the caller's context bound it
	// too. Then it is refused with ErrBulkheadFull. Zero and negative: refuse at once.
	MaxWait time.Duration
}

// bulkhead is the layer that lets at most so many calls through. A place is an element of a buffered channel: that is a
// counting semaphore that serves its waiters in order of arrival, and hands a place that is given back straight to the first
// of them, so that nobody overtakes. It takes no memory per place.
func bulkhead(next loop) loop {
	return func(c *call) (*http.Response, error) {
		if err := c.enter(); err != nil {
			return nil, c.fail(err)
		}
		return next(c)
	}
}

// enter takes a place. The call leaves it with its reply, or without one when it ends.
func (c *call) enter() error {
	if c.target == nil {
		return nil
	}
	if c.target.slots != nil {
		if err := c.takePlace(); err != nil {
			return err
		}
		c.placed = true
	}
	c.target.budget.deposit()
	return nil
}

func (c *call) takePlace() error {
	select {
	case c.target.slots <- struct{}{}:
		return nil
	default:
	}
	left, maxWait := c.untilDeadline(time.Now()), c.t.bulkhead.MaxWait
	if maxWait <= 0 {
		return ErrBulkheadFull
	}
	timer := time.NewTimer(min(maxWait, left))
	defer timer.Stop()
	select {
	case c.target.slots <- struct{}{}:
		return nil
	case <-c.req.Context().Done():
		return c.callerCause()
	case <-timer.C:
	}
	if left < maxWait {
		return ErrTotalTimeout
	}
	return ErrBulkheadFull
}

// leave gives the place back. Only the first call acts.
func (c *call) leave() {
	if !c.counted.CompareAndSwap(true, false) {
		return
	}
	c.target.calls.Add(-1)
	if c.placed {
		<-c.target.slots
	}
}
