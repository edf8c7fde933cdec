package outbound

import (
	"context"
	"errors"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"
)

// The longest time there is: the stand-in for a limit that is off.
const unlimited = time.Duration(math.MaxInt64)

const (
	defaultConnectTimeout = 2 * time.Second
	defaultAttemptTimeout = 10 * time.Second
	defaultIdleTimeout    = 60 * time.Second
	defaultWindow         = 60 * time.Second
)

// timeouts are the limits in force; 0 is off.
type timeouts struct {
	connect, attempt, total, idle, window time.Duration
}

// adapt fills the unset limits so that they fit the set ones.
func adapt(cfg Config) timeouts {
	t := timeouts{
		connect: cfg.ConnectTimeout,
		attempt: cfg.AttemptTimeout,
		total:   cfg.TotalTimeout,
		idle:    orDefault(cfg.IdleTimeout, defaultIdleTimeout),
		window:  cfg.Breaker.Window,
	}
	if t.attempt == 0 {
		t.attempt = within(max(defaultAttemptTimeout, t.connect), t.total, t.window/2, cfg.Provider.KeyWindow/2)
	}
	if t.connect == 0 {
		t.connect = within(defaultConnectTimeout, t.attempt, t.total)
	}
	if t.total == 0 {
		t.total = saturated(3, max(t.attempt, t.connect, defaultTotalFloor(t.attempt)))
	}
	if t.window == 0 {
		t.window = max(defaultWindow, saturated(2, t.attempt))
	}
	for _, d := range []*time.Duration{&t.connect, &t.attempt, &t.total, &t.idle, &t.window} {
		*d = max(*d, 0)
	}
	return t
}

// defaultTotalFloor is what the total timeout is made of where attempts have no limit of their own.
func defaultTotalFloor(attempt time.Duration) time.Duration {
	if attempt < 0 {
		return defaultAttemptTimeout
	}
	return 0
}

// within is d, or the least of those limits that are set.
func within(d time.Duration, limits ...time.Duration) time.Duration {
	for _, l := range limits {
		if l > 0 {
			d = min(d, l)
		}
	}
	return d
}

func saturated(n int64, d time.Duration) time.Duration {
	if d > unlimited/time.Duration(n) {
		return unlimited
	}
	return time.Duration(n) * d
}

// contradictions are the faults among the limits that were set.
func (cfg Config) contradictions() []error {
	var faults []error
	ordered := func(shortName string, short time.Duration, longName string, long time.Duration) {
		if short > 0 && long > 0 && short > long {
			faults = append(faults, fault("%s (%v) is above %s (%v): the inner limit must fit into the outer one", shortName, short, longName, long))
		}
	}
	ordered("ConnectTimeout", cfg.ConnectTimeout, "AttemptTimeout", cfg.AttemptTimeout)
	ordered("AttemptTimeout", cfg.AttemptTimeout, "TotalTimeout", cfg.TotalTimeout)
	if cfg.AttemptTimeout <= 0 {
		ordered("ConnectTimeout", cfg.ConnectTimeout, "TotalTimeout", cfg.TotalTimeout)
	}
	name, longest := "AttemptTimeout", cfg.AttemptTimeout
	if cfg.ConnectTimeout > longest {
		name, longest = "ConnectTimeout", cfg.ConnectTimeout
	}
	if w := cfg.Breaker.Window; w > 0 && longest > w/2 {
		faults = append(faults, fault("Breaker.Window (%v) is below twice %s (%v): results would come too late to count", w, name, longest))
	}
	ordered("AttemptTimeout", cfg.AttemptTimeout, "Provider.KeyWindow", cfg.Provider.KeyWindow)
	return faults
}

// proxyRefusal is a proxy's answer to CONNECT that no retry changes.
type proxyRefusal struct{ status int }

func (p *proxyRefusal) Error() string { return "outbound: " + p.safeText() }

func (p *proxyRefusal) safeText() string {
	return "the proxy refused to connect: " + http.StatusText(p.status)
}

const maxHeaderBytes = 1 << 20

// newBase is an http.Transport with the settings that http.DefaultTransport starts with, the connect timeout, and a bound on
// a reply's headers. It does not read that variable: a program that changed it must not change what carries money, and Clone
// would write to it.
func newBase(connect time.Duration) *http.Transport {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          100,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		// A tenth of net/http's own limit: ten MiB of short fields take more than a hundred in memory.
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	limitConnect(t, connect)
	return t
}

// dialsWithoutContext reports whether a Transport dials by its deprecated fields, which nothing can bound.
func dialsWithoutContext(t *http.Transport) bool {
	//lint:ignore SA1019 they are looked for in order to refuse them
	return t.DialContext == nil && t.Dial != nil || t.DialTLSContext == nil && t.DialTLS != nil
}

// limitConnect bounds dial and TLS handshake of a Transport that is ours, and reads a proxy's refusals. 0 is no limit.
func limitConnect(t *http.Transport, connect time.Duration) {
	t.DialContext = limitDial(t.DialContext, connect)
	if t.DialTLSContext != nil {
		t.DialTLSContext = limitDial(t.DialTLSContext, saturated(2, connect))
	}
	t.TLSHandshakeTimeout = connect
	before := t.OnProxyConnectResponse
	t.OnProxyConnectResponse = func(ctx context.Context, proxy *url.URL, req *http.Request, resp *http.Response) error {
		if resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusProxyAuthRequired {
			return &proxyRefusal{status: resp.StatusCode}
		}
		if before != nil {
			return before(ctx, proxy, req, resp)
		}
		return nil
	}
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

func limitDial(dial dialFunc, limit time.Duration) dialFunc {
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	if limit == 0 {
		return dial
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return dial(ctx, network, addr)
	}
}

// timedOut reports whether an error calls itself a timeout.
func timedOut(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
