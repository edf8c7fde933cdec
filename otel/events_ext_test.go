package outboundotel_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbound-go/outbound"
	outboundotel "github.com/outbound-go/outbound/otel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// recorded are the events, one a line, of the span in whose context do runs.
func recorded(do func(context.Context)) (events []string) {
	recorder := tracetest.NewSpanRecorder()
	ctx, span := trace.NewTracerProvider(trace.WithSpanProcessor(recorder)).Tracer("test").Start(context.Background(), "pay")
	do(ctx)
	span.End()
	for _, e := range recorder.Ended()[0].Events() {
		events = append(events, e.Name+"{"+join(e.Attributes)+"}")
	}
	return events
}

func TestSpanEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t, outboundotel.Config{Host: func(string) string { return "mapped" }})
		transport := newTransport(t, outbound.Config{Base: answers(0, 503, 201), Hooks: tel.Hooks()})
		events := recorded(func(ctx context.Context) { call(ctx, transport, http.MethodPost, "https://pay.test/v1/payments") })
		assert.Equal(t, []string{
			"outbound.attempt{error.type=_OTHER,http.request.method=POST,outbound.attempt.duration=0.1,outbound.outcome=unknown," + pay + "}",
			"outbound.retry{http.request.resend_count=1,outbound.retry.reason=_OTHER,outbound.retry.wait=1}",
			"outbound.attempt{error.type=503,http.request.method=POST,http.request.resend_count=1,http.response.status_code=503," +
				"outbound.attempt.duration=0.1,outbound.outcome=unknown," + pay + "}",
			"outbound.retry{http.request.resend_count=2,outbound.retry.reason=503,outbound.retry.wait=1}",
			"outbound.attempt{http.request.method=POST,http.request.resend_count=2,http.response.status_code=201," +
				"outbound.attempt.duration=0.1,outbound.outcome=succeeded," + pay + "}",
			"outbound.done{outbound.call.attempts=3,outbound.call.duration=2.3,outbound.outcome=succeeded,outbound.stop.reason=final_answer}",
		}, events)
	})
}

// A span that is sampled out is given nothing, and costs no allocation.
func TestSpanThatDoesNotRecord(t *testing.T) {
	tel := newTelemetry(t, outboundotel.Config{})
	hooks := tel.Hooks()
	untraced := t.Context()
	provider := trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))
	sampledOut, _ := provider.Tracer("test").Start(untraced, "pay")
	sampledOut = api.ContextWithSpan(sampledOut, strict{api.SpanFromContext(sampledOut), t})
	cost := func(ctx context.Context) float64 {
		attempt := outbound.Attempt{Number: 2, Method: http.MethodPost, URL: "https://pay.test/v1/payments", Status: 201}
		report := outbound.Report{Method: http.MethodPost, URL: attempt.URL, Attempts: []outbound.Attempt{attempt}}
		return testing.AllocsPerRun(100, func() {
			hooks.Attempt(ctx, attempt)
			hooks.Retry(ctx, attempt, time.Second)
			hooks.Done(ctx, report)
		})
	}
	assert.Equal(t, cost(untraced), cost(sampledOut))
	recording, _ := trace.NewTracerProvider().Tracer("test").Start(untraced, "pay")
	assert.Less(t, cost(sampledOut), cost(recording), "a span that records does cost")
}

// strict is a span that must not be given an event.
type strict struct {
	api.Span
	t *testing.T
}

func (s strict) AddEvent(name string, _ ...api.EventOption) {
	s.t.Errorf("%s on a span that does not record", name)
}

// Nothing of a request but its scheme, host, port and known method gets out.
func TestNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t, outboundotel.Config{})
		refuse := func(*http.Request) string { return "secret-target?secret-query" }
		secrets := func(cfg outbound.Config) outbound.Config {
			cfg.Hooks = tel.Hooks()
			cfg.Breaker.ConsecutiveFailures = 2
			return cfg
		}
		transports := []*outbound.Transport{
			newTransport(t, secrets(outbound.Config{Base: answers(303, 200)})),
			newTransport(t, secrets(outbound.Config{Base: answers(0)})),
			newTransport(t, secrets(outbound.Config{Base: answers(0), Target: refuse})),
		}
		_, err := tel.Observe(transports...)
		require.NoError(t, err)
		var lines []string
		lines = append(lines, recorded(func(ctx context.Context) {
			ctx, cancel := context.WithCancelCause(ctx)
			defer cancel(nil)
			action := outbound.NewAction()
			action.Key = "secret-key-of-the-action"
			for _, transport := range transports {
				req, err := http.NewRequestWithContext(outbound.WithAction(ctx, action), "SECRET",
					"https://secret-user:secret-word@pay.test/secret-path?secret-query=1#secret-fragment", strings.NewReader("secret-body"))
				require.NoError(t, err)
				req.Header.Set("Authorization", "secret-token")
				_, _ = transport.RoundTrip(req)
				for range 3 {
					call(ctx, transport, http.MethodPost, "https://secret-user:secret-word@pay.test/secret-path?secret-query=1")
				}
			}
			cancel(fmt.Errorf("secret-cause: %w", errStrange))
			call(ctx, transports[0], http.MethodPost, "https://pay.test/secret-path")
		})...)
		lines = append(lines, tel.lines(t)...)
		for _, want := range []string{"outbound.attempt{", "outbound.retry{", "outbound.done{", "outbound.circuits{", "outbound.circuit.changes{"} {
			assert.Contains(t, strings.Join(lines, "\n"), want)
		}
		for _, line := range lines {
			assert.NotContains(t, strings.ToLower(line), "secret")
		}
	})
}

// A context without a span is no trouble, and neither is a span of no SDK.
func TestNoSpan(t *testing.T) {
	tel := newTelemetry(t, outboundotel.Config{})
	tel.Hooks().Attempt(api.ContextWithSpan(t.Context(), noop.Span{}), outbound.Attempt{})
	tel.Hooks().Attempt(t.Context(), outbound.Attempt{})
	assert.Len(t, tel.lines(t), 1)
}
