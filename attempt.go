package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// attempt is one request handed to Base, from its first timer to the last byte of its reply. It has one context and one
// timer, and both go through its phases with it.
type attempt struct {
	call   *call
	number int
	wait   time.Duration
	body   io.ReadCloser // what this attempt sends; nil for none
	fresh  bool          // body came from GetBody, so it is ours to close where it was not sent
	start  time.Time

	sent     http.Request // in the attempt, which saves an allocation: both live as long as Base holds it
	ctx      context.Context
	cancel   context.CancelCauseFunc
	timer    *time.Timer
	phase    atomic.Uint32
	byTotal  bool // in phaseSending the timer means the action's limit, not the attempt's
	released atomic.Bool
	handed   atomic.Bool // its reply is the caller's, and the call ends with it

	admission
	proof

	// What came of it.
	resp        *http.Response
	err         error
	callerEnded bool // err is the doing of the caller's context
	elapsed     time.Duration
	evidence    evidence
	hint        time.Duration

	reply
}

// The phases of an attempt, each with its own meaning of the timer.
const (
	phaseSending  uint32 = iota // until the reply is in: the attempt timeout, or what is left of the total
	phaseReading                // the caller reads and the circuit waits for its verdict: the rest of the attempt timeout
	phaseTotal                  // the caller reads: the rest of the total timeout
	phaseIdle                   // the caller reads a stream: the idle timeout, armed inside Read only
	phaseDraining               // a reply that is thrown away
)

// launch starts the attempt's context and timer.
func (a *attempt) launch() {
	c := a.call
	a.ctx, a.cancel = context.WithCancelCause(c.ctx)
	left := unlimited
	if c.limits.attempt > 0 {
		left = c.limits.attempt
	}
	if total := c.untilDeadline(a.start); total <= left {
		left, a.byTotal = total, true
	}
	a.timer = time.AfterFunc(left, a.expire)
}

// limit is what ends the attempt while its reply is not in.
func (a *attempt) limit() error {
	if a.byTotal {
		return ErrTotalTimeout
	}
	return ErrAttemptTimeout
}

// expire is the timer's function. It runs on a goroutine of its own, so it calls nothing of the user's.
func (a *attempt) expire() {
	switch a.phase.Load() {
	case phaseSending:
		a.cancel(a.limit())
	case phaseReading:
		a.book(healthy)
		a.phase.Store(phaseTotal)
		a.arm(a.call.untilDeadline(time.Now()))
	case phaseTotal:
		a.book(a.health())
		a.cancel(ErrTotalTimeout)
		a.release()
	case phaseIdle:
		a.cancel(ErrIdleTimeout)
	case phaseDraining:
		a.cancel(errDrained)
	}
}

// arm sets the timer, unless all was released meanwhile.
func (a *attempt) arm(d time.Duration) {
	a.timer.Reset(d)
	if a.released.Load() {
		a.timer.Stop()
	}
}

// release ends timer and context and gives the circuit's place back. Only the first call acts.
func (a *attempt) release() {
	if a.released.CompareAndSwap(false, true) {
		if a.timer != nil {
			a.timer.Stop()
			a.cancel(nil)
		}
		a.book(neutral)
		if a.handed.Load() {
			a.call.leave()
		}
	}
}

// sendTo is the innermost layer: one request to Base, and what came of it.
func sendTo(base http.RoundTripper) layer {
	return func(a *attempt) {
		c := a.call
		c.bodyGiven = true
		c.spent, c.reserved = c.reserved, false
		if c.header == nil {
			c.prepare()
		}
		a.launch()
		c.inBase.Store(true)
		resp, err := base.RoundTrip(a.request())
		c.inBase.Store(false)
		a.receive(resp, err)
	}
}

// request is the attempt's own copy. It shares the header map with the other attempts of the call: a RoundTripper only
// reads it.
func (a *attempt) request() *http.Request {
	c := a.call
	a.watch()
	r := &a.sent
	*r = *c.req.WithContext(httptrace.WithClientTrace(a.ctx, &a.trace))
	r.Header = c.header
	r.Body = a.body
	if !c.t.direct && (c.keyed || replayableByNetHTTP(c.header)) {
		r.GetBody = nil // else a Transport below would send the write again by itself
	}
	return r
}

// receive takes what Base returned, reads what is to be read inside the attempt, and judges it.
func (a *attempt) receive(resp *http.Response, err error) {
	a.resp, a.err = resp, err
	if resp != nil && err != nil {
		closeBody(resp)
		a.resp = nil
	}
	if resp == nil && err == nil {
		a.err = errNoReply
	}
	if a.resp != nil {
		a.resp.Request = &a.sent // Judge may look, and not every Base says it, or says another
		a.readReply()
	}
	if a.err != nil {
		a.fail()
	}
	a.elapsed = time.Since(a.start)
	a.gather()
}

