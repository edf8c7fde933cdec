package outboundotel

import (
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/httpconv"
)

// scopeName is the name of the instrumentation scope.
const scopeName = "github.com/outbound-go/outbound/otel"

// Config says where the metrics go and how fine they are. The zero value is valid. It is copied by New.
type Config struct {
	// MeterProvider is where the metrics go. Default: the global one, otel.GetMeterProvider, which may be set later.
	MeterProvider metric.MeterProvider
	// Host maps a host, in lower case and without its port, to the value of server.address, to report many hosts as one:
	// "api.example.com" for all of its regions, say. An empty result means _OTHER. It is also given a target that
	// outbound.Config.Target did not name scheme://host:port, as it stands. It runs on the caller's goroutine, and while
	// metrics are collected, and must be safe for concurrent use. Default: a host is reported as it is, and a target of
	// another form as _OTHER.
	Host func(host string) string
	// MaxServers bounds how many different servers (url.scheme, server.address and server.port together, after Host) the
	// metrics tell apart, first come, first served. All further ones of a scheme are reported together, with _OTHER for the
	// address. Default: 100. Negative: refused by New.
	MaxServers int
	// Methods are the values of http.request.method, in the case in which they are sent; any other method is reported as
	// _OTHER. An empty list tells none apart. Default, for nil: those that the conventions know, GET, HEAD, POST, PUT,
	// DELETE, CONNECT, OPTIONS, TRACE, PATCH and QUERY.
	Methods []string
}

// defaultMethods are the well-known values of http.request.method.
var defaultMethods = []string{
	string(httpconv.RequestMethodGet), string(httpconv.RequestMethodHead), string(httpconv.RequestMethodPost),
	string(httpconv.RequestMethodPut), string(httpconv.RequestMethodDelete), string(httpconv.RequestMethodConnect),
	string(httpconv.RequestMethodOptions), string(httpconv.RequestMethodTrace), string(httpconv.RequestMethodPatch),
	string(httpconv.RequestMethodQuery),
}

const defaultMaxServers = 100

// Instrumentation records what the Transports do that have its Hooks or that it observes. One is enough for all of a program.
// Make it with New; a nil one records nothing, so that a program whose metrics failed can go on without. Safe for concurrent
// use.
type Instrumentation struct {
	meter   metric.Meter
	host    func(string) string
	methods []string
	servers bounded
	instruments
}

// New returns an Instrumentation. It fails where MaxServers is negative, or where the MeterProvider refuses an instrument.
func New(cfg Config) (*Instrumentation, error) {
	if cfg.MaxServers < 0 {
		return nil, fmt.Errorf("outboundotel: MaxServers is negative: %d", cfg.MaxServers)
	}
	provider := cfg.MeterProvider
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	i := &Instrumentation{
		meter:   provider.Meter(scopeName, metric.WithSchemaURL(semconv.SchemaURL)),
		host:    cfg.Host,
		methods: slices.Clone(cfg.Methods),
	}
	if i.methods == nil {
		i.methods = defaultMethods
	}
	i.servers.limit = cfg.MaxServers
	if cfg.MaxServers == 0 {
		i.servers.limit = defaultMaxServers
	}
	if err := i.create(i.meter); err != nil {
		return nil, fmt.Errorf("outboundotel: %w", err)
	}
	return i, nil
}

// instruments are what is recorded to.
type instruments struct {
	requestDuration metric.Float64Histogram
	calls           metric.Int64Counter
	callDuration    metric.Float64Histogram
	callAttempts    metric.Int64Histogram
	retries         metric.Int64Counter
	retryWait       metric.Float64Histogram
	circuitChanges  metric.Int64Counter

	circuits    metric.Int64ObservableUpDownCounter
	activeCalls metric.Int64ObservableUpDownCounter
	retryBudget metric.Int64ObservableUpDownCounter
}

// create makes the instruments, and returns every error that the meter gave, joined.
func (i *instruments) create(m metric.Meter) error {
	errs := make([]error, 10)
	var request httpconv.ClientRequestDuration
	request, errs[0] = httpconv.NewClientRequestDuration(m)
	i.requestDuration = request.Inst()
	i.calls, errs[1] = m.Int64Counter("outbound.calls", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that returned, by how they ended and why no further attempt was made."))
	i.callDuration, errs[2] = m.Float64Histogram("outbound.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of calls: all attempts and the waits between them, without reading a streamed reply."),
		metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60))
	i.callAttempts, errs[3] = m.Int64Histogram("outbound.call.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts that a call took; none where it was refused before the first."),
		metric.WithExplicitBucketBoundaries(0, 1, 2, 3, 4, 6, 8))
	i.retries, errs[4] = m.Int64Counter("outbound.retries", metric.WithUnit("{retry}"),
		metric.WithDescription("Retries, by what went wrong in the attempt before."))
	i.retryWait, errs[5] = m.Float64Histogram("outbound.retry.wait", metric.WithUnit("s"),
		metric.WithDescription("Planned wait before a retry."),
		metric.WithExplicitBucketBoundaries(0, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60))
	i.circuitChanges, errs[6] = m.Int64Counter("outbound.circuit.changes", metric.WithUnit("{change}"),
		metric.WithDescription("Changes of a circuit's state."))
	i.circuits, errs[7] = m.Int64ObservableUpDownCounter("outbound.circuits", metric.WithUnit("{circuit}"),
		metric.WithDescription("Circuits in each state."))
	i.activeCalls, errs[8] = m.Int64ObservableUpDownCounter("outbound.active_calls", metric.WithUnit("{call}"),
		metric.WithDescription("Calls under way whose reply is not done with."))
	i.retryBudget, errs[9] = m.Int64ObservableUpDownCounter("outbound.retry.budget", metric.WithUnit("{retry}"),
		metric.WithDescription("Retries that the budget would allow now."))
	return errors.Join(errs...)
}
