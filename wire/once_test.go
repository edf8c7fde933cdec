package wire

import (
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/net/http2"

	"github.com/outbound-go/outbound"
)

func caseName(parts ...string) string { return strings.Join(parts, "/") }

func resetName(reset bool) string {
	if reset {
		return "RST"
	}
	return "FIN"
}

// effect is what a fault leaves the client with.
type effect uint8

const (
	lost     effect = iota // no reply
	brokeOff               // a reply of success that ends in its body
	failed                 // 503
	limited                // 429
)

// wantAttempts is how many attempts a write is due where its first two requests meet a fault, and four are allowed.
func (w write) wantAttempts(e effect) int {
	switch {
	case w.refused():
		return 0
	case e == limited && w.body != once:
		return 3
	case e == brokeOff && !w.keyed():
		return 1
	case e != limited && w.repeatable():
		return 3
	default:
		return 1
	}
}

// oneEach is the rule: each attempt is one request on the wire, no more and no fewer.
func (c *call) oneEach(t testing.TB, overHTTP1 bool, attempts int) {
	t.Helper()
	assert.Len(t, c.report.Attempts, attempts, "attempts")
	assert.Len(t, c.wire, attempts, "requests on the wire")
	c.checkRequests(t, overHTTP1)
	c.checkConns(t)
	if len(c.wire) == len(c.report.Attempts) {
		c.checkReused(t)
	}
	if c.refused() {
		assert.ErrorIs(t, c.err, outbound.ErrBodyNotReplayable)
	}
	if t.Failed() {
		t.Log(c.attempts())
	}
}

var http1Faults = []struct {
	name   string
	effect effect
	step   http1Step
}{
	{"read and FIN", lost, hangUp(false)},
	{"read and RST", lost, hangUp(true)},
	{"half a status line", lost, say("HTTP/1.1 20")},
	{"half the headers", lost, say("HTTP/1.1 200 OK\r\nContent-Le")},
	{"103 and FIN", lost, say("HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n")},
	{"half the body", brokeOff, say("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nhalf")},
	{"503", failed, answer(503, "later")},
	{"429", limited, answer(429, "slower")},
}

func TestHTTP1OneRequestPerAttempt(t *testing.T) {
	for i, fault := range http1Faults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, http1)
			r.late = true
			for _, w := range share(i, every[http1]) {
				t.Run(w.String(), func(t *testing.T) {
					for _, maxAttempts := range []int{1, 4} {
						path := r.path()
						r.one.script(path, fault.step, fault.step, answer(200, "ok"))
						r.prime(t)
						c := r.make(t, w, path, maxAttempts, nil)
						c.oneEach(t, true, min(maxAttempts, w.wantAttempts(fault.effect)))
					}
				})
			}
		})
	}
}

var http2Faults = []struct {
	name   string
	effect effect
	step   http2Step
}{
	{"PROTOCOL_ERROR after the work", lost, resetStream(http2.ErrCodeProtocol, false)},
	{"PROTOCOL_ERROR at the head", lost, resetStream(http2.ErrCodeProtocol, true)},
	{"REFUSED_STREAM after the work", lost, resetStream(http2.ErrCodeRefusedStream, false)},
	{"REFUSED_STREAM at the head", lost, resetStream(http2.ErrCodeRefusedStream, true)},
	{"INTERNAL_ERROR after the work", lost, resetStream(http2.ErrCodeInternal, false)},
	{"INTERNAL_ERROR at the head", lost, resetStream(http2.ErrCodeInternal, true)},
	{"CANCEL after the work", lost, resetStream(http2.ErrCodeCancel, false)},
	{"CANCEL at the head", lost, resetStream(http2.ErrCodeCancel, true)},
	{"103 and REFUSED_STREAM", lost, hintAndReset(http2.ErrCodeRefusedStream)},
	{"GOAWAY below after the work", lost, goAway(true, false, false)},
	{"GOAWAY below at the head", lost, goAway(true, false, true)},
	{"GOAWAY below and end", lost, goAway(true, true, false)},
	{"GOAWAY and end", lost, goAway(false, true, false)},
	{"FIN after the work", lost, closeConn(false, false)},
	{"RST after the work", lost, closeConn(true, false)},
	{"FIN at the head", lost, closeConn(false, true)},
	{"half the body", brokeOff, breakOff()},
	{"503", failed, answer2(503, "later")},
	{"429", limited, answer2(429, "slower")},
}

