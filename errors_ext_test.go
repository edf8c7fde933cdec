package outbound_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// secrets are what must show nowhere.
var secrets = []string{"pass-word", "query-secret", "bearer-secret", "cookie-secret", "body-secret", "reply-secret", "foreign-secret", "cause-secret"}

func secretRequest(t *testing.T, ctx context.Context) *http.Request {
	req := newRequest(t, ctx, http.MethodPost, "https://user:pass-word@pay.test/v1/pay?token=query-secret", "body-secret")
	req.Header.Set("Authorization", "Bearer bearer-secret")
	req.Header.Set("Cookie", "sid=cookie-secret")
	return req
}

type secretError struct{ Detail string }

func (e secretError) Error() string { return "failed: " + e.Detail }

// TestNoSecretShows: not in errors, reports, hooks or logs, however they are printed.
func TestNoSecretShows(t *testing.T) {
	hidden := secretError{"foreign-secret"}
	ends := map[string]step{
		"status":         repliesWith(503, "reply-secret", "Set-Cookie", "cookie-secret"),
		"rejected":       repliesWith(400, "reply-secret"),
		"foreign error":  fails(hidden),
		"wrapped":        fails(fmt.Errorf("foreign-secret: %w", io.EOF)),
		"joined":         fails(errors.Join(hidden, io.ErrUnexpectedEOF)),
		"url error":      fails(&url.Error{Op: "Post", URL: "https://x/?query-secret", Err: io.EOF}),
		"dialer's error": refusesWith(&net.OpError{Op: "dial", Net: "tcp", Err: hidden}),
		"plain":          fails(errors.New("foreign-secret")),
		"broken reply":   answersBody(201, breaking("reply-secret", hidden)),
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var out bytes.Buffer
				logged := outbound.SlogHooks(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
				print := func(v any) { fmt.Fprintf(&out, "%v|%+v|%#v|%s|%q\n", v, v, v, v, v) }
				cfg := quick(playing(end))
				cfg.Hooks = outbound.Hooks{
					Attempt: func(ctx context.Context, a outbound.Attempt) { logged.Attempt(ctx, a); print(a) },
					Retry:   func(ctx context.Context, a outbound.Attempt, d time.Duration) { logged.Retry(ctx, a, d); print(a) },
					Done:    func(ctx context.Context, r outbound.Report) { logged.Done(ctx, r); print(r) },
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(1500*time.Millisecond, func() { cancel(secretError{"cause-secret"}) })
				resp, err := newTransport(t, cfg).RoundTrip(secretRequest(t, ctx))
				if err != nil {
					print(err)
				} else {
					print(outbound.CheckResponse(resp))
					_, _ = io.ReadAll(resp.Body)
				}
				print(reportOf(t, resp, err))
				assert.Contains(t, out.String(), "https://pay.test/v1/pay")
				for _, s := range secrets {
					assert.NotContains(t, out.String(), s)
				}
			})
		})
	}
}

func TestForeignErrorsStayReachable(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hidden := secretError{"foreign-secret"}
		_, err := post(t, newTransport(t, quick(playing(fails(hidden)))), t.Context())
		var found secretError
		require.ErrorAs(t, err, &found)
		assert.Equal(t, hidden, found)
		assert.EqualError(t, err, "outbound: POST https://pay.test/v1/payments: unknown after 4 attempts: no attempts left: last attempt: outbound_test.secretError")
	})
}

// TestErrorSaysWhatHappened, word by word.
func TestErrorSaysWhatHappened(t *testing.T) {
	_, err := send(newTransport(t, outbound.Config{Base: playing(refuses()), Retry: outbound.RetryPolicy{MaxAttempts: 1}}), newRequest(t, t.Context(), http.MethodPost, "https://pay.test/v1?x=1", "x"))
	assert.EqualError(t, err, "outbound: POST https://pay.test/v1: not sent after 1 attempt: no attempts left: last attempt: dial tcp: connection refused")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.ErrorIs(t, err, outbound.ErrAttemptsExhausted)
	var op *net.OpError
	require.ErrorAs(t, err, &op)

	client := &http.Client{Transport: newTransport(t, outbound.Config{Base: playing(hangs()), AttemptTimeout: time.Millisecond, Retry: outbound.RetryPolicy{MaxAttempts: 1}})}
	_, err = client.Post("https://pay.test/", "text/plain", strings.NewReader("x"))
	var urlErr *url.Error
	require.ErrorAs(t, err, &urlErr)
	assert.True(t, urlErr.Timeout(), "net/url asks with a plain type assertion")
	var own *outbound.Error
	require.ErrorAs(t, err, &own)
	assert.Len(t, own.Report.Attempts, 1)
}

func TestCheckResponse(t *testing.T) {
	tr := newTransport(t, outbound.Config{Base: playing(answers(201), answers(402))})
	resp, err := post(t, tr, t.Context())
	require.NoError(t, err)
	require.NoError(t, outbound.CheckResponse(resp))

	resp, err = tr.RoundTrip(newRequest(t, t.Context(), http.MethodPost, payURL, "x"))
	require.NoError(t, err)
	err = outbound.CheckResponse(resp)
	assert.EqualError(t, err, "outbound: POST https://pay.test/: rejected after 1 attempt: last attempt: 402 Payment Required")
	assert.Equal(t, outbound.OutcomeRejected, outbound.OutcomeOf(nil, err))
	body, readErr := io.ReadAll(resp.Body)
	require.NoError(t, readErr)
	assert.Equal(t, `{"status":402}`, string(body))

	foreign := &http.Response{StatusCode: 404, Request: newRequest(t, t.Context(), http.MethodGet, "https://u:p@x.test/y?z", "")}
	err = outbound.CheckResponse(foreign)
	assert.EqualError(t, err, "outbound: GET https://x.test/y: unknown after 1 attempt: last attempt: 404 Not Found")
	require.Error(t, outbound.CheckResponse(nil))
	require.NoError(t, outbound.CheckResponse(&http.Response{StatusCode: 204}))
}

