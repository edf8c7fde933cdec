package outboundotel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	outboundotel "github.com/outbound-go/outbound/otel"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// telemetry is an Instrumentation and the reader of what it records.
type telemetry struct {
	*outboundotel.Instrumentation
	reader *metric.ManualReader
}

func newTelemetry(t *testing.T, cfg outboundotel.Config) telemetry {
	t.Helper()
	reader := metric.NewManualReader()
	cfg.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
	tel, err := outboundotel.New(cfg)
	require.NoError(t, err)
	return telemetry{tel, reader}
}

// lines are all data points, one a line, such as "outbound.calls{outbound.outcome=unknown} 1"; of a histogram the count and
// the sum.
func (tel telemetry) lines(t *testing.T) (lines []string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, tel.reader.Collect(context.Background(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			lines = append(lines, linesOf(t, m)...)
		}
	}
	slices.Sort(lines)
	return lines
}

func linesOf(t *testing.T, m metricdata.Metrics) (lines []string) {
	t.Helper()
	add := func(set attribute.Set, format string, values ...any) {
		lines = append(lines, fmt.Sprintf("%s{%s} ", m.Name, join(set.ToSlice()))+fmt.Sprintf(format, values...))
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, "%d", p.Value)
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, "%d in %d", p.Sum, p.Count)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, "%.3f in %d", p.Sum, p.Count)
		}
	default:
		require.Fail(t, "unexpected data", "%s: %T", m.Name, data)
	}
	return lines
}

// of are the lines of one metric.
func of(lines []string, name string) (found []string) {
	for _, line := range lines {
		if strings.HasPrefix(line, name+"{") {
			found = append(found, line)
		}
	}
	return found
}

func join(attributes []attribute.KeyValue) string {
	words := make([]string, len(attributes))
	for i, a := range attributes {
		words[i] = string(a.Key) + "=" + a.Value.String()
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

// base is a RoundTripper that answers with what reply says, after a tenth of a second.
type base func(*http.Request) (int, error)

func (b base) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	time.Sleep(100 * time.Millisecond)
	status, err := b(req)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if status == http.StatusSeeOther {
		header.Set("Location", "/seen")
	}
	return &http.Response{StatusCode: status, Header: header, Body: http.NoBody, Request: req}, nil
}

var errStrange = errors.New("secret-in-an-error")

// answers gives these statuses in turn, the last one for ever; 0 is an error.
func answers(statuses ...int) base {
	return func(*http.Request) (int, error) {
		status := statuses[0]
		if len(statuses) > 1 {
			statuses = statuses[1:]
		}
		if status == 0 {
			return 0, errStrange
		}
		return status, nil
	}
}

// second is a Backoff of one second.
type second struct{}

func (second) Delay(int) time.Duration { return time.Second }

func newTransport(t *testing.T, cfg outbound.Config) *outbound.Transport {
	t.Helper()
	cfg.Retry.Backoff = second{}
	transport, err := outbound.New(cfg)
	require.NoError(t, err)
	return transport
}

// call sends a request and closes its reply. What came of it is for the hooks to tell.
func call(ctx context.Context, transport http.RoundTripper, method, url string) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		panic(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
}
