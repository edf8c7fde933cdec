package outboundotel_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	outboundotel "github.com/outbound-go/outbound/otel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// tellTo are Hooks that write down that they were called.
func tellTo(log *[]string, name string) outbound.Hooks {
	tell := func(what string) { *log = append(*log, name+" "+what) }
	return outbound.Hooks{
		Attempt: func(context.Context, outbound.Attempt) { tell("attempt") },
		Retry:   func(context.Context, outbound.Attempt, time.Duration) { tell("retry") },
		Done:    func(context.Context, outbound.Report) { tell("done") },
		Circuit: func(outbound.CircuitChange) { tell("circuit") },
	}
}

func callAll(h outbound.Hooks) {
	h.Attempt(context.Background(), outbound.Attempt{})
	h.Retry(context.Background(), outbound.Attempt{}, 0)
	h.Done(context.Background(), outbound.Report{})
	h.Circuit(outbound.CircuitChange{})
}

func TestOtherHooksRunAfterOurs(t *testing.T) {
	tel := newTelemetry(t, outboundotel.Config{})
	var log []string
	others := []outbound.Hooks{tellTo(&log, "first"), {}, tellTo(&log, "second")}
	hooks := tel.Hooks(others...)
	others[0] = outbound.Hooks{}
	callAll(hooks)
	assert.Equal(t, []string{
		"first attempt", "second attempt", "first retry", "second retry", "first done", "second done", "first circuit", "second circuit",
	}, log)
	assert.Len(t, tel.lines(t), 7, "ours ran, too")

	panics := outbound.Hooks{Done: func(context.Context, outbound.Report) { panic("theirs") }}
	assert.PanicsWithValue(t, "theirs", func() { tel.Hooks(panics).Done(t.Context(), outbound.Report{}) })
	assert.Equal(t, 2, valueOf(t, of(tel.lines(t), "outbound.calls")[0]), "ours had run before")
}

// A program whose metrics could not be set up goes on without them.
func TestNilInstrumentation(t *testing.T) {
	var tel *outboundotel.Instrumentation
	assert.Equal(t, outbound.Hooks{}, tel.Hooks(), "what nobody listens to is not even told")
	var log []string
	others := []outbound.Hooks{tellTo(&log, "first"), tellTo(&log, "second")}
	hooks := tel.Hooks(others...)
	others[0] = outbound.Hooks{}
	callAll(hooks)
	assert.Len(t, log, 8)
	log = nil
	alone := tel.Hooks(outbound.Hooks{Done: others[1].Done})
	alone.Done(t.Context(), outbound.Report{})
	assert.Equal(t, []string{"second done"}, log)
	assert.Nil(t, alone.Attempt, "nor here")
	watch, err := tel.Observe(newTransport(t, outbound.Config{}))
	require.NoError(t, err)
	assert.NoError(t, watch.Unregister())
}

func TestNewRefuses(t *testing.T) {
	_, err := outboundotel.New(outboundotel.Config{MaxServers: -1})
	assert.EqualError(t, err, "outboundotel: MaxServers is negative: -1")

	tel, err := outboundotel.New(outboundotel.Config{MeterProvider: broken{}})
	assert.Nil(t, tel)
	assert.ErrorIs(t, err, errInstrument)
	for _, name := range []string{
		"http.client.request.duration", "outbound.calls", "outbound.call.duration", "outbound.call.attempts", "outbound.retries",
		"outbound.retry.wait", "outbound.circuit.changes", "outbound.circuits", "outbound.active_calls", "outbound.retry.budget",
	} {
		assert.ErrorContains(t, err, name)
	}
}

var errInstrument = errors.New("refused")

// broken is a MeterProvider that refuses every instrument.
type broken struct{ noop.MeterProvider }

func (broken) Meter(string, ...metric.MeterOption) metric.Meter { return brokenMeter{} }

type brokenMeter struct{ noop.Meter }

func refused(name string) error { return fmt.Errorf("%s: %w", name, errInstrument) }

func (brokenMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, refused(name)
}

func (brokenMeter) Int64Histogram(name string, _ ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return nil, refused(name)
}

func (brokenMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return nil, refused(name)
}

func (brokenMeter) Int64ObservableUpDownCounter(name string, _ ...metric.Int64ObservableUpDownCounterOption) (
	metric.Int64ObservableUpDownCounter, error,
) {
	return nil, refused(name)
}

func TestObserveReturnsTheProvidersError(t *testing.T) {
	tel, err := outboundotel.New(outboundotel.Config{MeterProvider: unobservable{}})
	require.NoError(t, err)
	_, err = tel.Observe()
	assert.ErrorIs(t, err, errInstrument)
}

// unobservable is a MeterProvider that refuses callbacks.
type unobservable struct{ noop.MeterProvider }

func (unobservable) Meter(string, ...metric.MeterOption) metric.Meter { return unobservableMeter{} }

type unobservableMeter struct{ noop.Meter }

func (unobservableMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return nil, errInstrument
}

func TestGlobalProvider(t *testing.T) {
	reader := sdk.NewManualReader()
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	tel, err := outboundotel.New(outboundotel.Config{})
	require.NoError(t, err)
	tel.Hooks().Done(t.Context(), outbound.Report{})
	assert.NotEmpty(t, telemetry{tel, reader}.lines(t))
}

// Everything at once, for the race detector: calls, collections, registrations that come and go.
func TestConcurrentUse(t *testing.T) {
	tel := newTelemetry(t, outboundotel.Config{MaxServers: 5})
	var log sync.Map
	also := outbound.Hooks{Done: func(_ context.Context, r outbound.Report) { log.Store(r.URL, true) }}
	transport := newTransport(t, outbound.Config{
		Base: instant(503), Hooks: tel.Hooks(also), Retry: outbound.RetryPolicy{MaxAttempts: 1},
		Breaker: outbound.BreakerPolicy{OpenFor: time.Nanosecond, ConsecutiveFailures: 1},
	})
	const goroutines, each = 8, 50
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for n := range each {
				recorded(func(ctx context.Context) {
					call(ctx, transport, http.MethodPost, fmt.Sprintf("https://host%d.test/", n%10))
				})
				if g == 0 {
					watch, err := tel.Observe(transport)
					assert.NoError(t, err)
					assert.NotEmpty(t, tel.lines(t))
					assert.NoError(t, watch.Unregister())
				}
			}
		})
	}
	group.Wait()
	var calls int
	for _, line := range of(tel.lines(t), "outbound.calls") {
		calls += valueOf(t, line)
	}
	assert.Equal(t, goroutines*each, calls)
}

func TestHooksInOneStep(t *testing.T) {
	reader := sdk.NewManualReader()
	var log []string
	hooks, err := outboundotel.Hooks(outboundotel.Config{MeterProvider: sdk.NewMeterProvider(sdk.WithReader(reader))}, tellTo(&log, "theirs"))
	require.NoError(t, err)
	callAll(hooks)
	assert.Len(t, log, 4)
	var found metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &found))
	assert.NotEmpty(t, found.ScopeMetrics)

	_, err = outboundotel.Hooks(outboundotel.Config{MaxServers: -1})
	require.ErrorContains(t, err, "MaxServers")
}
