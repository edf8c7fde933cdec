package outbound

import (
	"context"
	"log/slog"
	"time"
)

// Hooks are told what happens. Each may be nil. They run outside every lock, on the goroutine of the call that they tell
// of, so a slow hook slows that call; a panic in one goes on to that call's caller. They must be safe for concurrent use.
// What they are given names scheme, host and path only. The context is the caller's.
type Hooks struct {
	// Attempt fires after each attempt, when its reply is in or it failed. Not for an attempt that the circuit refused.
	Attempt func(context.Context, Attempt)
	// Retry fires before each wait for a further attempt, with the attempt that failed and the wait. Not after the last one.
	Retry func(ctx context.Context, failed Attempt, wait time.Duration)
	// Done fires when RoundTrip is about to return, once per redirect hop, on success, failure and refusal. The reply's body
	// is not read yet. It is the way to a key where http.Client.Timeout swallows our error.
	Done func(context.Context, Report)
	// Circuit fires when a circuit changed its state, in order per circuit, after the breaker's lock was released. It runs
	// on the goroutine of the call whose result moved it, or, where two calls move it at the same moment, of the other one.
	// A change that a timer brought about is told by the next call that uses the circuit. It may use the client.
	Circuit func(CircuitChange)
}

// SlogHooks returns Hooks that write to logger: attempts at debug, retries and circuit changes at warn, the end of a call
// at info, or at error where the outcome is unknown. Keys are logged: they are no secret, and an unknown outcome cannot be
// reconciled without. Safe for concurrent use if logger is. A nil logger means slog.Default().
func SlogHooks(logger *slog.Logger) Hooks {
	if logger == nil {
		logger = slog.Default()
	}
	return Hooks{
		Attempt: func(ctx context.Context, a Attempt) {
			logger.LogAttrs(ctx, slog.LevelDebug, "outbound: attempt", attemptAttrs(a)...)
		},
		Retry: func(ctx context.Context, a Attempt, wait time.Duration) {
			logger.LogAttrs(ctx, slog.LevelWarn, "outbound: retry", append(attemptAttrs(a), slog.Duration("wait", wait))...)
		},
		Done: func(ctx context.Context, r Report) {
			logger.LogAttrs(ctx, doneLevel(r), "outbound: done", reportAttrs(r)...)
		},
		Circuit: func(c CircuitChange) {
			logger.LogAttrs(context.Background(), slog.LevelWarn, "outbound: circuit",
				slog.String("target", c.Target), slog.String("from", c.From.String()), slog.String("to", c.To.String()))
		},
	}
}

func doneLevel(r Report) slog.Level {
	if r.Outcome == OutcomeUnknown {
		return slog.LevelError
	}
	return slog.LevelInfo
}

func attemptAttrs(a Attempt) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("method", a.Method),
		slog.String("url", a.URL),
		slog.Int("attempt", a.Number),
		slog.String("outcome", a.Outcome.String()),
		slog.Duration("elapsed", a.Elapsed),
	}
	if a.Status != 0 {
		attrs = append(attrs, slog.Int("status", a.Status))
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("error", safeText(a.Err)))
	}
	return attrs
}

func reportAttrs(r Report) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("method", r.Method),
		slog.String("url", r.URL),
		slog.String("outcome", r.Outcome.String()),
		slog.Int("attempts", len(r.Attempts)),
		slog.Duration("elapsed", r.Elapsed),
	}
	if r.IdempotencyKey != "" {
		attrs = append(attrs, slog.String("key", r.IdempotencyKey))
	}
	if r.Stopped != nil {
		attrs = append(attrs, slog.String("stopped", safeText(r.Stopped)))
	}
	return attrs
}
