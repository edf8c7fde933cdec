package outbound

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Outcome is how an action ended, as far as it can be proven. The zero value is the cautious one, [OutcomeUnknown].
type Outcome uint8

const (
	// OutcomeUnknown says that the work may or may not have been done. Keep the key and ask the server later
	// (reconcile); never start a new action for the same work.
	OutcomeUnknown Outcome = iota
	// OutcomeNotSent says that it is proven that no attempt of this action ever reached a server. Call it failed.
	OutcomeNotSent
	// OutcomeRejected says that the server answered and did not do it. Call it failed. It trusts whoever answered: a
	// proxy or a firewall can answer in the server's name.
	OutcomeRejected
	// OutcomeSucceeded says that the server answered and did it. Call it done.
	OutcomeSucceeded
)

// String returns "unknown", "not sent", "rejected" or "succeeded".
func (o Outcome) String() string {
	switch o {
	case OutcomeNotSent:
		return "not sent"
	case OutcomeRejected:
		return "rejected"
	case OutcomeSucceeded:
		return "succeeded"
	default:
		return "unknown"
	}
}

// Report is the ledger of one call: what was claimed, what was sent, and why it ended. It is a copy; change it freely.
// It names scheme, host and path only, never user info, query, header or body.
type Report struct {
	Method string // the request's method, that of the last redirect hop
	URL    string // scheme, host and path of the request, those of the last redirect hop

	// Outcome is what may be claimed of the whole action, all its attempts and redirect hops together.
	Outcome Outcome
	// IdempotencyKey is the action's key, the one that the requests carry, unquoted; empty where they carry none, or where a
	// call without an action was refused before its key was made.
	IdempotencyKey string
	// Attempts are the attempts in order, those of earlier redirect hops first. An attempt that the circuit refused is
	// not among them: nothing was asked of Base.
	Attempts []Attempt
	// Elapsed runs from the first hop's start until the reply was handed over, or the call failed; reading the reply is not in it.
	Elapsed time.Duration
	// RetryAfter is how long the last answer asked to wait, or how long until an open circuit lets a probe through;
	// zero where nobody asked. Of the successes only a 202 is looked at, and one that Judge has a word on.
	RetryAfter time.Duration
	// Replayed says that the last answer bore the provider's replay header: it is the stored answer to an earlier request.
	Replayed bool
	// Stopped is why no further attempt was made: nil after a final answer, else something that matches one of the
	// errors below, or the cause of the caller's context.
	Stopped error
}

// Attempt is one request handed to Base. It may be more than one connection, but for a write it is at most one
// request on the wire.
type Attempt struct {
	Number int    // 1 for the first; counts on over redirect hops
	Method string // the method sent
	URL    string // scheme, host and path

	Start time.Time
	// Wait is how long was waited before this attempt; zero for a hop's first.
	Wait time.Duration
	// Elapsed runs from Start until the headers were in, or the whole reply where it is read inside the attempt.
	Elapsed time.Duration

	// Status is the reply's status code; 0 where no reply came.
	Status int
	// Err is what went wrong, nil for a complete answer of any status. Its text is safe to print; the error that Base
	// returned is reached with errors.Is and errors.As. Status and Err are both set where the reply broke off.
	Err error
	// Outcome is what this attempt alone says.
	Outcome Outcome
	// Conns counts the connections that the attempt was given. 0 with a failed attempt is part of the proof of NotSent.
	Conns int
	// Reused says that the last of these connections was a kept one, as httptrace tells it.
	Reused bool
}

// reason is the type of the package's own error values. A timeout also matches [context.DeadlineExceeded].
type reason struct {
	text    string
	timeout bool
}

func (r *reason) Error() string { return "outbound: " + r.text }

// Timeout makes net/url's plain type assertion see our timeouts.
func (r *reason) Timeout() bool { return r.timeout }

func (r *reason) Is(target error) bool { return r.timeout && target == context.DeadlineExceeded }

func (r *reason) safeText() string { return r.text }

// Why a call ended without a further attempt; found with errors.Is in [Report.Stopped] and in the [*Error].
var (
	// ErrAttemptsExhausted: a retry was due, and RetryPolicy.MaxAttempts were made.
	ErrAttemptsExhausted error = &reason{text: "no attempts left"}
	// ErrNotRetryable: the rules forbid a further attempt: a write without a key may have been performed, the server or
	// RetryPolicy.If said no, the server asked for a longer wait than RetryPolicy.MaxRetryAfter, or the failure is one
	// that no retry heals.
	ErrNotRetryable error = &reason{text: "must not be retried"}
	// ErrBodyNotReplayable: a retry was due, and the request has a body and no GetBody. Or an action was given such a body.
	ErrBodyNotReplayable error = &reason{text: "the request's body cannot be sent again: it has no GetBody"}
	// ErrCircuitOpen: the target's circuit is open, or half-open with all probes on their way. See [CircuitOpenError].
	ErrCircuitOpen error = &reason{text: "circuit open"}
	// ErrBulkheadFull: Config.Bulkhead let no further call to the target through. Nothing was sent by this call.
	ErrBulkheadFull error = &reason{text: "bulkhead full"}
	// ErrBudgetExhausted: a retry was due, and the target's retry budget is empty. See BudgetPolicy.
	ErrBudgetExhausted error = &reason{text: "retry budget exhausted"}
	// ErrConnectTimeout: no connection within Config.ConnectTimeout. Nothing was sent by that attempt.
	ErrConnectTimeout error = &reason{text: "connect timeout", timeout: true}
	// ErrAttemptTimeout: one attempt took longer than Config.AttemptTimeout.
	ErrAttemptTimeout error = &reason{text: "attempt timeout", timeout: true}
	// ErrTotalTimeout: the action's Config.TotalTimeout is over, or the next wait would outlast it.
	ErrTotalTimeout error = &reason{text: "total timeout", timeout: true}
	// ErrIdleTimeout: a streamed reply sent nothing for Config.IdleTimeout while somebody read.
	ErrIdleTimeout error = &reason{text: "idle timeout", timeout: true}
	// ErrKeyExpired: the action is older than Provider.KeyWindow, or started in the future. Nothing was sent: the server
	// may have forgotten the key, and the same key would act again.
	ErrKeyExpired error = &reason{text: "idempotency key expired"}
	// ErrInvalidKey: the key has a form that must not be sent, or two keys were given.
	ErrInvalidKey error = &reason{text: "invalid idempotency key"}
	// ErrActionMismatch: the request is not the one that the action was bound to. Nothing was sent.
	ErrActionMismatch error = &reason{text: "the request differs from the one its action was bound to"}
)

