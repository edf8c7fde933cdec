package wire

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
)

// protocol is how client and server speak.
type protocol string

const (
	http1    protocol = "HTTP1"
	http2TLS protocol = "HTTP2"
	http2H2C protocol = "h2c"
)

// server is what both harnesses have in common.
type server interface {
	url() string
	on(path string) []seen
	settle(t testing.TB, dialed int)
	cut(client net.Addr, reset bool)
	cutAll(reset bool)
}

// rig is one server and one *http.Transport that knows how to speak to it.
type rig struct {
	server
	one    *http1Server // for scripts; nil over HTTP/2
	two    *http2Server // for scripts; nil over HTTP/1
	base   *http.Transport
	dialed atomic.Int32
	refuse atomic.Int32 // how many of the next dials are refused
	paths  int
	tap    tap
	late   bool // a second connection of an attempt over HTTP/1 is a late one, see tapped
}

func newRig(t testing.TB, p protocol) *rig {
	t.Helper()
	r := &rig{base: &http.Transport{}}
	r.base.DialContext = r.dial
	switch p {
	case http1:
		r.one = newHTTP1Server(t)
		r.server = r.one
	case http2TLS:
		r.two = newHTTP2Server(t, true)
		r.server = r.two
		r.base.ForceAttemptHTTP2 = true
		r.base.TLSClientConfig = &tls.Config{
			RootCAs:            r.two.roots,
			CurvePreferences:   []tls.CurveID{tls.X25519}, // the cheapest, as are resumed sessions
			ClientSessionCache: tls.NewLRUClientSessionCache(1),
		}
	case http2H2C:
		r.two = newHTTP2Server(t, false)
		r.server = r.two
		r.base.Protocols = new(http.Protocols)
		r.base.Protocols.SetUnencryptedHTTP2(true)
	}
	t.Cleanup(r.base.CloseIdleConnections)
	return r
}

func (r *rig) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if r.refuse.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	gone, end := context.WithCancel(context.Background())
	return &tapped{Conn: conn, tap: &r.tap, number: r.dialed.Add(1), wrote: make(chan struct{}, 1), gone: gone, end: end}, nil
}

// path is a path that no request had before.
func (r *rig) path() string {
	r.paths++
	return fmt.Sprintf("/pay/%d.", r.paths)
}

// rest waits until the server has read all that was written. Over HTTP/1 no connection is left then.
func (r *rig) rest(t testing.TB) {
	t.Helper()
	if r.one != nil {
		r.base.CloseIdleConnections()
	}
	r.settle(t, int(r.dialed.Load()))
}

// prime leaves kept connections behind: two over HTTP/1, one over HTTP/2.
func (r *rig) prime(t testing.TB) {
	t.Helper()
	first := r.get(t)
	if r.one != nil {
		drain(t, r.get(t))
	}
	drain(t, first)
	r.tap.clear()
}

func (r *rig) get(t testing.TB) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.url()+"/prime", nil)
	require.NoError(t, err)
	resp, err := r.base.RoundTrip(req)
	require.NoError(t, err)
	return resp
}

func drain(t testing.TB, resp *http.Response) {
	t.Helper()
	_, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

// tap is what the client wrote, read or not: over TLS it is no use.
type tap struct {
	mu     sync.Mutex
	text   strings.Builder
	before func(net.Conn) // called before each write; may be nil
}

func (t *tap) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Reset()
}

// count is how often the text was written.
func (t *tap) count(text string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Count(t.text.String(), text)
}

func (t *tap) setBefore(f func(net.Conn)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before = f
}

func (t *tap) hook() func(net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.before
}

type tapped struct {
	net.Conn
	tap    *tap
	number int32 // counted from 1, in the order dialed
	late   atomic.Bool
	wrote  chan struct{}
	gone   context.Context // ends when the client closes the connection
	end    context.CancelFunc
}