func TestHTTP2OneRequestPerAttempt(t *testing.T) {
	for _, p := range []protocol{http2TLS, http2H2C} {
		for i, fault := range http2Faults {
			t.Run(caseName(string(p), fault.name), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, p)
				for _, w := range share(i, every[p]) {
					t.Run(w.String(), func(t *testing.T) {
						for _, maxAttempts := range []int{1, 4} {
							path := r.path()
							r.two.script(path, fault.step, fault.step, answer2(200, "ok"))
							r.prime(t)
							c := r.make(t, w, path, maxAttempts, nil)
							c.oneEach(t, false, min(maxAttempts, w.wantAttempts(fault.effect)))
						}
					})
				}
			})
		}
	}
}

// A kept connection that the server closes at the moment it is reused: it reads nothing of the write.
func TestClosedWhileReused(t *testing.T) {
	for _, p := range []protocol{http1, http2TLS, http2H2C} {
		for i, reset := range []bool{false, true} {
			t.Run(caseName(string(p), resetName(reset)), func(t *testing.T) {
				t.Parallel()
				r := newRig(t, p)
				var kept int32 // how many connections there were before the call
				cut := func(i httptrace.GotConnInfo) {
					if numberOf(i.Conn) <= kept {
						r.cut(i.Conn.LocalAddr(), reset)
					}
				}
				for _, w := range share(i, every[p]) {
					t.Run(w.String(), func(t *testing.T) {
						for _, maxAttempts := range []int{1, 4} {
							r.prime(t)
							kept = r.dialed.Load()
							c := r.make(t, w, r.path(), maxAttempts, cut)
							c.closedKept(t, r.tapped(), maxAttempts)
						}
					})
				}
			})
		}
	}
}

// Kept connections that the server closed just before.
func TestClosedBeforeReuse(t *testing.T) {
	for _, p := range []protocol{http1, http2TLS, http2H2C} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, p)
			for _, w := range share(2, every[p]) {
				if w.refused() {
					continue // it would leave the dead connections behind
				}
				t.Run(w.String(), func(t *testing.T) {
					for _, maxAttempts := range []int{1, 4} {
						r.prime(t)
						r.cutAll(false)
						c := r.make(t, w, r.path(), maxAttempts, nil)
						c.closedKept(t, r.tapped(), maxAttempts)
					}
				})
			}
		})
	}
}

// tapped is the tap, where what went through it can be read.
func (r *rig) tapped() *tap {
	if r.one == nil {
		return nil
	}
	return &r.tap
}

// closedKept checks a write that met closed kept connections: what was on them was not read, so an attempt was on the wire
// where it was answered.
func (c *call) closedKept(t testing.TB, tap *tap, maxAttempts int) {
	t.Helper()
	answered := 0
	for _, a := range c.report.Attempts {
		if a.Status != 0 {
			answered++
		}
	}
	assert.Len(t, c.wire, answered, "requests on the wire")
	switch {
	case c.refused():
		assert.Empty(t, c.report.Attempts)
	case c.repeatable() && maxAttempts > 1:
		assert.NoError(t, c.err)
		assert.Len(t, c.wire, 1)
		assert.Equal(t, outbound.OutcomeSucceeded, c.report.Outcome)
	default:
		assert.Len(t, c.report.Attempts, 1)
	}
	if tap != nil {
		c.checkWritten(t, tap)
	}
	c.checkRequests(t, tap != nil)
	c.checkConns(t)
	if t.Failed() {
		t.Log(c.attempts())
	}
}

// checkWritten checks what HTTP/1 was written, read or not: at most once per attempt. Where net/http takes another
// connection because nothing was written on the first, that is safe, and stays.
func (c *call) checkWritten(t testing.TB, tap *tap) {
	t.Helper()
	heads := tap.count(c.method + " " + c.path + " ")
	assert.LessOrEqual(t, heads, len(c.report.Attempts), "written requests, read or not")
	for _, a := range c.report.Attempts {
		if a.Conns > 1 && heads <= 1 && a.Err != nil && !c.visible() {
			assert.NotContains(t, a.Err.Error(), "prevented", "the safe replay of attempt %d was cut off", a.Number)
		}
	}
}
