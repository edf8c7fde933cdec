package soak

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/outbound-go/outbound"
)

// lane is one way of speaking to the gateway, with a client of its own. It lives as long as the soak.
type lane struct {
	name      string
	url       string
	base      *http.Transport // as configured; outbound works on a clone
	transport *outbound.Transport
	client    *http.Client
	board     *switchboard
}

// laneKind says what lanes there are.
type laneKind struct {
	name   string
	server string // which server of the plant it leads to
	direct bool   // past the fault proxies
	tls    bool
	http2  bool
	tune   func(*outbound.Config) // nil: nothing is different
}

const (
	serverGateway   = "gateway"
	serverTLS       = "TLS front"
	serverIdle      = "idle front"
	serverIdleHTTP2 = "idle HTTP/2 front"
)

// One lane keeps the default retry budget, which such a network uses up, and one has a bulkhead: what they refuse is a claim
// like any other.
var laneKinds = []laneKind{
	{name: "HTTP/1.1", server: serverGateway},
	{name: "HTTP/1.1 over TLS", server: serverTLS, tls: true, tune: func(c *outbound.Config) {
		c.Retry.Budget = outbound.BudgetPolicy{}
	}},
	{name: "HTTP/2 over TLS", server: serverTLS, tls: true, http2: true, tune: func(c *outbound.Config) {
		c.Bulkhead = outbound.BulkheadPolicy{MaxInFlight: 12, MaxWait: 20 * time.Millisecond}
	}},
	// Through a proxy the end of an idle connection arrives late, and the race with its next use is rarely close.
	{name: "HTTP/1.1, idle closed", server: serverIdle, direct: true},
	{name: "HTTP/2, idle closed", server: serverIdleHTTP2, direct: true, tls: true, http2: true},
}

func newLane(kind laneKind, roots *x509.CertPool, hooks outbound.Hooks) (*lane, error) {
	l := &lane{name: kind.name, url: "http://" + hostName + "/v1/payments", board: &switchboard{}}
	if kind.tls {
		l.url = "https://" + hostName + "/v1/payments"
	}
	l.base = newBase(kind, roots, l.board.dial)
	cfg := clientConfig(l.base, hooks)
	if kind.tune != nil {
		kind.tune(&cfg)
	}
	var err error
	l.transport, err = outbound.New(cfg)
	if err != nil {
		return nil, err
	}
	l.client = &http.Client{Transport: l.transport}
	return l, nil
}

func newBase(kind laneKind, roots *x509.CertPool, dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(!kind.http2)
	protocols.SetHTTP2(kind.http2)
	return &http.Transport{
		DialContext:         dial,
		TLSClientConfig:     &tls.Config{RootCAs: roots, ServerName: hostName},
		Protocols:           &protocols,
		MaxIdleConnsPerHost: 256,
		// Without pings net/http keeps sending over an HTTP/2 connection that has gone silent.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 400 * time.Millisecond, PingTimeout: 300 * time.Millisecond},
	}
}

// clientConfig is patient enough for servers on this machine, and no more: a soak lives from what goes wrong. The circuit
// is for a server that is down. A third of all attempts fail here by design, and that must not open it; a gateway that
// restarts does.
func clientConfig(base http.RoundTripper, hooks outbound.Hooks) outbound.Config {
	return outbound.Config{
		Base:           base,
		ConnectTimeout: 250 * time.Millisecond,
		AttemptTimeout: 250 * time.Millisecond,
		TotalTimeout:   3 * time.Second,
		Retry: outbound.RetryPolicy{
			MaxAttempts: 4,
			Backoff:     outbound.FullJitter{Base: 10 * time.Millisecond, Cap: 80 * time.Millisecond},
			Budget:      outbound.BudgetPolicy{Disabled: true},
		},
		Breaker: outbound.BreakerPolicy{
			ConsecutiveFailures: 30,
			FailureRatio:        0.9,
			MinRequests:         100,
			OpenFor:             50 * time.Millisecond,
		},
		Provider: outbound.Provider{Judge: judge},
		Hooks:    hooks,
	}
}

// judge is what the gateway documents and outbound can't know: a 500 that is replayed is the stored result of work that
// failed. Nothing was charged, and under this key nothing ever will be.
func judge(resp *http.Response, _ []byte) outbound.Verdict {
	if resp.StatusCode == http.StatusInternalServerError && resp.Header.Get("Idempotent-Replayed") == "true" {
		return outbound.Verdict{Next: outbound.NextStop, Says: outbound.SaysRejected}
	}
	return outbound.Verdict{}
}

// route is where a new connection may go.
type route struct {
	name   string
	addr   string
	weight int
}

// switchboard dials one of its routes, whatever address it is asked for. Safe for concurrent use.
type switchboard struct {
	mu     sync.Mutex
	rng    *rand.Rand
	count  func(kind string) // nil: nobody counts
	routes []route
}

var errNoRoute = errors.New("no route to the server")

func (b *switchboard) set(routes []route, rng *rand.Rand, count func(string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.routes, b.rng, b.count = routes, rng, count
}

func (b *switchboard) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	r, ok := b.draw()
	if !ok {
		return nil, errNoRoute
	}
	var d net.Dialer
	return d.DialContext(ctx, network, r.addr)
}

func (b *switchboard) draw() (route, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum := 0
	for _, r := range b.routes {
		sum += r.weight
	}
	if sum == 0 {
		return route{}, false
	}
	at := b.rng.IntN(sum)
	for _, r := range b.routes {
		if at -= r.weight; at < 0 {
			if b.count != nil {
				b.count("network: " + r.name)
			}
			return r, true
		}
	}
	return route{}, false
}
