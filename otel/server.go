package outboundotel

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// other stands for all that is not told apart. The conventions use it for methods and error types.
const other = "_OTHER"

// server is where a request goes. Nothing else of a URL gets into a label or an event.
type server struct {
	scheme  string // http, https or _OTHER
	address string
	port    int
}

// serverOf reads scheme, host and port of a URL. Of what is none the server is unknown.
func serverOf(rawURL string) server {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return server{scheme: other, address: other}
	}
	s := server{scheme: strings.ToLower(u.Scheme), address: strings.ToLower(u.Hostname())}
	port := u.Port()
	switch {
	case s.scheme != "http" && s.scheme != "https":
		s.scheme = other
	case port == "":
		port = defaultPorts[s.scheme]
	}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		s.port = int(n)
	}
	return s
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

func (s server) attributes() []attribute.KeyValue {
	return []attribute.KeyValue{
		semconv.ServerAddress(s.address), semconv.ServerPort(s.port), semconv.URLScheme(s.scheme),
	}
}

// reported is the server as the metrics name it: mapped by Config.Host, and one of at most Config.MaxServers.
func (i *Instrumentation) reported(s server) server {
	if i.host != nil && s.address != other {
		s.address = i.host(s.address)
	}
	return i.admitted(s)
}

// target is what the metrics call a target of outbound's: its server, or what Config.Host makes of a name that is no URL.
func (i *Instrumentation) target(name string) server {
	if s := serverOf(name); s.scheme != other {
		return i.reported(s)
	}
	s := server{scheme: other, address: other} // a name that is no URL of ours may hold anything
	if i.host != nil {
		s.address = i.host(name)
	}
	return i.admitted(s)
}

func (i *Instrumentation) admitted(s server) server {
	if s.address == "" || s.address == other || !i.servers.admits(s) {
		return server{scheme: s.scheme, address: other}
	}
	return s
}

// method is http.request.method.
func (i *Instrumentation) method(m string) attribute.KeyValue {
	if !slices.Contains(i.methods, m) {
		m = other
	}
	return semconv.HTTPRequestMethodKey.String(m)
}

// labels are those of every call and attempt.
func (i *Instrumentation) labels(method, rawURL string) []attribute.KeyValue {
	return append(i.reported(serverOf(rawURL)).attributes(), i.method(method))
}

// with is a measurement's option for the labels and some more.
func with(labels []attribute.KeyValue, more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(slices.Concat(labels, more)...))
}

// bounded is a set of at most limit servers.
type bounded struct {
	limit int

	mu   sync.Mutex
	seen map[server]bool
}

// admits reports whether s is in the set, or had room in it.
func (b *bounded) admits(s server) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen[s] || len(b.seen) >= b.limit {
		return b.seen[s]
	}
	if b.seen == nil {
		b.seen = map[server]bool{}
	}
	b.seen[s] = true
	return true
}