// Faults of the attempt itself. They are no sentinels: nobody has to act on them by name.
var (
	errResend  = &reason{text: "net/http was about to send the write a second time; prevented"}
	errNoReply = &reason{text: "Base returned neither a response nor an error"}
	errDrained = &reason{text: "gave up draining a reply that is thrown away"}

	errInformational = &reason{text: "too many informational replies"}
	errRequest       = &reason{text: "invalid request"}
)

// because is a reason with what led to it: a detail of ours, an error of somebody else's, or both.
type because struct {
	reason *reason
	detail string
	cause  error
}

func why(r error, detail string, args ...any) error {
	return &because{reason: r.(*reason), detail: fmt.Sprintf(detail, args...)}
}

func (r *reason) causedBy(cause error) error {
	if cause == error(r) {
		return r
	}
	return &because{reason: r, cause: cause}
}

func (b *because) Error() string { return "outbound: " + b.safeText() }

func (b *because) Timeout() bool { return b.reason.timeout }

func (b *because) Unwrap() []error {
	if b.cause == nil {
		return []error{b.reason}
	}
	return []error{b.reason, b.cause}
}

func (b *because) safeText() string {
	text := b.reason.text
	if b.detail != "" {
		text += ": " + b.detail
	}
	if b.cause != nil {
		text += ": " + safeText(b.cause)
	}
	return text
}

// foreign is an error of Base's, printed safely and kept whole for errors.Is and errors.As.
type foreign struct{ err error }

func (f *foreign) Error() string    { return safeText(f.err) }
func (f *foreign) Unwrap() error    { return f.err }
func (f *foreign) safeText() string { return safeText(f.err) }

// GoString keeps %#v from printing what is inside.
func (f *foreign) GoString() string { return "outbound: " + safeText(f.err) }

// GoString keeps %#v from printing what is inside.
func (b *because) GoString() string { return b.Error() }

// Error is what RoundTrip returns where it has no response, and [CheckResponse] of a response outside 2xx. errors.Is and
// errors.As find why we stopped and what the last attempt said. It holds a copy of the ledger and may be used freely.
type Error struct {
	// Report is the ledger of the call up to the error.
	Report Report

	ctxErr error // the caller's ctx.Err(), where Report.Stopped is a cause that may not match it
}

// Error names the method, scheme, host and path, the outcome, the attempts, why we stopped and what the last attempt
// said. Of errors from outside the standard library's network packages it prints the type only.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("outbound: ")
	if e.Report.Method != "" {
		fmt.Fprintf(&b, "%s %s: ", e.Report.Method, e.Report.URL)
	}
	fmt.Fprintf(&b, "%s after %s", e.Report.Outcome, plural(len(e.Report.Attempts), "attempt"))
	if e.ctxErr != nil && !errors.Is(e.Report.Stopped, e.ctxErr) {
		b.WriteString(": " + safeText(e.ctxErr))
	}
	if e.Report.Stopped != nil {
		b.WriteString(": " + safeText(e.Report.Stopped))
	}
	if last := e.last(); last != nil {
		b.WriteString(": last attempt: " + last.summary())
	}
	return b.String()
}

// Timeout reports whether a timeout, ours or the caller's deadline, ended the call or its last attempt.
func (e *Error) Timeout() bool {
	for _, err := range e.Unwrap() {
		var t interface{ Timeout() bool }
		if errors.As(err, &t) && t.Timeout() {
			return true
		}
	}
	return false
}

// Unwrap returns why we stopped and what went wrong in the last attempt, as far as there is either.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.Report.Stopped, e.ctxErr} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if last := e.last(); last != nil && last.Err != nil {
		errs = append(errs, last.Err)
	}
	return errs
}

func (e *Error) last() *Attempt {
	if len(e.Report.Attempts) == 0 {
		return nil
	}
	return &e.Report.Attempts[len(e.Report.Attempts)-1]
}

// summary is the attempt's result in a few words: a status, an error, or both.
func (a *Attempt) summary() string {
	var parts []string
	if a.Status != 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status))))
	}
	if a.Err != nil {
		parts = append(parts, safeText(a.Err))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