// fail says whose doing the error is: a limit of ours, the caller, or the network.
func (a *attempt) fail() {
	a.timer.Stop()
	a.evidence.failed = true
	a.err, a.callerEnded = a.explain(a.err)
	a.cancel(nil)
}

// explain names the limit behind an error, or says that the caller's context ended.
func (a *attempt) explain(err error) (explained error, callerEnded bool) {
	if limit := a.ownLimit(); limit != nil {
		return limit.causedBy(err), false
	}
	if a.call.callerCause() != nil {
		return &foreign{err}, true
	}
	if a.unsent() && timedOut(err) {
		return ErrConnectTimeout.(*reason).causedBy(err), false
	}
	return &foreign{err}, false
}

// ownLimit is the limit of ours that ended the attempt's context; nil where none did. A chain above us may have ended the
// caller's context with a reason of the same kind.
func (a *attempt) ownLimit() *reason {
	limit, ok := context.Cause(a.ctx).(*reason)
	if !ok || a.call.ctx.Err() != nil && context.Cause(a.call.ctx) == error(limit) {
		return nil
	}
	return limit
}

// gather is the evidence, with the provider's verdict on it.
func (a *attempt) gather() {
	c, e := a.call, &a.evidence
	e.write, e.keyed, e.repeatable = c.write, c.keyed, c.repeatable
	if e.failed {
		e.maybeSent = !a.unsent()
		e.hopeless = a.callerEnded || hopeless(a.err)
		return
	}
	e.status = a.resp.StatusCode
	e.replayed = c.keyed && replayed(a.resp.Header, c.t.provider.ReplayHeader)
	e.broken = a.broken()
	e.upgraded = e.status == http.StatusSwitchingProtocols && c.req.Header.Get("Upgrade") != ""
	e.verdict = a.judge()
	if e.plainSuccess() {
		return
	}
	e.advice = adviceOf(a.resp.Header)
	a.hint, _ = retryHint(a.resp.Header, a.start.Add(a.elapsed))
	a.hint = max(a.hint, e.verdict.MinWait)
}

// health is what the attempt says of its target.
func (a *attempt) health() health {
	slow := a.call.t.breaker.SlowCall
	switch e := &a.evidence; {
	case a.callerEnded:
		return neutral
	case e.failed, e.broken:
		return failing
	case e.replayed, e.status == http.StatusConflict, e.status == http.StatusTooManyRequests:
		return neutral
	case e.status >= 500 && e.status != http.StatusNotImplemented && e.status != http.StatusHTTPVersionNotSupported:
		return failing
	case slow > 0 && a.elapsed > slow:
		return failing
	default:
		return healthy
	}
}

// settle gives the circuit its verdict now, and tells the hook what that changed.
func (a *attempt) settle() {
	a.book(a.health())
	a.tell()
}

// stale reports whether the attempt most likely met a kept connection that the server had just closed.
func (a *attempt) stale() bool {
	if !a.evidence.failed || !a.reused.Load() {
		return false
	}
	var own *reason
	if errors.As(a.err, &own) {
		return false
	}
	return errors.Is(a.err, io.EOF) || errors.Is(a.err, syscall.ECONNRESET) || errors.Is(a.err, syscall.EPIPE) || closedIdle(a.err)
}

// closedIdle recognises what net/http says of a kept connection whose end it noticed just before it wrote to it. There is no
// value to compare with, only a text; it decides about a wait and nothing else.
func closedIdle(err error) bool {
	var base *foreign
	return errors.As(err, &base) && base.err.Error() == "http: server closed idle connection"
}

// hopeless reports whether no retry heals the error.
func hopeless(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		record       tls.RecordHeaderError
		ech          *tls.ECHRejectionError
		dns          *net.DNSError
		refusal      *proxyRefusal
	)
	if errors.As(err, &dns) {
		return dns.IsNotFound && !dns.IsTemporary && !dns.IsTimeout
	}
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) ||
		errors.As(err, &invalid) || errors.As(err, &record) || errors.As(err, &ech) || errors.As(err, &refusal)
}

// proof is what httptrace showed of the connections: whether anything can have been sent.
type proof struct {
	trace  httptrace.ClientTrace
	sought atomic.Bool
	conns  atomic.Int32
	reused atomic.Bool

	mu       sync.Mutex // guards what follows
	wrote    protocol   // what was written to the last connection
	ours     bool       // and the key was among it, or method and path over HTTP/2
	method   bool       // our method was
	trigger  bool       // a name was that makes net/http send a write again over HTTP/1
	target   string     // where the last GetConn went
	given    []string   // where connections were given that were not answered
	answered bool       // a reply has begun since the last connection was given
	places   [2]string

	informational atomic.Int32
}

