package outboundotel_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/outbound-go/outbound"
	outboundotel "github.com/outbound-go/outbound/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// One Instrumentation for the program; its Hooks for each Transport, and all of them observed together.
func Example() {
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer api.Close()
	reader := metric.NewManualReader() // a program has an exporter here
	provider := metric.NewMeterProvider(metric.WithReader(reader))

	tel, err := outboundotel.New(outboundotel.Config{MeterProvider: provider})
	if err != nil {
		fmt.Println(err)
		return
	}
	transport, err := outbound.New(outbound.Config{Hooks: tel.Hooks()})
	if err != nil {
		fmt.Println(err)
		return
	}
	watch, err := tel.Observe(transport)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = watch.Unregister() }()

	resp, err := (&http.Client{Transport: transport}).Get(api.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()

	var metrics metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &metrics); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range metrics.ScopeMetrics[0].Metrics {
		fmt.Println(m.Name)
	}
	// Output:
	// http.client.request.duration
	// outbound.calls
	// outbound.call.duration
	// outbound.call.attempts
	// outbound.circuits
	// outbound.active_calls
	// outbound.retry.budget
}
