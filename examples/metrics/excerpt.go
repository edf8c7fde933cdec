package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// families are the metrics in the order in which they tell what happened.
var families = []struct{ name, words string }{
	{"outbound_calls_total", "each call: how it ended, and why no further attempt was made. Alert on unknown."},
	{"outbound_call_duration_seconds", "how long the calls took, with their waits; the average"},
	{"outbound_call_attempts", "how many attempts a call took; the average"},
	{"http_client_request_duration_seconds", "each attempt, as OpenTelemetry's conventions have it; the average"},
	{"outbound_retries_total", "what the retries were made for"},
	{"outbound_retry_wait_seconds", "how long was waited before them; the average"},
	{"outbound_retry_budget", "how many more may be made now; it was set to 50 for this, and is 10 by default"},
	{"outbound_circuit_changes_total", "how often the circuit opened, or closed again"},
	{"outbound_circuits", "what state the circuits are in now"},
	{"outbound_active_calls", "how many calls are under way now"},
}

// alike are the labels that have one value here, and are left out.
var alike = []string{"http_request_method", "server_address", "server_port", "url_scheme"}

// excerpt prints the page in words. A metric that is missing is an error.
func excerpt(out io.Writer, page []byte) error {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "What Prometheus scrapes after %d payments through a gateway on a bad day, and %d more when it is gone.\n",
		orders, outageOrders)
	fmt.Fprintf(&text, "Left out: buckets, and the labels %s, which are alike.\n", strings.Join(alike, ", "))
	for _, f := range families {
		family := found[f.name]
		if family == nil {
			return fmt.Errorf("no %s on the page", f.name)
		}
		fmt.Fprintf(&text, "\n%s: %s\n", f.name, f.words)
		describe(&text, family)
	}
	_, err = io.WriteString(out, text.String())
	return err
}

// describe prints a line for each series of the family, the largest first.
func describe(text *strings.Builder, family *dto.MetricFamily) {
	series := slices.Clone(family.GetMetric())
	slices.SortStableFunc(series, func(a, b *dto.Metric) int { return cmp.Compare(count(b), count(a)) })
	for _, m := range series {
		line := fmt.Sprintf("%8.0f", count(m))
		if h := m.GetHistogram(); h != nil {
			line += fmt.Sprintf("  %8s", average(h, strings.HasSuffix(family.GetName(), "_seconds")))
		}
		fmt.Fprintln(text, strings.TrimRight(line+"  "+labels(m), " "))
	}
}

// count is a series' value; of a histogram how many were observed.
func count(m *dto.Metric) float64 {
	if h := m.GetHistogram(); h != nil {
		return float64(h.GetSampleCount())
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

func average(h *dto.Histogram, seconds bool) string {
	mean := h.GetSampleSum() / float64(h.GetSampleCount())
	if !seconds {
		return fmt.Sprintf("%.2f", mean)
	}
	return time.Duration(mean * float64(time.Second)).Round(10 * time.Microsecond).String()
}

func labels(m *dto.Metric) string {
	var words []string
	for _, pair := range m.GetLabel() {
		if !slices.Contains(alike, pair.GetName()) {
			words = append(words, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
		}
	}
	return strings.Join(words, ", ")
}
