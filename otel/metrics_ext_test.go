package outboundotel_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/outbound-go/outbound"
	outboundotel "github.com/outbound-go/outbound/otel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

const (
	pay     = "server.address=pay.test,server.port=443,url.scheme=https"
	postPay = "http.request.method=POST," + pay
)

// Every instrument and each of its labels, for a payment that meets an outage.
func TestRetriedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t, outboundotel.Config{})
		transport := newTransport(t, outbound.Config{Base: answers(503, 0, 201), Hooks: tel.Hooks()})
		call(t.Context(), transport, http.MethodPost, "https://PAY.test/v1/payments")
		assert.Equal(t, []string{
			"http.client.request.duration{error.type=503,http.request.method=POST,http.response.status_code=503," + pay + "} 0.100 in 1",
			"http.client.request.duration{error.type=_OTHER," + postPay + "} 0.100 in 1",
			"http.client.request.duration{http.request.method=POST,http.response.status_code=201," + pay + "} 0.100 in 1",
			"outbound.call.attempts{" + postPay + "} 3 in 1",
			"outbound.call.duration{http.request.method=POST,outbound.outcome=succeeded," + pay + "} 2.300 in 1",
			"outbound.calls{http.request.method=POST,outbound.outcome=succeeded,outbound.stop.reason=final_answer," + pay + "} 1",
			"outbound.retries{http.request.method=POST,outbound.retry.reason=503," + pay + "} 1",
			"outbound.retries{http.request.method=POST,outbound.retry.reason=_OTHER," + pay + "} 1",
			"outbound.retry.wait{" + postPay + "} 2.000 in 2",
		}, tel.lines(t))
	})
}

// A retry that the provider's Judge orders after an answer that is no error has the status for a reason.
func TestRetryOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t, outboundotel.Config{})
		pending := func(resp *http.Response, _ []byte) (v outbound.Verdict) {
			if resp.StatusCode == http.StatusAccepted {
				v.Next = outbound.NextRetry
			}
			return v
		}
		transport := newTransport(t, outbound.Config{
			Base: answers(202, 201), Hooks: tel.Hooks(), Provider: outbound.Provider{Judge: pending},
		})
		call(t.Context(), transport, http.MethodPost, "https://pay.test/")
		assert.Equal(t, []string{"outbound.retries{http.request.method=POST,outbound.retry.reason=202," + pay + "} 1"},
			of(tel.lines(t), "outbound.retries"))
	})
}

// A redirect is a call, the hop after it another, and the first is not taken for one whose outcome is unknown.
func TestRedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t, outboundotel.Config{})
		transport := newTransport(t, outbound.Config{Base: answers(303, 200), Hooks: tel.Hooks()})
		call(t.Context(), transport, http.MethodPost, "https://pay.test/")
		assert.Equal(t, []string{
			"outbound.calls{http.request.method=GET,outbound.outcome=unknown,outbound.stop.reason=final_answer," + pay + "} 1",
			"outbound.calls{http.request.method=POST,outbound.outcome=unknown,outbound.stop.reason=redirect," + pay + "} 1",
		}, of(tel.lines(t), "outbound.calls"))
	})
}

