package outboundotel

import (
	"context"
	"slices"
	"time"

	"github.com/outbound-go/outbound"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Attributes of our own; the conventions have none for these.
const (
	outcomeKey       = attribute.Key("outbound.outcome")
	stopReasonKey    = attribute.Key("outbound.stop.reason")
	retryReasonKey   = attribute.Key("outbound.retry.reason")
	stateKey         = attribute.Key("outbound.circuit.state")
	previousStateKey = attribute.Key("outbound.circuit.previous_state")
)

// Hooks is New and its Hooks in one step, for a program that has no Transport observed. It fails as New does.
func Hooks(cfg Config, also ...outbound.Hooks) (outbound.Hooks, error) {
	i, err := New(cfg)
	if err != nil {
		return outbound.Hooks{}, err
	}
	return i.Hooks(also...), nil
}

// Hooks returns the Hooks to give to outbound.Config; they may serve many Transports. Hooks of your own go in as arguments:
// they run after ours, in this order.
//
//	outbound.Config{Hooks: tel.Hooks(outbound.SlogHooks(logger))}
func (i *Instrumentation) Hooks(also ...outbound.Hooks) outbound.Hooks {
	if i == nil {
		return chained(slices.Clone(also))
	}
	ours := outbound.Hooks{Attempt: i.attempt, Retry: i.retry, Done: i.done, Circuit: i.circuit}
	return chained(append([]outbound.Hooks{ours}, also...))
}

// chained runs the funcs of all, in order.
func chained(all []outbound.Hooks) outbound.Hooks {
	switch len(all) {
	case 0:
		return outbound.Hooks{}
	case 1:
		return all[0]
	}
	return outbound.Hooks{
		Attempt: func(ctx context.Context, a outbound.Attempt) {
			for _, h := range all {
				if h.Attempt != nil {
					h.Attempt(ctx, a)
				}
			}
		},
		Retry: func(ctx context.Context, failed outbound.Attempt, wait time.Duration) {
			for _, h := range all {
				if h.Retry != nil {
					h.Retry(ctx, failed, wait)
				}
			}
		},
		Done: func(ctx context.Context, r outbound.Report) {
			for _, h := range all {
				if h.Done != nil {
					h.Done(ctx, r)
				}
			}
		},
		Circuit: func(c outbound.CircuitChange) {
			for _, h := range all {
				if h.Circuit != nil {
					h.Circuit(c)
				}
			}
		},
	}
}

func (i *Instrumentation) attempt(ctx context.Context, a outbound.Attempt) {
	result := resultOf(ctx, a)
	i.requestDuration.Record(ctx, a.Elapsed.Seconds(), with(i.labels(a.Method, a.URL), result...))
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		i.attemptEvent(span, a, result)
	}
}

// resultOf is what the conventions say of an attempt's end: its status if it has one, its error if it is one.
func resultOf(ctx context.Context, a outbound.Attempt) []attribute.KeyValue {
	var result []attribute.KeyValue
	if a.Status != 0 {
		result = append(result, semconv.HTTPResponseStatusCode(a.Status))
	}
	if name := errorType(ctx, a); name != "" {
		result = append(result, semconv.ErrorTypeKey.String(name))
	}
	return result
}

func (i *Instrumentation) retry(ctx context.Context, failed outbound.Attempt, wait time.Duration) {
	labels, reason := i.labels(failed.Method, failed.URL), retryReasonKey.String(retryReason(ctx, failed))
	i.retries.Add(ctx, 1, with(labels, reason))
	i.retryWait.Record(ctx, wait.Seconds(), with(labels))
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("outbound.retry", trace.WithAttributes(reason,
			semconv.HTTPRequestResendCount(failed.Number), attribute.Float64("outbound.retry.wait", wait.Seconds())))
	}
}

func (i *Instrumentation) done(ctx context.Context, r outbound.Report) {
	labels, outcome := i.labels(r.Method, r.URL), outcomeKey.String(outcomeName(r.Outcome))
	reason := stopReasonKey.String(stopReason(ctx, r))
	i.calls.Add(ctx, 1, with(labels, outcome, reason))
	i.callDuration.Record(ctx, r.Elapsed.Seconds(), with(labels, outcome))
	i.callAttempts.Record(ctx, int64(len(r.Attempts)), with(labels))
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent("outbound.done", trace.WithAttributes(outcome, reason,
			attribute.Int("outbound.call.attempts", len(r.Attempts)),
			attribute.Float64("outbound.call.duration", r.Elapsed.Seconds())))
	}
}

func (i *Instrumentation) attemptEvent(span trace.Span, a outbound.Attempt, result []attribute.KeyValue) {
	attributes := append(serverOf(a.URL).attributes(), i.method(a.Method), outcomeKey.String(outcomeName(a.Outcome)),
		attribute.Float64("outbound.attempt.duration", a.Elapsed.Seconds()))
	if a.Number > 1 {
		attributes = append(attributes, semconv.HTTPRequestResendCount(a.Number-1))
	}
	span.AddEvent("outbound.attempt", trace.WithAttributes(append(attributes, result...)...))
}

// circuit has no context, and so neither a span nor an exemplar.
func (i *Instrumentation) circuit(c outbound.CircuitChange) {
	i.circuitChanges.Add(context.Background(), 1, with(i.target(c.Target).attributes(),
		previousStateKey.String(stateName(c.From)), stateKey.String(stateName(c.To))))
}