func TestOutcomeOfWhatIsNotOurs(t *testing.T) {
	assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(nil, nil))
	assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(nil, io.EOF))
	assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(&http.Response{StatusCode: 200}, nil))
	_, ok := outbound.ReportOf(nil, io.EOF)
	assert.False(t, ok)
}

func TestReportIsACopy(t *testing.T) {
	_, err := post(t, newTransport(t, outbound.Config{Base: playing(refuses()), Retry: outbound.RetryPolicy{MaxAttempts: 1}}), t.Context())
	first := reportOf(t, nil, err)
	first.Attempts[0].Number = 99
	assert.Equal(t, 1, reportOf(t, nil, err).Attempts[0].Number)
}

// TestReportUnderClientTimeout: http.Client wraps the body and swallows our error; the report and the Done hook remain.
func TestReportUnderClientTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var keys []string
		cfg := quick(playing(answers(307, "Location", "/b"), answers(503), answers(201), hangs()))
		cfg.Hooks.Done = func(_ context.Context, r outbound.Report) { keys = append(keys, r.IdempotencyKey) }
		client := &http.Client{Transport: newTransport(t, cfg), Timeout: 5 * time.Second}
		resp, err := client.Post(payURL, "text/plain", strings.NewReader("x"))
		require.NoError(t, err)
		r := reportOf(t, resp, err)
		assert.Equal(t, outbound.OutcomeSucceeded, r.Outcome)
		assert.Len(t, r.Attempts, 3, "the hop was recognised behind the wrapped body")
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, []string{r.IdempotencyKey, r.IdempotencyKey}, keys)

		_, err = client.Post(payURL, "text/plain", strings.NewReader("x"))
		require.Error(t, err)
		assert.Len(t, keys, 3)
		assert.NotEmpty(t, keys[2])
	})
}

// TestHooksTellEachStep: what fires, in which order, with what.
func TestHooksTellEachStep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type ctxKey struct{}
		var told []string
		tell := func(ctx context.Context, format string, args ...any) {
			assert.Equal(t, "caller's", ctx.Value(ctxKey{}))
			told = append(told, fmt.Sprintf(format, args...))
		}
		cfg := quick(playing(answers(503), fails(io.EOF), answers(201)))
		cfg.Hooks = outbound.Hooks{
			Attempt: func(ctx context.Context, a outbound.Attempt) {
				tell(ctx, "attempt %d: %d %v", a.Number, a.Status, a.Err)
			},
			Retry: func(ctx context.Context, a outbound.Attempt, d time.Duration) {
				tell(ctx, "retry after %d in %v", a.Number, d)
			},
			Done: func(ctx context.Context, r outbound.Report) { tell(ctx, "done: %v", r.Outcome) },
		}
		tr := newTransport(t, cfg)
		ctx := context.WithValue(t.Context(), ctxKey{}, "caller's")
		_, err := post(t, tr, ctx)
		require.NoError(t, err)
		req := newRequest(t, ctx, http.MethodPost, payURL, "x")
		req.Header.Set("Idempotency-Key", "a b")
		_, err = send(tr, req)
		require.Error(t, err)
		assert.Equal(t, []string{
			"attempt 1: 503 <nil>", "retry after 1 in 1s", "attempt 2: 0 EOF", "retry after 2 in 1s", "attempt 3: 201 <nil>", "done: succeeded",
			"done: unknown",
		}, told)
	})
}

func TestSlogHooks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		cfg := quick(playing(answers(503), fails(io.EOF)))
		cfg.Hooks, cfg.Breaker.ConsecutiveFailures = outbound.SlogHooks(logger), 2
		a := &outbound.Action{Key: "k-1", Started: time.Now()}
		_, err := post(t, newTransport(t, cfg), with(t, a))
		require.Error(t, err)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 5)
		assert.Equal(t, `level=DEBUG msg="outbound: attempt" method=POST url=https://pay.test/v1/payments attempt=1 outcome=unknown elapsed=0s status=503`, lines[0])
		assert.Equal(t, `level=WARN msg="outbound: retry" method=POST url=https://pay.test/v1/payments attempt=1 outcome=unknown elapsed=0s status=503 wait=1s`, lines[1])
		assert.Equal(t, `level=DEBUG msg="outbound: attempt" method=POST url=https://pay.test/v1/payments attempt=2 outcome=unknown elapsed=0s error=EOF`, lines[2])
		assert.Equal(t, `level=WARN msg="outbound: circuit" target=https://pay.test:443 from=closed to=open`, lines[3])
		assert.Contains(t, lines[4], `level=ERROR msg="outbound: done" method=POST url=https://pay.test/v1/payments outcome=unknown attempts=2 elapsed=1s key=k-1 stopped="circuit open for https://pay.test:443 until`)
	})
	assert.NotNil(t, outbound.SlogHooks(nil).Done, "nil means the default logger")
}