// Units, kinds and the bounds of the buckets: what a dashboard relies on.
func TestInstruments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t, outboundotel.Config{})
		transport := newTransport(t, outbound.Config{
			Base: answers(0), Hooks: tel.Hooks(), Retry: outbound.RetryPolicy{MaxAttempts: 2},
			Breaker: outbound.BreakerPolicy{ConsecutiveFailures: 1},
		})
		_, err := tel.Observe(transport)
		require.NoError(t, err)
		for range 2 {
			call(t.Context(), transport, http.MethodGet, "https://pay.test/")
		}
		tel.Hooks().Retry(t.Context(), outbound.Attempt{}, 0)

		var all metricdata.ResourceMetrics
		require.NoError(t, tel.reader.Collect(t.Context(), &all))
		require.Len(t, all.ScopeMetrics, 1)
		scope := all.ScopeMetrics[0]
		assert.Equal(t, "github.com/outbound-go/outbound/otel", scope.Scope.Name)
		assert.Equal(t, "https://opentelemetry.io/schemas/1.43.0", scope.Scope.SchemaURL)
		got := map[string]string{}
		for _, m := range scope.Metrics {
			assert.NotEmpty(t, m.Description, m.Name)
			got[m.Name] = m.Unit + " " + kindOf(m.Data)
		}
		assert.Equal(t, map[string]string{
			"http.client.request.duration": "s histogram [0.005 0.01 0.025 0.05 0.075 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10]",
			"outbound.calls":               "{call} counter",
			"outbound.call.duration":       "s histogram [0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60]",
			"outbound.call.attempts":       "{attempt} histogram [0 1 2 3 4 6 8]",
			"outbound.retries":             "{retry} counter",
			"outbound.retry.wait":          "s histogram [0 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60]",
			"outbound.circuit.changes":     "{change} counter",
			"outbound.circuits":            "{circuit} gauge",
			"outbound.active_calls":        "{call} gauge",
			"outbound.retry.budget":        "{retry} gauge",
		}, got)
	})
}

func kindOf(data metricdata.Aggregation) string {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		if data.IsMonotonic {
			return "counter"
		}
		return "gauge"
	case metricdata.Histogram[int64]:
		return fmt.Sprint("histogram ", data.DataPoints[0].Bounds)
	case metricdata.Histogram[float64]:
		return fmt.Sprint("histogram ", data.DataPoints[0].Bounds)
	}
	return fmt.Sprintf("%T", data)
}

func TestOutcomes(t *testing.T) {
	tel := newTelemetry(t, outboundotel.Config{})
	for _, outcome := range []outbound.Outcome{
		outbound.OutcomeUnknown, outbound.OutcomeNotSent, outbound.OutcomeRejected, outbound.OutcomeSucceeded,
	} {
		tel.Hooks().Done(t.Context(), outbound.Report{Outcome: outcome})
	}
	var names []string
	for _, line := range of(tel.lines(t), "outbound.calls") {
		_, rest, _ := strings.Cut(line, "outbound.outcome=")
		name, _, _ := strings.Cut(rest, ",")
		names = append(names, name)
	}
	assert.Equal(t, []string{"not_sent", "rejected", "succeeded", "unknown"}, names)
}

func TestMethods(t *testing.T) {
	methods := func(cfg outboundotel.Config, sent ...string) (reported []string) {
		tel := newTelemetry(t, cfg)
		for _, method := range sent {
			tel.Hooks().Done(context.Background(), outbound.Report{Method: method, URL: "https://pay.test"})
		}
		for _, line := range of(tel.lines(t), "outbound.call.attempts") {
			_, rest, _ := strings.Cut(line, "http.request.method=")
			method, _, _ := strings.Cut(rest, ",")
			reported = append(reported, method)
		}
		return reported
	}
	known := []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}
	assert.Equal(t, known, methods(outboundotel.Config{}, known...))
	assert.Equal(t, []string{"_OTHER"}, methods(outboundotel.Config{}, "get", "BREW", "INVALID", ""))
	assert.Equal(t, []string{"BREW", "_OTHER"}, methods(outboundotel.Config{Methods: []string{"BREW"}}, "BREW", "GET"),
		"a list replaces the default")
	assert.Equal(t, []string{"_OTHER"}, methods(outboundotel.Config{Methods: []string{}}, "BREW", "GET"), "even an empty one")
}

// A Config is copied: what becomes of its list afterwards changes nothing.
func TestConfigIsCopied(t *testing.T) {
	methods := []string{"BREW"}
	tel := newTelemetry(t, outboundotel.Config{Methods: methods})
	methods[0] = "GET"
	tel.Hooks().Done(t.Context(), outbound.Report{Method: "BREW"})
	assert.Contains(t, strings.Join(tel.lines(t), "\n"), "http.request.method=BREW")
}