// Close of a late connection comes only after its next write. net/http writes a request on a goroutine of its own, so
// whether a cancelled one still gets out is up to the scheduler: this is the schedule in which it does.
func (c *tapped) Close() error {
	if c.late.Load() && c.gone.Err() == nil {
		select {
		case <-c.wrote:
		case <-time.After(soon):
		}
	}
	c.end()
	return c.Conn.Close()
}

// setLate makes what is written next on a connection get out before the connection can be closed.
func setLate(conn net.Conn) {
	c := conn.(*tapped)
	select {
	case <-c.wrote: // of the request before
	default:
	}
	c.late.Store(true)
}

// numberOf is the number of a connection that net/http was given.
func numberOf(conn net.Conn) int32 {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return conn.(*tapped).number
}

func (c *tapped) Write(p []byte) (int, error) {
	if before := c.tap.hook(); before != nil {
		before(c.Conn)
	}
	n, err := c.Conn.Write(p)
	select {
	case c.wrote <- struct{}{}:
	default:
	}
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	c.tap.text.Write(p[:min(n, 1<<10)]) // the head
	return n, err
}

// wrapper is a RoundTripper around another, as otelhttp or oauth2 are: it clones, adds a header, and passes on.
type wrapper struct{ next http.RoundTripper }

func (w wrapper) RoundTrip(req *http.Request) (*http.Response, error) {
	own := req.Clone(req.Context())
	own.Header.Set("Authorization", "Bearer token")
	return w.next.RoundTrip(own)
}

// The kinds of Base.
const (
	direct  = "direct"
	wrapped = "wrapped"
	nested  = "nested"
)

var bases = []string{direct, wrapped, nested}

// fast is a Config that waits next to nothing.
func fast(maxAttempts int, p outbound.Provider) outbound.Config {
	return outbound.Config{
		Retry: outbound.RetryPolicy{
			MaxAttempts: maxAttempts,
			Backoff:     outbound.FullJitter{Base: time.Millisecond, Cap: 2 * time.Millisecond},
		},
		Breaker:  outbound.BreakerPolicy{Disabled: true},
		Provider: p,
	}
}

// over is an outbound.Transport over the rig's *http.Transport, with that kind of Base.
func (r *rig) over(t testing.TB, kind string, cfg outbound.Config) *outbound.Transport {
	t.Helper()
	switch kind {
	case direct:
		cfg.Base = r.base
	case wrapped:
		cfg.Base = wrapper{r.base}
	case nested:
		inner := cfg
		inner.Base = r.base
		cfg.Base = newTransport(t, inner)
	}
	return newTransport(t, cfg)
}

func newTransport(t testing.TB, cfg outbound.Config) *outbound.Transport {
	t.Helper()
	tr, err := outbound.New(cfg)
	require.NoError(t, err)
	return tr
}

// The kinds of body.
const (
	replayable = "body"
	none       = "empty"
	once       = "once"  // no GetBody
	large      = "large" // more than the kernel takes at once
)

var bodies = []string{replayable, none, once}

const payment = `{"amount":1200,"currency":"EUR"}`

func newRequest(t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	switch body {
	case none:
	case large:
		r = strings.NewReader(strings.Repeat("x", 4<<20))
	default:
		r = strings.NewReader(payment)
	}
	req, err := http.NewRequest(method, url, r)
	require.NoError(t, err)
	if body == once {
		req.GetBody = nil
	}
	return req
}

// keys is where the key comes from.
type keys struct {
	name     string
	provider outbound.Provider
	set      func(*http.Request) // the caller's doing
	value    string              // what the caller chose; empty for a generated one
	always   bool                // the caller's key is sent whatever the method
	foreign  bool                // the caller's header is none of the provider's, and is sent as any other
	action   bool
}

const chosen = "order-4711"

func spelled(name string) func(*http.Request) {
	return func(req *http.Request) { req.Header[name] = []string{chosen} }
}

