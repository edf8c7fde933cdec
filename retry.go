package outbound

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// RetryPolicy says when and how often to try again. What may be retried at all is fixed by the rules.
type RetryPolicy struct {
	// MaxAttempts is how many attempts one action may take, the first among them; the first of each redirect hop is free.
	// Default: 4. 1: never retry. Negative: refused by New.
	MaxAttempts int
	// Backoff is the wait before a retry without a hint by the server. Default: FullJitter{Base: 500ms, Cap: 8s}.
	Backoff Backoff
	// Budget bounds the retries to a target over all calls. Default: a tenth of the calls, plus one every 10 s.
	Budget BudgetPolicy
	// MaxRetryAfter is the longest hint that is waited for. A server that asks for more is not asked again: its answer
	// comes back at once, with Report.RetryAfter set. So it does where the wait, a hint and up to a third more, does not fit
	// into the total timeout: with the default of 30 s that may be from 22 s on. Default: 60 s. Negative: no limit.
	MaxRetryAfter time.Duration
	// If is asked only about retries that the rules allow: false stops. It can narrow the rules, never widen them. It runs
	// on the caller's goroutine and must be safe for concurrent use. Default: nil, no further condition.
	If func(Attempt) bool
}

// layer passes one attempt on. What came of it is in the attempt.
type layer func(*attempt)

// loop passes one hop on.
type loop func(*call) (*http.Response, error)

// retry is the loop: attempt, decide, wait, until there is an answer to hand over or a reason to stop.
func retry(next layer) loop {
	return func(c *call) (*http.Response, error) {
		for wait := time.Duration(0); ; {
			a, err := c.nextAttempt(wait)
			if err != nil {
				return nil, c.fail(err)
			}
			if next(a); c.stopped != nil {
				return nil, c.fail(c.stopped)
			}
			c.record(a)
			again, stop := c.decide(a)
			c.settleBudget(!again && stop == nil)
			if stop != nil || !again {
				return c.finish(a, stop)
			}
			a.settle() // before the circuit is asked about a retry
			wait = c.waitBefore(a)
			if stop := c.forbidWait(a, wait); stop != nil {
				return c.finish(a, stop)
			}
			c.retries++
			a.discard(wait)
			if err := c.sleep(wait); err != nil {
				return nil, c.fail(err)
			}
		}
	}
}

// nextAttempt readies an attempt: the caller's own body for the first, a fresh reader for each later one.
func (c *call) nextAttempt(wait time.Duration) (*attempt, error) {
	now := time.Now()
	if err := c.overtime(now, 0); err != nil {
		return nil, err // a slow hook, or a total timeout that is over at once
	}
	a := &c.initial
	if c.current != nil {
		a = new(attempt)
	}
	a.call, a.number, a.wait, a.start = c, len(c.attempts)+1, wait, now
	if err := a.takeBody(); err != nil {
		return nil, errBody.causedBy(err)
	}
	if a.fresh {
		a.start = time.Now() // GetBody may have been slow
	}
	c.current = a
	return a, nil
}

// takeBody gets the body to send. With an action even the first comes from GetBody, the one that was hashed.
func (a *attempt) takeBody() (err error) {
	c := a.call
	if !hasBody(c.req) || c.current == nil && c.action == nil {
		a.body = c.req.Body
		return nil
	}
	a.body, err = c.req.GetBody()
	if err == nil && a.body == nil {
		err = errNoBody
	}
	a.fresh = err == nil
	return err
}

// ruling is what the rules say of a further attempt.
type ruling uint8

const (
	final     ruling = iota // the answer is final
	forbidden               // a retry would heal it, or might, and must not be
	allowed
)

// ruling applies the rules in their order: the provider's verdict, the server's advice, the table.
func (e *evidence) ruling() ruling {
	switch {
	case e.verdict.Next == NextStop && e.broken && e.verdict.Says == SaysDefault:
		return forbidden
	case e.verdict.Next == NextStop:
		return final
	case e.verdict.Next == NextRetry:
		return allowIf(e.repeatable || e.verdict.Says == SaysRejected)
	case e.failed:
		return allowIf(!e.hopeless && (e.repeatable || !e.maybeSent))
	case e.advice == adviceStop && (e.retryableStatus() || e.broken):
		return forbidden
	case e.advice == adviceStop:
		return final
	case e.advice == adviceRetry && e.repeatable && !e.success():
		return allowed
	}
	return e.table()
}

func allowIf(ok bool) ruling {
	if ok {
		return allowed
	}
	return forbidden
}

