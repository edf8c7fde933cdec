package outbound

import (
	"errors"
	"maps"
	"net/http"
	"sync/atomic"
	"time"
)

// Config configures a Transport. The zero value is valid: a 2 s connect timeout, 10 s for an attempt, 30 s in all, 4 attempts
// with full jitter, a circuit per target, and an Idempotency-Key on each POST and PATCH.
//
// Zero means the documented default, a negative duration means off, a negative count is refused, unless a field says
// otherwise. What is left unset adapts to what is set: TotalTimeout alone, at 5 s, is valid. A Config is copied by New.
type Config struct {
	// Base sends the attempts. Default: an http.Transport of our own with the settings that http.DefaultTransport starts
	// with, plus ConnectTimeout, at most 1 MiB of reply headers, and an ear for a proxy's 403 and 407. A given Base is used
	// as it is. The proof of OutcomeNotSent holds for an *http.Transport and for what passes its requests on to one; a Base
	// that fires no httptrace events proves nothing, and one with several ways to send must not hide one from httptrace. It
	// must be safe for concurrent use.
	Base http.RoundTripper
	// ConnectTimeout bounds the dial, name look-up included, and again the TLS handshake. Waiting for a free connection of a
	// full pool is not in it. Default: 2 s. Negative: off. Set together with a Base: that is cloned (its pool and its registered
	// protocols stay behind), and refused where it is no *http.Transport, or dials by its deprecated Dial or DialTLS.
	ConnectTimeout time.Duration
	// AttemptTimeout bounds one attempt until its reply is in: the headers, and the body where it is read inside the
	// attempt, so that a reply lost half-way is retried like any lost reply. That is a reply to a write with a key and a
	// body that can be sent again, of at most 1 MiB or, where its length is not known, up to 1 MiB of JSON, XML, form or
	// text. Default: 10 s. Negative: off; then a circuit's probe may take as long as the total.
	AttemptTimeout time.Duration
	// TotalTimeout bounds the whole action: attempts, waits, redirects, and reading the reply. A streamed reply is bound by it
	// only until its headers are in. Default: three AttemptTimeouts. Negative: off.
	TotalTimeout time.Duration
	// IdleTimeout is a streamed reply's longest silence while somebody reads. Streamed are successes of type
	// text/event-stream or application/x-ndjson, and those that Override.Streaming says. Default: 60 s. Negative: off.
	IdleTimeout time.Duration
	// Target names what circuits, budgets and bulkheads are kept per. Default: scheme://host:port, in lower case. It runs
	// on the caller's goroutine and must be safe for concurrent use.
	Target func(*http.Request) string
	// Retry says how often and how fast to try again.
	Retry RetryPolicy
	// Breaker says when to stop asking a target.
	Breaker BreakerPolicy
	// Bulkhead bounds the calls in flight to a target. Default: no limit.
	Bulkhead BulkheadPolicy
	// Provider says what this API does with idempotency keys.
	Provider Provider
	// Hooks are told what happens.
	Hooks Hooks
}

// Transport is the chain: an [http.RoundTripper] to put under any *http.Client. Make it with [New], one per API, and keep it:
// it holds the connections and the circuits. Safe for concurrent use.
type Transport struct {
	base       http.RoundTripper
	direct     bool // Base is an *http.Transport
	plainHTTP2 bool // and a connection of it without TLS speaks HTTP/2
	timeouts   timeouts
	retry      RetryPolicy
	breaker    BreakerPolicy
	provider   Provider
	keyRoutes  []keyRoute
	ownKeys    error // why the API would not take a key made here
	hooks      Hooks
	target     func(*http.Request) string
	budget     *budgetRate
	bulkhead   BulkheadPolicy
	targets    *registry
	chain      loop
	spare      atomic.Pointer[call] // a refused call that the next one can be
}

var _ http.RoundTripper = (*Transport)(nil)

// New returns a Transport. It assumes that the API honours the key header; one that ignores it needs Provider.NoKeys. A
// contradictory Config is refused with every fault named in one error (see errors.Join).
func New(cfg Config) (*Transport, error) {
	if faults := cfg.faults(); len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	limits := adapt(cfg)
	t := &Transport{
		base:     baseOf(cfg, limits.connect),
		timeouts: limits,
		retry:    cfg.Retry.withDefaults(),
		breaker:  cfg.Breaker.withDefaults(limits.window),
		provider: cfg.Provider.withDefaults(),
		bulkhead: cfg.Bulkhead,
		hooks:    cfg.Hooks,
		target:   cfg.Target,
	}
	t.budget = t.retry.Budget.rate()
	t.direct, t.plainHTTP2 = traits(t.base)
	t.keyRoutes, _ = newKeyRoutes(t.provider.KeyRoutes)
	t.ownKeys = t.provider.refusesOwnKeys()
	t.targets = newRegistry(t.breaker.MaxCircuits, t.newTarget)
	t.chain =
		bulkhead( // at most so many calls in flight per target
			retry( // the loop: replay the body, judge, wait, budget
				guard( // one circuit per target
					sendTo( // timers, send proof, reply
						t.base))))
	return t, nil
}

