package outbound

import (
	"errors"
	"net/http"
	"slices"
	"time"
)

// end closes the ledger. What is claimed from here on changes only where the reply breaks while it is read.
func (c *call) end(stop error, now time.Time) {
	c.unreserve()
	c.stopped = stop
	c.elapsed = now.Sub(c.start)
	c.doubtShared()
	if open, ok := stop.(*CircuitOpenError); ok && !open.NextProbe.IsZero() {
		c.hint = max(open.NextProbe.Sub(now), 0)
	}
	if hook := c.t.hooks.Done; hook != nil {
		hook(c.req.Context(), c.report())
	}
	c.returned = true
}

// report is the ledger as it stands.
func (c *call) report() Report {
	r := Report{
		Method: c.method, URL: c.safeURL(),
		Outcome:        c.standing.outcome,
		IdempotencyKey: c.key,
		Attempts:       c.told(c.attempts),
		Elapsed:        c.elapsed,
		RetryAfter:     c.hint,
		Replayed:       c.replay,
		Stopped:        c.stopped,
	}
	if c.brokeInHand() {
		r.Outcome = OutcomeUnknown
		r.Attempts[len(r.Attempts)-1].Outcome = OutcomeUnknown
	}
	return r
}

// told is a copy of the ledger with the URL filled in, which a call that nobody asks about need not make.
func (c *call) told(attempts []Attempt) []Attempt {
	attempts = slices.Clone(attempts)
	for i := range attempts {
		if attempts[i].URL == "" {
			attempts[i].URL = c.safeURL()
		}
	}
	return attempts
}

// brokeInHand reports whether the reply that success was read from broke off while the caller read its body.
func (c *call) brokeInHand() bool {
	a := c.last
	return a != nil && a.cut.Load() && !c.afterWrite && c.standing.outcome == OutcomeSucceeded &&
		a.evidence.verdict.Says == SaysDefault && a.evidence.success()
}

// OutcomeOf is how the action ended, of what Do or RoundTrip returned. It is OutcomeUnknown for what did not come from this
// package. Ask again after reading the body: a reply that broke off proves no success. Safe for concurrent use.
func OutcomeOf(resp *http.Response, err error) Outcome {
	r, _ := ReportOf(resp, err)
	return r.Outcome
}

// ReportOf is the ledger of the call, of what Do or RoundTrip returned, on success and on failure; ok is false for what did
// not come from this package. Ask again after reading the body. Safe for concurrent use.
func ReportOf(resp *http.Response, err error) (report Report, ok bool) {
	var e *Error
	if errors.As(err, &e) {
		report = e.Report
		report.Attempts = slices.Clone(report.Attempts)
		return report, true
	}
	if c := callOf(resp); c != nil {
		return c.report(), true
	}
	return Report{}, false
}

// callOf is the call that a response came from. Its request is known by identity: a copy of it may have been sent elsewhere.
func callOf(resp *http.Response) *call {
	if resp == nil || resp.Request == nil {
		return nil
	}
	c := callFrom(resp.Request.Context())
	if c == nil || &c.handed != resp.Request {
		return nil
	}
	return c
}

// CheckResponse returns nil for a response with a status of 2xx, else an *Error with the call's report, or with what is
// known of the response where it did not come from this package. The body stays readable, and has to be closed as ever.
func CheckResponse(resp *http.Response) error {
	if resp == nil {
		return &Error{}
	}
	if isSuccess(resp.StatusCode) {
		return nil
	}
	if c := callOf(resp); c != nil {
		return &Error{Report: c.report()}
	}
	r := Report{Attempts: []Attempt{{Number: 1, Status: resp.StatusCode}}}
	if resp.Request != nil {
		r.Method, r.URL = methodOf(resp.Request), safeURL(resp.Request.URL)
	}
	return &Error{Report: r}
}
