package wire

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
)

var runs = flag.Int("wire.runs", 5, "how often each way of closing a kept connection is tried when the errors are counted")

// When the server closes a kept connection.
const (
	beforeCall = "before the call"
	onGotConn  = "when it is given"
	onNoticed  = "when it is given, and that is noticed" // the client's reading side has seen it before it writes
	onWrite    = "at the first write"
	afterHead  = "after the head"
	afterRead  = "after the request"
)

// closing is one way of closing a kept connection under a write.
type closing struct {
	when  string
	reset bool
	body  string
}

func closings() []closing {
	var all []closing
	for _, body := range []string{none, replayable} {
		for _, reset := range []bool{false, true} {
			for _, when := range []string{beforeCall, onGotConn, onNoticed, onWrite, afterRead} {
				all = append(all, closing{when, reset, body})
			}
		}
	}
	return all
}

// largeClosings meet a body that is still being written.
func largeClosings() []closing {
	var all []closing
	for _, when := range []string{onGotConn, afterHead} {
		all = append(all, closing{when, false, large}, closing{when, true, large})
	}
	return all
}

func (c closing) String() string { return caseName(c.when, resetName(c.reset), c.body) }

// apply arranges it for the next request on that path, and returns the hook for its GotConn.
func (c closing) apply(r *rig, path string) func(httptrace.GotConnInfo) {
	kept := r.dialed.Load()
	var first sync.Once
	switch c.when {
	case beforeCall:
		r.cutAll(c.reset)
	case onWrite:
		r.tap.setBefore(func(conn net.Conn) { first.Do(func() { r.cut(conn.LocalAddr(), c.reset) }) })
	case afterHead:
		r.one.script(path, func(x *exchange) bool {
			x.end(c.reset)
			return false
		}, answer(200, "ok"))
	case afterRead:
		r.one.script(path, hangUp(c.reset), answer(200, "ok"))
	}
	return func(i httptrace.GotConnInfo) {
		if c.when != onGotConn && c.when != onNoticed || numberOf(i.Conn) > kept {
			return
		}
		r.cut(i.Conn.LocalAddr(), c.reset)
		if c.when == onNoticed {
			select {
			case <-i.Conn.(*tapped).gone.Done():
			case <-time.After(soon):
			}
		}
	}
}

// Errors of net/http that have no name.
const (
	closedIdle  = "http: server closed idle connection"
	closedHTTP2 = "http2: client conn is closed"
)

// kind is an error of net/http's by its name.
func kind(err error) string {
	switch {
	case err == nil:
		return "no error"
	case errors.Is(err, io.EOF):
		return "EOF"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "unexpected EOF"
	case errors.Is(err, syscall.ECONNRESET):
		return "ECONNRESET"
	case errors.Is(err, syscall.EPIPE):
		return "EPIPE"
	case errors.Is(err, net.ErrClosed):
		return "net.ErrClosed"
	case says(err, closedIdle):
		return closedIdle
	case says(err, closedHTTP2):
		return closedHTTP2
	default:
		return err.Error()
	}
}

// says reports whether the text is in an error or in what it wraps: net/http has no names for some.
func says(err error, text string) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// What a plain *http.Transport says of a write whose kept connection is closed, and whose key it does not see. Counted with
// -v -args -wire.runs=500.
func TestErrorsOfClosedKeptConnections(t *testing.T) {
	for _, c := range append(closings(), largeClosings()...) {
		countErrors(t, http1, c)
	}
	for _, p := range []protocol{http2TLS, http2H2C} {
		for _, c := range closings() {
			if c.when == beforeCall || c.when == onGotConn {
				countErrors(t, p, c)
			}
		}
	}
}

func countErrors(t *testing.T, p protocol, c closing) {
	t.Run(caseName(string(p), c.String()), func(t *testing.T) {
		t.Parallel()
		r := newRig(t, p)
		counts := map[string]int{}
		for range *runs {
			counts[r.meet(t, c)]++
		}
		for what, n := range counts {
			t.Logf("%4d %s", n, what)
		}
	})
}