// NewClient returns an *http.Client over a new Transport, with the client's own Timeout left at zero: on top of a RoundTripper
// it costs a goroutine a call and swallows our errors. Like New, it assumes that the API honours the key header.
func NewClient(cfg Config) (*http.Client, error) {
	t, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: t}, nil
}

// RoundTrip sends the request as one action, or as one more hop of the action that a redirect goes on with. It returns a
// response of any status, or an *Error, never both. The request is not changed; its body is closed. [ReportOf] and
// [OutcomeOf] tell how the action ended.
//
// Leave http.Client.Timeout at zero, and close every response body: until then a reply holds its connection.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	above := callFrom(req.Context())
	if above != nil && !above.inBase.Load() {
		above = nil // the context of a call that is over, or of a hook
	}
	if above != nil && above.covers(req) {
		return t.passThrough(req)
	}
	now := time.Now()
	c := newCall(t, req, above, now)
	defer c.cleanUp()
	if err := c.open(now); err != nil {
		return nil, c.fail(err)
	}
	return t.chain(c)
}

// cleanUp closes the caller's body where no transport does, and after a panic of a function of the user's gives back what the
// call holds. The panic goes on.
func (c *call) cleanUp() {
	if c.req.Body != nil && (!c.bodyGiven || c.action != nil) {
		_ = c.req.Body.Close()
	}
	if c.returned {
		if c.failure != nil && c.header == nil && c.initial.circuit == nil {
			c.spareCall()
		}
		return
	}
	if c.current != nil {
		c.current.abandon(c.inBase.Swap(false))
	}
	c.unreserve()
	c.leave()
}

// abandon gives back what the attempt holds when a panic passes through.
func (a *attempt) abandon(inBase bool) {
	defer a.release()
	if a.body != nil && (inBase || a.fresh && a.timer == nil) {
		_ = a.body.Close()
	}
	if a.rest != nil {
		_ = a.rest.Close()
	}
}

// CloseIdleConnections closes the connections that Base keeps and nobody uses, where Base can.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Circuits is a snapshot of all targets, by name, for health pages. It moves no circuit.
func (t *Transport) Circuits() []Circuit { return t.targets.snapshot() }

func (t *Transport) targetOf(req *http.Request, now time.Time) *target {
	if t.target != nil {
		return t.targets.named(t.target(req), now)
	}
	return t.targets.forURL(req.URL, now)
}

func (t *Transport) newTarget(name string) *target {
	n := &target{circuit: circuit{target: name}}
	n.budget.init(t.budget, time.Now())
	if !t.breaker.Disabled {
		n.circuit.init(&t.breaker, t.hooks.Circuit)
	}
	if t.bulkhead.MaxInFlight > 0 {
		n.slots = make(chan struct{}, t.bulkhead.MaxInFlight)
	}
	return n
}

// covers reports whether this request is the one that a chain above is just sending: then the retries, the key, the deadline
// and the judging are that chain's, and 4 times 4 attempts do not become 16.
func (c *call) covers(req *http.Request) bool {
	if methodOf(req) != c.method || req.URL == nil || req.URL.String() != c.req.URL.String() {
		return false
	}
	_, wire, _, err := headerKey(req.Header, &c.t.provider)
	return !c.write || err == nil && wire == c.wire
}

// passThrough makes the one attempt of a chain above.
func (t *Transport) passThrough(req *http.Request) (*http.Response, error) {
	if t.direct && isWrite(methodOf(req)) && replayableByNetHTTP(req.Header) {
		own := req.WithContext(req.Context())
		own.Header = maps.Clone(req.Header)
		hideFromNetHTTP(own.Header)
		req = own
	}
	return t.base.RoundTrip(req)
}

func baseOf(cfg Config, connect time.Duration) http.RoundTripper {
	if cfg.Base == nil {
		return newBase(connect)
	}
	if given, ok := cfg.Base.(*http.Transport); ok && cfg.ConnectTimeout > 0 {
		clone := given.Clone()
		if _, ok := given.TLSNextProto["h2"]; ok {
			clone.ForceAttemptHTTP2 = true // else the dialer that is set here would turn HTTP/2 off
		}
		limitConnect(clone, connect)
		return clone
	}
	return cfg.Base
}

// traits are what has to be known of Base to keep net/http from sending a write twice.
func traits(base http.RoundTripper) (direct, plainHTTP2 bool) {
	t, direct := base.(*http.Transport)
	return direct, direct && t.Protocols != nil && t.Protocols.UnencryptedHTTP2() && !t.Protocols.HTTP1()
}
