package wire

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"github.com/outbound-go/outbound"
)

// The controls: a plain *http.Transport, asked once, sends a write more than once. Where one of them fails, the harness
// provokes nothing, and the tests of outbound prove nothing.

// ask makes one RoundTrip of a plain *http.Transport, and returns what the wire saw.
func (r *rig) ask(t *testing.T, req *http.Request, path string) []seen {
	t.Helper()
	resp, err := r.base.RoundTrip(req)
	if err == nil {
		drain(t, resp)
	}
	r.rest(t)
	return r.on(path)
}

func TestControlHTTP1Resends(t *testing.T) {
	for name, header := range map[string]string{"Idempotency-Key": "Idempotency-Key", "X-Idempotency-Key": "X-Idempotency-Key"} {
		for _, body := range []string{replayable, none} {
			for _, reset := range []bool{false, true} {
				t.Run(caseName(name, body, resetName(reset)), func(t *testing.T) {
					r := newRig(t, http1)
					path := r.path()
					r.one.script(path, hangUp(reset), hangUp(reset), answer(200, "ok"))
					r.prime(t)
					req := newRequest(t, http.MethodPost, r.url()+path, body)
					req.Header[header] = []string{chosen}
					wire := r.ask(t, req, path)
					require.Len(t, wire, 3, "one RoundTrip meets two kept connections that die")
					assert.True(t, wire[0].ended && wire[1].ended && wire[2].ended)
				})
			}
		}
	}
}

// What hides a key from net/http, and what it does with no key.
func TestControlHTTP1DoesNotResend(t *testing.T) {
	for _, header := range []string{"idempotency-key", "x-idempotency-key", "X-Other"} {
		t.Run(header, func(t *testing.T) {
			r := newRig(t, http1)
			path := r.path()
			r.one.script(path, hangUp(false), answer(200, "ok"))
			r.prime(t)
			req := newRequest(t, http.MethodPost, r.url()+path, replayable)
			req.Header[header] = []string{chosen}
			assert.Len(t, r.ask(t, req, path), 1)
		})
	}
}

// http2Resends are the faults after which net/http sends again, key or no key.
var http2Resends = map[string]http2Step{
	"PROTOCOL_ERROR after the work":   resetStream(http2.ErrCodeProtocol, false),
	"PROTOCOL_ERROR at the head":      resetStream(http2.ErrCodeProtocol, true),
	"REFUSED_STREAM after the work":   resetStream(http2.ErrCodeRefusedStream, false),
	"REFUSED_STREAM at the head":      resetStream(http2.ErrCodeRefusedStream, true),
	"103 and REFUSED_STREAM":          hintAndReset(http2.ErrCodeRefusedStream),
	"GOAWAY below after the work":     goAway(true, false, false),
	"GOAWAY below at the head":        goAway(true, false, true),
	"GOAWAY below, then the end":      goAway(true, true, false),
	"GOAWAY below at the head, ended": goAway(true, true, true),
}

func TestControlHTTP2Resends(t *testing.T) {
	for _, p := range []protocol{http2TLS, http2H2C} {
		r := newRig(t, p)
		for name, fault := range http2Resends {
			for _, body := range []string{replayable, none} {
				for _, key := range []string{"Idempotency-Key", "idempotency-key", "X-Other"} {
					t.Run(caseName(string(p), name, body, key), func(t *testing.T) {
						path := r.path()
						r.two.script(path, fault, answer2(200, "ok"))
						r.prime(t)
						req := newRequest(t, http.MethodPost, r.url()+path, body)
						req.Header[key] = []string{chosen}
						assert.Len(t, r.ask(t, req, path), 2, "one RoundTrip")
					})
				}
			}
		}
	}
}

// A read may be sent again, through outbound too.
func TestReadsAreResent(t *testing.T) {
	for _, base := range bases {
		t.Run(base, func(t *testing.T) {
			r := newRig(t, http1)
			path := r.path()
			r.one.script(path, hangUp(false), hangUp(true), answer(200, "ok"))
			r.prime(t)
			c := r.make(t, write{method: http.MethodGet, body: none, base: base}, path, 1, nil)
			require.NoError(t, c.err)
			require.Len(t, c.wire, 3)
			require.Len(t, c.report.Attempts, 1, c.attempts())
			assert.Equal(t, 3, c.report.Attempts[0].Conns)
			assert.False(t, c.report.Attempts[0].Reused)
			assert.Equal(t, outbound.OutcomeSucceeded, c.report.Outcome)
			c.checkConns(t)
		})
	}
	for _, p := range []protocol{http2TLS, http2H2C} {
		t.Run(string(p), func(t *testing.T) {
			r := newRig(t, p)
			path := r.path()
			r.two.script(path, resetStream(http2.ErrCodeRefusedStream, false), answer2(200, "ok"))
			r.prime(t)
			c := r.make(t, write{method: http.MethodGet, body: none, base: direct}, path, 1, nil)
			require.NoError(t, c.err)
			assert.Len(t, c.wire, 2)
			require.Len(t, c.report.Attempts, 1)
			assert.Equal(t, 2, c.report.Attempts[0].Conns)
		})
	}
}