var keyKinds = []keys{
	{name: "generated"},
	{name: "callers", set: spelled("idempotency-KEY"), value: chosen, always: true},
	{
		name: "callersX", provider: outbound.Provider{KeyHeader: "X-Idempotency-Key"},
		set: spelled("X-Idempotency-Key"), value: chosen, always: true,
	},
	{name: "foreignX", set: spelled("X-Idempotency-Key"), foreign: true},
	{name: "noKeys", provider: outbound.Provider{NoKeys: true}, set: spelled("Idempotency-Key")},
	{name: "noKeysForeignX", provider: outbound.Provider{NoKeys: true}, set: spelled("X-Idempotency-Key"), foreign: true},
	{name: "action", action: true},
}

func (k *keys) header() string {
	if k.provider.KeyHeader != "" {
		return k.provider.KeyHeader
	}
	return "Idempotency-Key"
}

// write is one call to be made: a method, a body, a key and a Base.
type write struct {
	method, body, base string
	keys               keys
}

var writeMethods = []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}

// writes are all combinations.
func writes() []write {
	var all []write
	for _, base := range bases {
		for _, method := range writeMethods {
			for _, k := range keyKinds {
				for _, body := range bodies {
					all = append(all, write{method: method, body: body, base: base, keys: k})
				}
			}
		}
	}
	return all
}

var everything = flag.Bool("wire.all", false, "run every combination with every fault, which takes minutes")

// every is the share of the combinations that a fault meets by default, by protocol. The numbers have no divisor in common
// with those of methods, bodies, keys and bases, and are at most the number of faults: each combination meets some.
var every = map[protocol]int{http1: 5, http2H2C: 11, http2TLS: 19}

// share is the part of all combinations that the fault with this number meets.
func share(number, every int) []write {
	if *everything {
		every = 1
	}
	var part []write
	for i, w := range writes() {
		if (i+number)%every == 0 {
			part = append(part, w)
		}
	}
	return part
}

func (w write) String() string {
	return strings.Join([]string{w.base, w.method, w.keys.name, w.body}, "/")
}

// keyed: the request carries a key that the API honours.
func (w write) keyed() bool {
	return !w.keys.provider.NoKeys && (w.method == http.MethodPost || w.method == http.MethodPatch)
}

// sendsKey: a key goes out, whether it counts or not.
func (w write) sendsKey() bool { return w.keyed() || w.keys.always }

// visible: below its Base net/http may see a header that makes it send again over HTTP/1. Then a safe replay cannot be told
// from another, and may be cut off.
func (w write) visible() bool { return w.base != direct && (w.sendsKey() || w.keys.foreign) }

// repeatable: it may be sent again after it may have been sent.
func (w write) repeatable() bool {
	return (w.keyed() || w.method == http.MethodPut || w.method == http.MethodDelete) && w.body != once
}

// refused: nothing of it is sent at all.
func (w write) refused() bool { return w.keys.action && w.body == once }

// call is a write that was made, and what came of it.
type call struct {
	write
	path   string
	status int
	err    error // of RoundTrip
	cut    error // of reading the reply
	report outbound.Report
	wire   []seen
	conns  []httptrace.GotConnInfo
}

// make sends the write as one RoundTrip, waits until all is read, and looks at the wire. gotConn may be nil.
func (r *rig) make(t testing.TB, w write, path string, maxAttempts int, gotConn func(httptrace.GotConnInfo)) call {
	t.Helper()
	return r.makeWith(t, w, path, fast(maxAttempts, w.keys.provider), gotConn)
}

func (r *rig) makeWith(t testing.TB, w write, path string, cfg outbound.Config, gotConn func(httptrace.GotConnInfo)) call {
	t.Helper()
	var mu sync.Mutex
	given := 0 // connections, to the attempt that runs
	cfg.Hooks.Attempt = func(context.Context, outbound.Attempt) {
		mu.Lock()
		defer mu.Unlock()
		given = 0
	}
	tr := r.over(t, w.base, cfg)
	req := newRequest(t, w.method, r.url()+path, w.body)
	if w.keys.set != nil {
		w.keys.set(req)
	}
	ctx := context.Background()
	if w.keys.action {
		ctx = outbound.WithAction(ctx, outbound.NewAction())
	}
	c := &call{write: w, path: path}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		mu.Lock()
		c.conns = append(c.conns, i)
		given++
		if given > 1 && r.late {
			setLate(i.Conn)
		}
		mu.Unlock()
		if gotConn != nil {
			gotConn(i)
		}
	}})
	c.send(t, tr, req.WithContext(ctx))
	r.rest(t)
	c.wire = r.on(path)
	return *c
}

