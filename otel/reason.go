package outboundotel

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"

	"github.com/outbound-go/outbound"
)

// kind is an error with its name in a label. The text of an error never gets there.
type kind struct {
	is   error
	name string
}

// timeoutKinds come first: outbound's timeouts match context.DeadlineExceeded, too.
var timeoutKinds = []kind{
	{outbound.ErrConnectTimeout, "connect_timeout"},
	{outbound.ErrAttemptTimeout, "attempt_timeout"},
	{outbound.ErrTotalTimeout, "total_timeout"},
	{outbound.ErrIdleTimeout, "idle_timeout"},
}

var contextKinds = []kind{
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "deadline_exceeded"},
}

var stopKinds = []kind{
	{outbound.ErrAttemptsExhausted, "attempts_exhausted"},
	{outbound.ErrNotRetryable, "not_retryable"},
	{outbound.ErrBodyNotReplayable, "body_not_replayable"},
	{outbound.ErrCircuitOpen, "circuit_open"},
	{outbound.ErrBulkheadFull, "bulkhead_full"},
	{outbound.ErrBudgetExhausted, "budget_exhausted"},
	{outbound.ErrKeyExpired, "key_expired"},
	{outbound.ErrInvalidKey, "invalid_key"},
	{outbound.ErrActionMismatch, "action_mismatch"},
}

var connectionKinds = []kind{
	{syscall.ECONNREFUSED, "connection_refused"},
	{syscall.ECONNRESET, "connection_closed"},
	{syscall.EPIPE, "connection_closed"},
	{io.EOF, "connection_closed"},
	{io.ErrUnexpectedEOF, "connection_closed"},
}

// nameOf is the name of the first kind that err is; empty for none.
func nameOf(err error, kinds []kind) string {
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			return k.name
		}
	}
	return ""
}

// firstOf is the first name that is not empty, else _OTHER.
func firstOf(names ...string) string {
	for _, name := range names {
		if name != "" {
			return name
		}
	}
	return other
}

// callersEnd is how the caller's context ended, where err is the cause that was given to cancel it: that may be, or wrap,
// anything, and is not looked into.
func callersEnd(ctx context.Context, err error) string {
	cause := context.Cause(ctx)
	if cause == nil || cause == ctx.Err() || !errors.Is(err, cause) {
		return ""
	}
	return nameOf(ctx.Err(), contextKinds)
}

// errorType is error.type of an attempt: what failed, or a status that is an error to a client; empty for neither.
func errorType(ctx context.Context, a outbound.Attempt) string {
	switch {
	case a.Err != nil:
		return firstOf(callersEnd(ctx, a.Err), nameOf(a.Err, timeoutKinds), beforeTalking(a.Err),
			nameOf(a.Err, contextKinds), nameOf(a.Err, connectionKinds), foreignTimeout(a.Err))
	case a.Status >= http.StatusBadRequest:
		return strconv.Itoa(a.Status)
	default:
		return ""
	}
}

// beforeTalking names what went wrong before there was a connection to talk over: the look-up of the name, or TLS.
func beforeTalking(err error) string {
	var (
		lookup      *net.DNSError
		certificate *tls.CertificateVerificationError
		alert       tls.AlertError
		record      tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &lookup):
		return "name_resolution"
	case errors.As(err, &certificate):
		return "certificate"
	case errors.As(err, &alert), errors.As(err, &record):
		return "tls"
	default:
		return ""
	}
}

// foreignTimeout names a timeout that is neither outbound's nor the caller's, such as one of Base's own.
func foreignTimeout(err error) string {
	var t interface{ Timeout() bool }
	if errors.As(err, &t) && t.Timeout() {
		return "timeout"
	}
	return ""
}

// retryReason is what the attempt that is retried ended with.
func retryReason(ctx context.Context, failed outbound.Attempt) string {
	if name := errorType(ctx, failed); name != "" {
		return name
	}
	return strconv.Itoa(failed.Status)
}

// stopReason is why no further attempt was made.
func stopReason(ctx context.Context, r outbound.Report) string {
	switch {
	case r.Stopped != nil:
		return firstOf(callersEnd(ctx, r.Stopped), nameOf(r.Stopped, stopKinds), nameOf(r.Stopped, timeoutKinds),
			nameOf(r.Stopped, contextKinds))
	case redirected(r):
		return "redirect"
	default:
		return "final_answer"
	}
}

// redirected reports whether the answer is one that an http.Client may follow.
func redirected(r outbound.Report) bool {
	if len(r.Attempts) == 0 {
		return false
	}
	switch r.Attempts[len(r.Attempts)-1].Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

func outcomeName(o outbound.Outcome) string {
	switch o {
	case outbound.OutcomeNotSent:
		return "not_sent"
	case outbound.OutcomeRejected:
		return "rejected"
	case outbound.OutcomeSucceeded:
		return "succeeded"
	default:
		return "unknown"
	}
}

func stateName(s outbound.CircuitState) string {
	switch s {
	case outbound.CircuitOpen:
		return "open"
	case outbound.CircuitHalfOpen:
		return "half_open"
	default:
		return "closed"
	}
}