// table is the retry table for answers.
func (e *evidence) table() ruling {
	switch {
	case e.broken:
		return allowIf(e.repeatable)
	case e.replayed, !e.retryableStatus():
		return final
	case e.status == http.StatusConflict, e.status == http.StatusTooManyRequests:
		return allowed
	default:
		return allowIf(e.repeatable)
	}
}

func (e *evidence) retryableStatus() bool { return retriedByStatus(e.status, e.keyed) }

// retriedByStatus reports whether a status calls for another attempt, if that is safe.
func retriedByStatus(status int, keyed bool) bool {
	switch status {
	case http.StatusConflict:
		return keyed // the first one is still at work
	case http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	default:
		return status >= 500
	}
}

// adviceOf reads the headers by which some servers say outright whether to retry; other values are ignored.
func adviceOf(h http.Header) advice {
	for _, name := range [...]string{"X-Should-Retry", "Stripe-Should-Retry"} {
		switch v := strings.TrimSpace(first(h, name)); {
		case strings.EqualFold(v, "true"):
			return adviceRetry
		case strings.EqualFold(v, "false"):
			return adviceStop
		}
	}
	return adviceNone
}

func replayed(h http.Header, name string) bool {
	return strings.EqualFold(strings.TrimSpace(first(h, name)), "true")
}

// judge asks the provider, where it has a say. A success that broke off is for the rules.
func (a *attempt) judge() Verdict {
	judge, success := a.call.t.provider.Judge, a.evidence.success()
	if judge == nil || a.broken() && success {
		return Verdict{}
	}
	body := a.prefix
	if a.broken() || success && a.end == nil && a.resp.Body != http.NoBody {
		body = nil // only its beginning was read, if at all
	}
	switch {
	case success, a.broken():
	case body == nil:
		body = []byte{} // it has none, which is not the same as one that was lost
	default:
		body = body[:min(len(body), maxJudged)]
	}
	return judge(a.resp, body)
}

// decide says whether to try again, or why not. A nil reason with no further attempt means a final answer.
func (c *call) decide(a *attempt) (again bool, stop error) {
	if cause := c.callerCause(); cause != nil && (a.evidence.failed || a.evidence.broken || a.evidence.ruling() == allowed) {
		return false, cause
	}
	switch a.evidence.ruling() {
	case final:
		return false, nil
	case forbidden:
		return false, ErrNotRetryable
	}
	limit := c.t.retry.MaxRetryAfter
	switch {
	case c.retries >= c.limits.maxAttempts-1:
		return false, ErrAttemptsExhausted
	case !c.replayable:
		return false, ErrBodyNotReplayable
	case limit > 0 && a.hint > limit:
		return false, why(ErrNotRetryable, "the server asked to wait %v, and at most %v are waited for", a.hint, limit)
	case c.t.retry.If != nil && !c.t.retry.If(c.lastAttempt()):
		return false, why(ErrNotRetryable, "RetryPolicy.If said no")
	}
	return true, nil
}

// waitBefore is how long to wait before the retry. A kept connection that the server had just closed costs no wait, once.
func (c *call) waitBefore(a *attempt) time.Duration {
	if a.stale() && !c.staleUsed && len(c.attempts) == c.inherited+1 {
		c.staleUsed = true
		return 0
	}
	backoff := max(c.t.retry.Backoff.Delay(c.retries), 0)
	if a.hint > 0 {
		return spread(a.hint, backoff)
	}
	return backoff
}

// forbidWait says why a wait is not begun: it would outlast a deadline or the key, the circuit is open by now, or the budget
// is empty.
func (c *call) forbidWait(a *attempt, wait time.Duration) error {
	now := time.Now()
	if deadline, ok := c.req.Context().Deadline(); ok && wait >= deadline.Sub(now) {
		return context.DeadlineExceeded
	}
	if err := c.overtime(now, wait); err != nil {
		return err
	}
	if until := c.openUntil(now); !until.IsZero() {
		return &CircuitOpenError{Target: c.target.circuit.target, State: CircuitOpen, NextProbe: until}
	}
	if a.yielded.Load() && a.health() == failing {
		return why(ErrNotRetryable, "the attempt was a circuit's probe, and one that fails is not repeated")
	}
	return c.spend(a, now)
}

// spend takes a token of the budget for the retry, which is free where the failed attempt is proven not to have been sent.
func (c *call) spend(a *attempt, now time.Time) error {
	c.spent = false
	if c.target == nil || a.evidence.failed && !a.evidence.maybeSent {
		return nil
	}
	if !c.target.budget.take(now) {
		return ErrBudgetExhausted
	}
	c.reserved = true
	return nil
}

