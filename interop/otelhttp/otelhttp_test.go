// Package otelhttp_test puts OpenTelemetry's RoundTripper below outbound, where it sees attempts, and above it, where it sees calls.
package otelhttp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/interop/internal/mock"
)

// tracing keeps the spans that end.
type tracing struct {
	*tracetest.SpanRecorder
	provider *sdk.TracerProvider
}

func newTracing() tracing {
	spans := tracetest.NewSpanRecorder()
	return tracing{spans, sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))}
}

func (tr tracing) over(base http.RoundTripper) *otelhttp.Transport {
	return otelhttp.NewTransport(base, otelhttp.WithTracerProvider(tr.provider), otelhttp.WithPropagators(propagation.TraceContext{}))
}

// statuses are what the spans say of the replies, in order; 0 where there was none.
func (tr tracing) statuses() (all []int64) {
	for _, span := range tr.Ended() {
		all = append(all, attributeOf(span, "http.response.status_code").AsInt64())
	}
	return all
}

func attributeOf(span sdk.ReadOnlySpan, key attribute.Key) attribute.Value {
	for _, a := range span.Attributes() {
		if a.Key == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

// send sends a write, reads its reply, and says how it ended.
func send(t *testing.T, client *http.Client, url string, body io.Reader) outbound.Report {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/pay", body)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	report, ok := outbound.ReportOf(resp, err)
	require.True(t, ok)
	return report
}

// Below, each attempt is a span of its own, and the server is told which. All are the children of the caller's span.
func TestSpanPerAttempt(t *testing.T) {
	s := mock.Loopback(t, mock.Always(201, `{}`), mock.Answer(503, `{}`), mock.LoseReply)
	tr := newTracing()
	client := mock.NewClient(t, mock.Quick(tr.over(s.Base), outbound.Provider{}))
	ctx, parent := tr.provider.Tracer("shop").Start(t.Context(), "checkout")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/pay", strings.NewReader(`{}`))
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, nil))

	assert.Equal(t, []int64{503, 0, 201}, tr.statuses())
	spans, requests := tr.Ended(), s.Requests()
	require.Len(t, requests, 3)
	for i, span := range spans {
		assert.Equal(t, parent.SpanContext().SpanID(), span.Parent().SpanID())
		assert.Contains(t, requests[i].Header.Get("Traceparent"), span.SpanContext().SpanID().String())
		assert.Equal(t, requests[0].Key(), requests[i].Key())
	}
	assert.Equal(t, codes.Error, spans[0].Status().Code)
	assert.Equal(t, codes.Error, spans[1].Status().Code)
	assert.Equal(t, codes.Unset, spans[2].Status().Code)
}

// Above, the whole call is one span, with the answer that came in the end.
func TestSpanPerCall(t *testing.T) {
	s := mock.Loopback(t, mock.Always(201, `{}`), mock.Answer(503, `{}`), mock.LoseReply)
	tr := newTracing()
	client := mock.NewClient(t, mock.Quick(s.Base, outbound.Provider{}))
	report := send(t, &http.Client{Transport: tr.over(client.Transport)}, s.URL, strings.NewReader(`{}`))
	assert.Equal(t, outbound.OutcomeSucceeded, report.Outcome)
	assert.Len(t, report.Attempts, 3)
	assert.Equal(t, []int64{201}, tr.statuses())
	for _, r := range s.Requests() {
		assert.Equal(t, s.Requests()[0], r)
	}
}

// Through it the proof of NotSent holds.
func TestProofHoldsThroughIt(t *testing.T) {
	tr := newTracing()
	client := mock.NewClient(t, mock.Quick(tr.over(new(http.Transport)), outbound.Provider{}))
	report := send(t, client.Client, mock.Nowhere, strings.NewReader(`{}`))
	assert.Equal(t, outbound.OutcomeNotSent, report.Outcome)
	assert.ErrorIs(t, report.Stopped, outbound.ErrAttemptsExhausted)
	assert.Len(t, tr.Ended(), 4)
}

// net/http sends a keyed write again when a kept connection dies, and otelhttp does not keep it from that. One attempt stays one request
// all the same, with a body and without.
func TestOneAttemptIsOneRequest(t *testing.T) {
	for name, body := range map[string]func() io.Reader{
		"body":    func() io.Reader { return strings.NewReader(`{}`) },
		"no body": func() io.Reader { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := mock.Loopback(t, mock.Always(201, `{}`), mock.Pass, mock.LoseReply)
			cfg := mock.Quick(newTracing().over(s.Base), outbound.Provider{})
			cfg.Retry.MaxAttempts = 1
			client := mock.NewClient(t, cfg)
			send(t, client.Client, s.URL, body()) // leaves a connection
			report := send(t, client.Client, s.URL, body())
			assert.Equal(t, outbound.OutcomeUnknown, report.Outcome)
			assert.Len(t, report.Attempts, 1)
			assert.Len(t, s.Requests(), 2)
		})
	}
}

// The same without outbound: net/http and otelhttp alone make two requests of one RoundTrip. It is what the test above is about.
func TestNetHTTPSendsAgain(t *testing.T) {
	s := mock.Loopback(t, mock.Always(201, `{}`), mock.Pass, mock.LoseReply)
	client := &http.Client{Transport: newTracing().over(s.Base)}
	for range 2 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/pay", strings.NewReader(`{}`))
		require.NoError(t, err)
		req.Header.Set("Idempotency-Key", "order-7")
		resp, err := client.Do(req)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	assert.Len(t, s.Requests(), 3)
}

// A stream through it outlasts the total timeout, and its span ends with its body.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mock.InMemory(t, mock.Drip("text/event-stream", "data: x\n\n", 10, 50*time.Second))
		tr := newTracing()
		client := mock.NewClient(t, outbound.Config{Base: tr.over(s.Base)})
		start := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		assert.Empty(t, tr.Ended())
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, strings.Repeat("data: x\n\n", 10), string(body))
		require.Len(t, tr.Ended(), 1)
		assert.Equal(t, 500*time.Second, tr.Ended()[0].EndTime().Sub(start))
	})
}

// An attempt that is cut short is a span that ends, too.
func TestAttemptTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mock.InMemory(t, mock.Always(201, `{}`), mock.Hang)
		tr := newTracing()
		client := mock.NewClient(t, outbound.Config{Base: tr.over(s.Base)})
		report := send(t, client.Client, s.URL, strings.NewReader(`{}`))
		assert.Equal(t, outbound.OutcomeSucceeded, report.Outcome)
		require.Len(t, report.Attempts, 2)
		assert.ErrorIs(t, report.Attempts[0].Err, outbound.ErrAttemptTimeout)
		assert.Equal(t, []int64{0, 201}, tr.statuses())
	})
}