// send makes the RoundTrip and reads the reply.
func (c *call) send(t testing.TB, tr http.RoundTripper, req *http.Request) {
	t.Helper()
	resp, err := tr.RoundTrip(req)
	c.err = err
	if err == nil {
		c.status = resp.StatusCode
		_, c.cut = io.Copy(io.Discard, resp.Body)
		assert.NoError(t, resp.Body.Close())
	}
	var ok bool
	c.report, ok = outbound.ReportOf(resp, err)
	require.True(t, ok)
}

// attempts tells them in a line, for messages.
func (c *call) attempts() string {
	var b strings.Builder
	for _, a := range c.report.Attempts {
		fmt.Fprintf(&b, "\n  attempt %d: conns %d, reused %v, status %d, %v, err %v", a.Number, a.Conns, a.Reused, a.Status, a.Outcome, a.Err)
	}
	for i, s := range c.wire {
		fmt.Fprintf(&b, "\n  wire %d: connection %d, request %d on it, ended %v, %q", i+1, s.conn, s.nth, s.ended, s.line)
	}
	return b.String()
}

// checkRequests checks each request that the wire saw: its method, its one key, its spelling, its whole body.
func (c *call) checkRequests(t testing.TB, overHTTP1 bool) {
	t.Helper()
	for i, s := range c.wire {
		assert.Equal(t, c.method, s.method)
		c.checkKey(t, &s, overHTTP1)
		if want := c.wantBody(); s.ended {
			assert.Equal(t, want, s.body, "request %d", i+1)
		} else {
			assert.True(t, strings.HasPrefix(want, s.body), "request %d has the body %q", i+1, s.body)
		}
	}
}

func (c *call) wantBody() string {
	if c.body == none {
		return ""
	}
	return payment
}

func (c *call) checkKey(t testing.TB, s *seen, overHTTP1 bool) {
	t.Helper()
	name := c.keys.header()
	lines := s.named(name)
	if !c.sendsKey() {
		assert.Empty(t, lines)
		assert.Empty(t, c.report.IdempotencyKey)
		return
	}
	if !assert.Len(t, lines, 1, "the key's header lines") {
		return
	}
	assert.Equal(t, c.report.IdempotencyKey, lines[0].value)
	assert.NotEmpty(t, lines[0].value)
	if c.keys.value != "" {
		assert.Equal(t, c.keys.value, lines[0].value)
	}
	if !overHTTP1 || c.base != wrapped {
		assert.Equal(t, strings.ToLower(name), lines[0].name)
	}
}

// checkConns checks that the report's connections are those that were given, and say truly whether they were kept ones.
func (c *call) checkConns(t testing.TB) {
	t.Helper()
	next := 0
	for _, a := range c.report.Attempts {
		if !assert.LessOrEqual(t, next+a.Conns, len(c.conns), "more connections were reported than given") {
			return
		}
		next += a.Conns
		if a.Conns > 0 {
			assert.Equal(t, c.conns[next-1].Reused, a.Reused, "attempt %d", a.Number)
		}
	}
	assert.Len(t, c.conns, next, "connections given")
}

// checkReused checks Reused against the server's own view, where each attempt is one request on the wire. A connection that
// was given to an attempt and not used counts as kept for the next one, so what follows such an attempt is not compared.
func (c *call) checkReused(t testing.TB) {
	t.Helper()
	for i, s := range c.wire {
		a := c.report.Attempts[i]
		if a.Conns > 1 {
			return
		}
		assert.Equal(t, s.nth > 1, a.Reused, "attempt %d", a.Number)
	}
}