const maxInformational = 100

// protocol is what the header fields that are written to a connection tell of it.
type protocol uint8

const (
	wroteNothing protocol = iota
	wroteHTTP1
	wroteHTTP2 // a field's name began with a colon
)

// unsent is the proof: a connection was sought, and none was given. A Base that fires no trace proves nothing.
func (p *proof) unsent() bool { return p.sought.Load() && p.conns.Load() == 0 }

// written takes what was written to the last connection, as far as it was the write itself: a Base of somebody else's may
// make requests of its own under the attempt, a token refresh say. A write that a header names is known by that key or, over
// HTTP/2, by its method and path. Of one without, a request to the same place counts that was not answered.
func (p *proof) written(named bool) (wrote protocol, trigger, ours bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ours = p.again()
	if named {
		ours = p.ours
	}
	wrote, trigger = p.wrote, p.trigger
	p.wrote, p.trigger, p.ours, p.method = wroteNothing, false, false, false
	return wrote, trigger, ours
}

// again notes a connection, and reports whether the same place was given one before that was not answered.
func (p *proof) again() bool {
	if p.given == nil || p.answered {
		p.given, p.answered = p.places[:0], false
	}
	again := slices.Contains(p.given, p.target)
	p.given = append(p.given, p.target)
	return again
}

func (p *proof) setAnswered(answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered = answered
}

// watch sets the trace: what proves that nothing was sent, and, below a Base of somebody else's, what a write was.
func (a *attempt) watch() {
	c := a.call
	a.trace.GetConn, a.trace.GotConn = a.getConn, a.gotConn
	if !c.write || c.t.direct {
		return
	}
	a.trace.WroteHeaderField = a.noteWritten
	if c.wire == "" {
		a.trace.GotFirstResponseByte = func() { a.setAnswered(true) }
		a.trace.Got1xxResponse = func(int, textproto.MIMEHeader) error { return a.informed() }
	}
}

func (a *attempt) noteWritten(name string, values []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case strings.HasPrefix(name, ":"):
		a.wrote = wroteHTTP2
	case a.wrote == wroteNothing:
		a.wrote = wroteHTTP1
	}
	_, trigger := replayNames[name]
	a.trigger = a.trigger || trigger
	a.ours = a.ours || a.isOurs(name, values)
}

// isOurs recognises the write by its key, under whatever name a Base sends it, or over HTTP/2 by its method and path.
func (a *attempt) isOurs(name string, values []string) bool {
	switch c := a.call; name {
	case ":method":
		a.method = slices.Contains(values, c.method)
		return false
	case ":path":
		return a.method && slices.Contains(values, c.req.URL.RequestURI())
	default:
		return c.wire != "" && slices.Contains(values, c.wire)
	}
}

// informed notes an informational answer. Where a trace is told of them, net/http stops counting them itself.
func (a *attempt) informed() error {
	a.setAnswered(false)
	if a.informational.Add(1) > maxInformational {
		return errInformational
	}
	return nil
}

func (a *attempt) getConn(hostPort string) {
	a.sought.Store(true)
	if a.call.write {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.target = hostPort
	}
}

func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	a.conns.Add(1)
	a.reused.Store(info.Reused)
	if !a.call.write {
		return
	}
	if wrote, trigger, ours := a.written(a.call.wire != "" && !a.call.t.direct); ours {
		a.preventResend(info.Conn, wrote, trigger)
	}
}

// preventResend ends the attempt of a write where a second connection means that net/http sends it again, before that
// connection is written to. HTTP/2 looks at the context first. HTTP/1 does not, so its connection, which nobody else uses, is
// closed. Directly above a Transport, HTTP/1 takes a second connection only when nothing was written to the first: it does not
// see the key. Below a Base of somebody else's, what was written tells.
func (a *attempt) preventResend(conn net.Conn, wrote protocol, trigger bool) {
	c := a.call
	switch {
	case c.t.direct && (c.t.plainHTTP2 || speaksHTTP2(conn)), wrote == wroteHTTP2:
		a.cancel(errResend)
	case wrote == wroteHTTP1 && trigger:
		a.cancel(errResend)
		if conn != nil {
			_ = conn.Close()
		}
	}
}

func speaksHTTP2(conn net.Conn) bool {
	secure, ok := conn.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol == "h2"
}
