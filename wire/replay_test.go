package wire

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"github.com/outbound-go/outbound"
)

// keysNamed is one of keyKinds.
func keysNamed(name string) keys {
	for _, k := range keyKinds {
		if k.name == name {
			return k
		}
	}
	panic("no such keys: " + name)
}

// Above a Base that is no *http.Transport the key's header keeps the spelling that net/http looks for. Whether a second
// request gets out where the attempt is cancelled is up to the scheduler; here it does.
func TestWrappedBaseSendsOnce(t *testing.T) {
	for _, w := range []write{
		{method: http.MethodPost, keys: keysNamed("generated"), body: replayable},
		{method: http.MethodPost, keys: keysNamed("generated"), body: none},
		{method: http.MethodPost, keys: keysNamed("callersX"), body: none},
		{method: http.MethodPost, keys: keysNamed("noKeysForeignX"), body: replayable},
		{method: http.MethodPost, keys: keysNamed("noKeysForeignX"), body: none},
		{method: http.MethodPut, keys: keysNamed("callers"), body: replayable},
		{method: http.MethodDelete, keys: keysNamed("callers"), body: none},
	} {
		for _, base := range []string{wrapped, nested} {
			w.base = base
			t.Run(w.String(), func(t *testing.T) {
				r := newRig(t, http1)
				r.late = true
				path := r.path()
				r.one.script(path, hangUp(false), answer(200, "ok"))
				r.prime(t)
				c := r.make(t, w, path, 1, nil)
				c.oneEach(t, true, 1)
			})
		}
	}
}

// A reset that meets a kept connection before anything is written is healed by net/http, safely: one attempt, one request.
func TestSafeReplayStays(t *testing.T) {
	for _, both := range []bool{false, true} {
		for _, base := range bases {
			for _, w := range []write{
				{method: http.MethodPost, base: base, keys: keysNamed("noKeys"), body: replayable},
				{method: http.MethodPost, base: base, keys: keysNamed("noKeys"), body: none},
				{method: http.MethodPost, base: base, keys: keysNamed("generated"), body: none},
				{method: http.MethodPut, base: base, keys: keysNamed("generated"), body: replayable},
			} {
				if w.visible() {
					continue
				}
				t.Run(caseName(protocolsName(both), w.String()), func(t *testing.T) {
					r := newRig(t, http1)
					if both { // net/http speaks HTTP/1 then, too
						r.base.Protocols = new(http.Protocols)
						r.base.Protocols.SetHTTP1(true)
						r.base.Protocols.SetUnencryptedHTTP2(true)
					}
					path := r.path()
					drain(t, r.get(t))
					c := r.make(t, w, path, 1, closing{when: onGotConn, reset: true}.apply(r, path))
					assert.NoError(t, c.err)
					assert.Len(t, c.wire, 1)
					assert.Equal(t, outbound.OutcomeSucceeded, c.report.Outcome)
					require.Len(t, c.report.Attempts, 1)
					assert.Equal(t, 2, c.report.Attempts[0].Conns)
					assert.False(t, c.report.Attempts[0].Reused)
					c.checkConns(t)
				})
			}
		}
	}
}

func protocolsName(both bool) string {
	if both {
		return "HTTP1 and h2c allowed"
	}
	return "HTTP1"
}

// A resend that is prevented is nobody else's business: another write on the same HTTP/2 connection gets its answer.
func TestPreventedResendLeavesOtherStreamsAlone(t *testing.T) {
	for _, p := range []protocol{http2TLS, http2H2C} {
		for _, w := range []write{
			{base: direct, keys: keysNamed("noKeys"), body: replayable},
			{base: direct, keys: keysNamed("generated"), body: none},
			{base: wrapped, keys: keysNamed("noKeys"), body: replayable},
			{base: wrapped, keys: keysNamed("generated"), body: none},
			{base: nested, keys: keysNamed("noKeys"), body: replayable},
			{base: nested, keys: keysNamed("generated"), body: none},
		} {
			w.method = http.MethodPost
			t.Run(caseName(string(p), w.String()), func(t *testing.T) {
				r := newRig(t, p)
				slow, refused := r.path(), r.path()
				held := make(chan *stream, 1)
				r.two.script(slow, http2Step{act: func(s *stream) bool {
					held <- s
					return true
				}})
				r.two.script(refused, resetStream(http2.ErrCodeRefusedStream, false), answer2(200, "ok"))
				r.prime(t)
				first := make(chan call, 1)
				go func() {
					defer close(first)
					first <- r.make(t, w, slow, 1, nil)
				}()
				other := <-held
				c := r.make(t, w, refused, 1, nil)
				assert.Len(t, c.wire, 1)
				answer2(200, "ok").act(other)
				got := <-first
				assert.NoError(t, got.err)
				assert.Len(t, got.wire, 1)
				assert.Equal(t, outbound.OutcomeSucceeded, got.report.Outcome, got.attempts())
			})
		}
	}
}

// A refused dial is no request: the next attempt may follow, key or no key.
func TestRefusedDialIsNotOnTheWire(t *testing.T) {
	for i, p := range []protocol{http1, http2TLS, http2H2C} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			for _, w := range share(i, every[p]) {
				t.Run(w.String(), func(t *testing.T) {
					r := newRig(t, p)
					r.refuse.Store(2)
					c := r.make(t, w, r.path(), 4, nil)
					r.refuse.Store(0)
					c.afterRefusals(t, p == http1)
				})
			}
		})
	}
}

func (c *call) afterRefusals(t testing.TB, overHTTP1 bool) {
	t.Helper()
	c.checkRequests(t, overHTTP1)
	c.checkConns(t)
	a := c.report.Attempts
	switch {
	case c.refused():
		assert.Empty(t, a)
		assert.Empty(t, c.wire)
	case c.body == once:
		assert.Empty(t, c.wire)
		require.Len(t, a, 1)
		assert.Zero(t, a[0].Conns)
		assert.Equal(t, outbound.OutcomeNotSent, a[0].Outcome)
	default:
		assert.Len(t, c.wire, 1)
		require.Len(t, a, 3, c.attempts())
		assert.Equal(t, []int{0, 0, 1}, []int{a[0].Conns, a[1].Conns, a[2].Conns})
		assert.Equal(t, outbound.OutcomeSucceeded, c.report.Outcome)
	}
}

// A server that says nothing has read the request all the same.
func TestSilence(t *testing.T) {
	for _, p := range []protocol{http1, http2TLS, http2H2C} {
		for _, name := range []string{"generated", "noKeysForeignX"} {
			for _, base := range bases {
				t.Run(caseName(string(p), name, base), func(t *testing.T) {
					t.Parallel()
					r := newRig(t, p)
					path := r.path()
					if r.one != nil {
						r.one.script(path, silence, answer(200, "ok"))
					} else {
						r.two.script(path, http2Step{act: func(*stream) bool { return true }}, answer2(200, "ok"))
					}
					r.prime(t)
					w := write{method: http.MethodPost, body: replayable, base: base, keys: keysNamed(name)}
					cfg := fast(4, w.keys.provider)
					cfg.AttemptTimeout = 500 * time.Millisecond
					c := r.makeWith(t, w, path, cfg, nil)
					c.oneEach(t, p == http1, min(2, w.wantAttempts(lost)))
					assert.ErrorIs(t, c.report.Attempts[0].Err, outbound.ErrAttemptTimeout)
				})
			}
		}
	}
}
