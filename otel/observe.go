package outboundotel

import (
	"context"
	"slices"

	"github.com/outbound-go/outbound"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Observe reports the circuits, the calls in flight and the retry budgets of the transports whenever metrics are collected,
// from snapshots that move no circuit. Give it all of them together, each once: where two registrations report one server,
// it is up to the MeterProvider what becomes of it. A nil transport is left out.
//
// The Registration's Unregister ends it. The error is that of the MeterProvider.
func (i *Instrumentation) Observe(transports ...*outbound.Transport) (metric.Registration, error) {
	if i == nil {
		return noop.Registration{}, nil
	}
	transports = slices.DeleteFunc(slices.Clone(transports), func(t *outbound.Transport) bool { return t == nil })
	return i.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for server, sum := range i.sums(transports) {
			i.observe(o, server, sum)
		}
		return nil
	}, i.circuits, i.activeCalls, i.retryBudget)
}

// states are all that a circuit can be in.
var states = [...]outbound.CircuitState{outbound.CircuitClosed, outbound.CircuitHalfOpen, outbound.CircuitOpen}

// sum is what the targets have together that are reported as one server.
type sum struct {
	circuits [len(states)]int64
	active   int64
	budget   int64
	budgeted bool // a target has a budget
}

func (i *Instrumentation) sums(transports []*outbound.Transport) map[server]sum {
	sums := map[server]sum{}
	for _, t := range transports {
		for _, c := range t.Circuits() {
			s := i.target(c.Target)
			sums[s] = sums[s].plus(c)
		}
	}
	return sums
}

func (s sum) plus(c outbound.Circuit) sum {
	s.circuits[c.State]++
	s.active += int64(c.CallsInFlight)
	if c.BudgetLeft >= 0 {
		s.budget += int64(c.BudgetLeft)
		s.budgeted = true
	}
	return s
}

func (i *Instrumentation) observe(o metric.Observer, server server, sum sum) {
	labels := server.attributes()
	for _, state := range states {
		o.ObserveInt64(i.circuits, sum.circuits[state], with(labels, stateKey.String(stateName(state))))
	}
	o.ObserveInt64(i.activeCalls, sum.active, with(labels))
	if sum.budgeted {
		o.ObserveInt64(i.retryBudget, sum.budget, with(labels))
	}
}