// unreserve gives the token of a retry back that was never sent.
func (c *call) unreserve() {
	if c.reserved {
		c.reserved = false
		c.target.budget.refund()
	}
}

// settleBudget gives the token of a retry back that brought a final answer.
func (c *call) settleBudget(final bool) {
	if c.spent && final {
		c.target.budget.refund()
	}
	c.spent = false
}

// overtime says why an attempt must not begin after the wait: the action's time is over then, or its key's.
func (c *call) overtime(now time.Time, wait time.Duration) error {
	switch left := c.untilDeadline(now); {
	case left <= 0:
		return ErrTotalTimeout
	case wait >= left:
		return why(ErrTotalTimeout, "a wait of %v would outlast it", wait.Round(time.Millisecond))
	}
	known := len(c.attempts) > 0 || c.action != nil // a key of our own is new with the first attempt
	started, ok := c.keyStarted()
	if known && ok && c.keyed && expired(started, now.Add(wait), c.longestAttempt(now), c.t.provider.KeyWindow) {
		return ErrKeyExpired
	}
	return nil
}

// longestAttempt is how long an attempt that begins now can take; 0 where nothing bounds it.
func (c *call) longestAttempt(now time.Time) time.Duration {
	longest := c.untilDeadline(now)
	if c.limits.attempt > 0 {
		longest = min(longest, c.limits.attempt)
	}
	if longest == unlimited {
		return 0
	}
	return longest
}

// sleep waits, unless the caller's context ends first. It leaves no timer behind.
func (c *call) sleep(wait time.Duration) error {
	if hook := c.t.hooks.Retry; hook != nil {
		hook(c.req.Context(), c.lastAttempt(), wait)
	}
	if wait > 0 {
		c.setPause(wait)
		defer c.pause.Stop()
		select {
		case <-c.pause.C:
		case <-c.req.Context().Done():
		}
	}
	return c.callerCause()
}

// setPause sets the timer that all waits of a call share.
func (c *call) setPause(wait time.Duration) {
	if c.pause == nil {
		c.pause = time.NewTimer(wait)
		return
	}
	c.pause.Reset(wait)
}

// record enters the attempt into the ledger, and moves what may be claimed.
func (c *call) record(a *attempt) {
	said, _ := a.evidence.says()
	if !c.afterWrite {
		c.doubtShared()
		c.standing.hear(&a.evidence)
	}
	entry := Attempt{
		Number: a.number, Method: c.method, Start: a.start, Wait: a.wait, Elapsed: a.elapsed,
		Status: a.evidence.status, Err: a.problem(), Outcome: said,
		Conns: int(a.conns.Load()), Reused: a.reused.Load(),
	}
	switch len(c.attempts) {
	case 0:
		c.attempts = c.first[:0]
	case 1:
		c.attempts = slices.Grow(c.attempts, min(c.limits.maxAttempts, 4)) // else it grows twice
	}
	c.attempts = append(c.attempts, entry)
	c.hint, c.replay = a.hint, a.evidence.replayed
	if hook := c.t.hooks.Attempt; hook != nil {
		hook(c.req.Context(), c.lastAttempt())
	}
}

// problem is what went wrong: no reply, or one that broke off.
func (a *attempt) problem() error {
	switch {
	case a.err != nil:
		return a.err
	case a.broken():
		return errBroken.causedBy(a.end)
	default:
		return nil
	}
}

// doubtShared gives up what only the lack of attempts proved, once another call has begun with the same action.
func (c *call) doubtShared() {
	if c.action != nil && c.action.usedBy(c.countedUses) {
		c.standing.doubt()
	}
}

// lastAttempt is the last one, as hooks are told of it.
func (c *call) lastAttempt() Attempt { return c.told(c.attempts[len(c.attempts)-1:])[0] }

// finish hands the attempt's reply over, or its failure.
func (c *call) finish(a *attempt, stop error) (*http.Response, error) {
	if a.resp == nil {
		a.discard(0)
		return nil, c.fail(stop)
	}
	c.last = a
	now := time.Now()
	resp := a.handOver(now)
	if a.tell() {
		now = time.Now() // the hook may have been slow
	}
	c.end(stop, now)
	return resp, nil
}

// fail ends the call without a reply.
func (c *call) fail(stop error) error {
	c.leave()
	c.text = c.safeURL()
	c.end(stop, time.Now())
	if c.failure == nil {
		c.failure = new(failure)
	}
	err := &c.failure.err
	*err = Error{Report: c.report(), ctxErr: c.req.Context().Err()}
	return err
}
