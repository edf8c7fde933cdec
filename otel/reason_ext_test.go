package outboundotel_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	outboundotel "github.com/outbound-go/outbound/otel"
	"github.com/outbound-go/outbound/outboundtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// canceledBecause is a context that its owner has cancelled, and said why.
func canceledBecause(t *testing.T, cause error) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	return ctx
}

func TestErrorTypes(t *testing.T) {
	upstream := fmt.Errorf("upstream: %w", io.EOF)
	expired, cancel := context.WithDeadlineCause(t.Context(), time.Unix(0, 0), upstream)
	defer cancel()
	over, cancelOver := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancelOver()
	for _, tt := range []struct {
		want    string
		attempt outbound.Attempt
		ctx     context.Context
	}{
		{want: "", attempt: outbound.Attempt{Status: 200}},
		{want: "", attempt: outbound.Attempt{Status: 303}},
		{want: "400", attempt: outbound.Attempt{Status: 400}},
		{want: "503", attempt: outbound.Attempt{Status: 503}},
		{want: "connection_closed", attempt: outbound.Attempt{Status: 200, Err: fmt.Errorf("the reply broke off: %w", io.ErrUnexpectedEOF)}},
		{want: "connect_timeout", attempt: outbound.Attempt{Err: outbound.ErrConnectTimeout}},
		{want: "connect_timeout", attempt: outbound.Attempt{Err: errors.Join(outbound.ErrConnectTimeout, &net.DNSError{})}},
		{want: "attempt_timeout", attempt: outbound.Attempt{Err: outbound.ErrAttemptTimeout}},
		{want: "total_timeout", attempt: outbound.Attempt{Err: outbound.ErrTotalTimeout}},
		{want: "total_timeout", attempt: outbound.Attempt{Err: outbound.ErrTotalTimeout}, ctx: over},
		{want: "idle_timeout", attempt: outbound.Attempt{Err: outbound.ErrIdleTimeout}},
		{want: "canceled", attempt: outbound.Attempt{Err: context.Canceled}},
		{want: "canceled", attempt: outbound.Attempt{Err: upstream}, ctx: canceledBecause(t, upstream)},
		{want: "connection_closed", attempt: outbound.Attempt{Err: io.EOF}, ctx: canceledBecause(t, upstream)},
		{want: "deadline_exceeded", attempt: outbound.Attempt{Err: context.DeadlineExceeded}},
		{want: "deadline_exceeded", attempt: outbound.Attempt{Err: upstream}, ctx: expired},
		{want: "name_resolution", attempt: outbound.Attempt{Err: &net.OpError{Err: &net.DNSError{IsNotFound: true}}}},
		{want: "name_resolution", attempt: outbound.Attempt{Err: &net.DNSError{IsTimeout: true, UnwrapErr: context.DeadlineExceeded}}},
		{want: "certificate", attempt: outbound.Attempt{Err: &tls.CertificateVerificationError{Err: x509.HostnameError{}}}},
		{want: "tls", attempt: outbound.Attempt{Err: tls.AlertError(40)}},
		{want: "tls", attempt: outbound.Attempt{Err: tls.RecordHeaderError{}}},
		{want: "connection_refused", attempt: outbound.Attempt{Err: &net.OpError{Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}},
		{want: "connection_closed", attempt: outbound.Attempt{Err: syscall.ECONNRESET}},
		{want: "connection_closed", attempt: outbound.Attempt{Err: syscall.EPIPE}},
		{want: "connection_closed", attempt: outbound.Attempt{Err: io.EOF}},
		{want: "timeout", attempt: outbound.Attempt{Err: &url.Error{Err: os.ErrDeadlineExceeded}}},
		{want: "_OTHER", attempt: outbound.Attempt{Err: syscall.ENETUNREACH}},
		{want: "_OTHER", attempt: outbound.Attempt{Err: errStrange}},
	} {
		ctx := tt.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		tel := newTelemetry(t, outboundotel.Config{})
		tel.Hooks().Attempt(ctx, tt.attempt)
		lines := tel.lines(t)
		require.Len(t, lines, 1)
		_, rest, has := strings.Cut(lines[0], "error.type=")
		name, _, _ := strings.Cut(rest, ",")
		assert.Equal(t, tt.want, name, "%v", tt.attempt)
		assert.Equal(t, tt.want != "", has, "absent where nothing went wrong")
		assert.Equal(t, tt.attempt.Status != 0, strings.Contains(lines[0], "http.response.status_code="), "absent where no reply came")
	}
}

// What goes wrong on a real connection has the right name, too.
func TestErrorTypesOverSockets(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	strangers := httptest.NewUnstartedServer(nil)
	strangers.Config.ErrorLog = log.New(io.Discard, "", 0)
	strangers.StartTLS()
	defer strangers.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	loses := outboundtest.NewGateway(t, outboundtest.Config{Script: outboundtest.Script{outboundtest.LoseReply}})
	hangs := outboundtest.NewGateway(t, outboundtest.Config{Script: outboundtest.Script{outboundtest.Hang}})
	for _, tt := range []struct {
		url, want string
		timeout   time.Duration
	}{
		{url: closed.URL, want: "connection_refused"},
		{url: strangers.URL, want: "certificate"},
		{url: strings.Replace(plain.URL, "http:", "https:", 1), want: "tls"},
		{url: loses.PaymentsURL(), want: "connection_closed"},
		{url: hangs.PaymentsURL(), want: "attempt_timeout", timeout: 50 * time.Millisecond},
	} {
		tel := newTelemetry(t, outboundotel.Config{})
		transport := newTransport(t, outbound.Config{
			AttemptTimeout: tt.timeout, Hooks: tel.Hooks(), Retry: outbound.RetryPolicy{MaxAttempts: 1},
		})
		call(t.Context(), transport, http.MethodPost, tt.url)
		transport.CloseIdleConnections()
		assert.Contains(t, strings.Join(of(tel.lines(t), "http.client.request.duration"), "\n"), "error.type="+tt.want+",", tt.url)
	}
}

func TestStopReasons(t *testing.T) {
	upstream := fmt.Errorf("upstream: %w", outbound.ErrCircuitOpen)
	answered := func(status int) outbound.Report {
		return outbound.Report{Attempts: []outbound.Attempt{{Status: status}}}
	}
	stopped := func(err error) outbound.Report {
		return outbound.Report{Stopped: err, Attempts: answered(503).Attempts}
	}
	for _, tt := range []struct {
		want   string
		report outbound.Report
		ctx    context.Context
	}{
		{want: "final_answer", report: answered(200)},
		{want: "final_answer", report: answered(304)},
		{want: "final_answer", report: outbound.Report{}},
		{want: "redirect", report: answered(301)},
		{want: "redirect", report: answered(302)},
		{want: "redirect", report: answered(303)},
		{want: "redirect", report: answered(307)},
		{want: "redirect", report: answered(308)},
		{want: "attempts_exhausted", report: stopped(outbound.ErrAttemptsExhausted)},
		{want: "not_retryable", report: stopped(fmt.Errorf("%w: for a reason", outbound.ErrNotRetryable))},
		{want: "body_not_replayable", report: stopped(outbound.ErrBodyNotReplayable)},
		{want: "circuit_open", report: stopped(&outbound.CircuitOpenError{})},
		{want: "bulkhead_full", report: stopped(outbound.ErrBulkheadFull)},
		{want: "budget_exhausted", report: stopped(outbound.ErrBudgetExhausted)},
		{want: "connect_timeout", report: stopped(outbound.ErrConnectTimeout)},
		{want: "attempt_timeout", report: stopped(outbound.ErrAttemptTimeout)},
		{want: "total_timeout", report: stopped(outbound.ErrTotalTimeout)},
		{want: "total_timeout", report: stopped(outbound.ErrTotalTimeout), ctx: canceledBecause(t, upstream)},
		{want: "key_expired", report: stopped(outbound.ErrKeyExpired)},
		{want: "invalid_key", report: stopped(outbound.ErrInvalidKey)},
		{want: "action_mismatch", report: stopped(outbound.ErrActionMismatch)},
		{want: "canceled", report: stopped(context.Canceled)},
		{want: "canceled", report: stopped(upstream), ctx: canceledBecause(t, upstream)},
		{want: "deadline_exceeded", report: stopped(context.DeadlineExceeded)},
		{want: "_OTHER", report: stopped(errStrange)},
	} {
		ctx := tt.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		tel := newTelemetry(t, outboundotel.Config{})
		tel.Hooks().Done(ctx, tt.report)
		assert.Contains(t, of(tel.lines(t), "outbound.calls")[0], "outbound.stop.reason="+tt.want+",", "%v", tt.report)
	}
}

// The cause that a caller gives reaches the reports in the Transport's wrapping.
func TestCallersCauseIsNotLookedInto(t *testing.T) {
	tel := newTelemetry(t, outboundotel.Config{})
	transport := newTransport(t, outbound.Config{Base: answers(200), Hooks: tel.Hooks()})
	call(canceledBecause(t, fmt.Errorf("upstream: %w", outbound.ErrCircuitOpen)), transport, http.MethodGet, "https://pay.test/")
	assert.Contains(t, of(tel.lines(t), "outbound.calls")[0], "outbound.stop.reason=canceled,")
}