// meet sends one write by the plain *http.Transport under that closing, and says what came of it.
func (r *rig) meet(t *testing.T, c closing) string {
	t.Helper()
	path := r.path()
	drain(t, r.get(t))
	r.tap.clear()
	hook := c.apply(r, path)
	conns := 0
	req := newRequest(t, http.MethodPost, r.url()+path, c.body)
	req.Header["idempotency-key"] = []string{chosen}
	req = req.WithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		conns++
		hook(i)
	}}))
	resp, err := r.base.RoundTrip(req)
	r.tap.setBefore(nil)
	if err == nil {
		drain(t, resp)
	}
	r.rest(t)
	what := kind(err)
	assert.Contains(t, []string{"no error", "EOF", "unexpected EOF", "ECONNRESET", "EPIPE", "net.ErrClosed", closedIdle, closedHTTP2}, what)
	r.base.CloseIdleConnections()
	if r.one == nil {
		return fmt.Sprintf("%s; connections %d, requests read %d", what, conns, len(r.on(path)))
	}
	return fmt.Sprintf("%s; connections %d, requests written %d, read %d", what, conns, r.tap.count("POST "+path+" "), len(r.on(path)))
}

// steady waits the same before each retry.
type steady time.Duration

func (s steady) Delay(int) time.Duration { return time.Duration(s) }

func waiting(d time.Duration) outbound.Config {
	cfg := fast(4, outbound.Provider{})
	cfg.Retry.Backoff = steady(d)
	return cfg
}

// A first attempt on a kept connection that the server has just closed is made again at once, whatever net/http calls that.
func TestClosedKeptConnectionIsRetriedAtOnce(t *testing.T) {
	for _, c := range closings() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, http1)
			w := write{method: http.MethodPost, body: c.body, base: direct, keys: keyKinds[0]}
			waited := map[string]int{}
			for range 10 {
				path := r.path()
				drain(t, r.get(t))
				got := r.makeWith(t, w, path, waiting(time.Millisecond), c.apply(r, path))
				r.tap.setBefore(nil)
				require.NoError(t, got.err)
				if a := got.report.Attempts; len(a) > 1 && a[1].Wait != 0 {
					waited[kind(a[0].Err)]++
				}
			}
			assert.Empty(t, waited, "retries that waited, by the error of the first attempt")
		})
	}
}

// Only once per action, and only the first attempt.
func TestOnlyOneRetryIsAtOnce(t *testing.T) {
	for _, reset := range []bool{false, true} {
		t.Run(resetName(reset), func(t *testing.T) {
			r := newRig(t, http1)
			path := r.path()
			r.one.script(path, hangUp(reset), hangUp(reset), answer(200, "ok"))
			r.prime(t)
			w := write{method: http.MethodPost, body: replayable, base: direct, keys: keyKinds[0]}
			c := r.makeWith(t, w, path, waiting(time.Millisecond), nil)
			require.NoError(t, c.err)
			require.Len(t, c.wire, 3)
			a := c.report.Attempts
			require.Len(t, a, 3, c.attempts())
			assert.True(t, a[0].Reused && a[1].Reused && !a[2].Reused)
			assert.Zero(t, a[1].Wait)
			assert.Equal(t, time.Millisecond, a[2].Wait)
		})
	}
}

// A new connection that dies is no stale one, and neither is a reply that began.
func TestOtherLossesAreNotRetriedAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		step http1Step
		kept bool
	}{
		"a new connection":   {step: hangUp(false)},
		"a new one, reset":   {step: hangUp(true)},
		"half a status line": {step: say("HTTP/1.1 20"), kept: true},
		"half the headers":   {step: say("HTTP/1.1 200 OK\r\nContent-Le"), kept: true},
		"503":                {step: answer(503, "later"), kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, http1)
			path := r.path()
			r.one.script(path, tt.step, answer(200, "ok"))
			if tt.kept {
				r.prime(t)
			}
			w := write{method: http.MethodPost, body: replayable, base: direct, keys: keyKinds[0]}
			c := r.makeWith(t, w, path, waiting(time.Millisecond), nil)
			require.NoError(t, c.err)
			require.Len(t, c.report.Attempts, 2, c.attempts())
			assert.Equal(t, time.Millisecond, c.report.Attempts[1].Wait, c.attempts())
		})
	}
}
