package outbound_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
)

func TestC71_ExhaustedOn503GivesThat503(t *testing.T) {
	bodies := map[string]string{"json": `{"error":"maintenance"}`, "100 KiB": strings.Repeat("e", 100<<10), "empty": ""}
	for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": casePipe, "HTTP2": casePipeH2} {
		for name, body := range bodies {
			for _, method := range []string{"GET", "POST"} {
				caseVirtual(t, wire+" "+name+" "+method, func(t *testing.T) {
					s := serve(t, caseSend(503, body, "X-Why", "because"))
					cfg := caseConfig(s.base)
					cfg.Retry.MaxAttempts = 3
					r := caseDo(t, caseNew(t, cfg), caseRequest(t, method, s.URL, "b"))
					require.NoError(t, r.Err)
					require.NoError(t, r.ReadErr)
					assert.Equal(t, 503, r.Status)
					assert.Equal(t, body, r.Body)
					assert.Equal(t, "because", r.Resp.Header.Get("X-Why"))
					assert.Equal(t, 3, s.count())
					require.ErrorIs(t, r.Report.Stopped, outbound.ErrAttemptsExhausted)
				})
			}
		}
	}
}

func TestC71_LastBodyIsUnread(t *testing.T) {
	for _, method := range []string{"GET", "PUT"} {
		base := caseScript(caseReplyWith(503, "why"))
		resp, err := caseNew(t, caseConfig(base)).RoundTrip(caseRequest(t, method, caseURL, "b"))
		require.NoError(t, err)
		assert.Zero(t, base.bodies[3].taken.Load())
		assert.Zero(t, base.bodies[3].closed.Load())
		_, _ = caseRead(resp)
	}
}

// caseEnds are the ways a call can end; each is a Base, its limits and its request.
var caseEnds = map[string]struct {
	steps    []caseStep
	set      func(*outbound.Config)
	at       time.Duration // when the caller cancels; 0: never
	calls    int           // before the one that counts
	edit     func(*http.Request)
	response bool
}{
	"503 to the end":           {steps: []caseStep{caseReply(503)}, response: true},
	"network error to the end": {steps: []caseStep{caseErr(io.EOF)}},
	"cancelled in the attempt": {steps: []caseStep{caseStall}, at: time.Second},
	"cancelled in the wait":    {steps: []caseStep{caseReply(503)}, at: time.Second},
	"attempt timeout":          {steps: []caseStep{caseStall}, set: func(c *outbound.Config) { c.AttemptTimeout = time.Second }},
	"circuit open": {
		steps: []caseStep{caseReply(503)}, calls: 1,
		set: func(c *outbound.Config) { c.Breaker = outbound.BreakerPolicy{ConsecutiveFailures: 1} },
	},
	"503, then network error": {steps: []caseStep{caseReply(503), caseErr(io.EOF)}},
	"network error, then 503": {steps: []caseStep{caseErr(io.EOF), caseReply(503)}, response: true},
	"bad header":              {steps: []caseStep{caseReply(200)}, edit: func(r *http.Request) { r.Header.Set("X", "a\nb") }},
	"bad key":                 {steps: []caseStep{caseReply(200)}, edit: func(r *http.Request) { r.Header.Set("Idempotency-Key", "a b") }},
	"GetBody fails": {
		steps: []caseStep{caseReply(503)},
		edit:  func(r *http.Request) { r.GetBody = func() (io.ReadCloser, error) { return nil, errCase } },
	},
	"no GetBody":       {steps: []caseStep{caseReply(503)}, edit: func(r *http.Request) { r.GetBody = nil }, response: true},
	"neither":          {steps: []caseStep{caseErr(nil)}},
	"both":             {steps: []caseStep{func(*http.Request) (*http.Response, error) { return caseResponse(200, ""), io.EOF }}},
	"half a reply":     {steps: []caseStep{caseHalfReply}, response: true},
	"hint too long":    {steps: []caseStep{caseReply(429, "Retry-After", "3600")}, response: true},
	"redirect refused": {steps: []caseStep{caseReply(503), caseReply(307, "Location", "http://other.test/")}},
}

// caseHalfReply breaks off while it is read inside the attempt.
func caseHalfReply(*http.Request) (*http.Response, error) {
	resp := caseResponse(200, "half")
	resp.ContentLength = 100
	resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), caseBreaks{}))
	return resp, nil
}

type caseBreaks struct{}

func (caseBreaks) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestC72_ResponseOrErrorNeverBoth(t *testing.T) {
	for name, row := range caseEnds {
		caseVirtual(t, name, func(t *testing.T) {
			var complaints bytes.Buffer
			defer log.SetOutput(log.Default().Writer())
			log.SetOutput(&complaints)
			cfg := caseWaiting(caseScript(row.steps...), 3*time.Second)
			if row.set != nil {
				row.set(&cfg)
			}
			client := caseClient(t, cfg)
			for range row.calls {
				caseDo(t, caseDoer(client), casePost(t))
			}
			req := casePost(t)
			if row.edit != nil {
				row.edit(req)
			}
			if row.at > 0 {
				ctx, cancel := caseCancelAfter(t, row.at)
				defer cancel()
				req = req.WithContext(ctx)
			}
			r := caseDo(t, caseDoer(client), req) // it holds the xor
			assert.Equal(t, row.response, r.Resp != nil, "%v", r.Err)
			assert.Empty(t, complaints.String(), "net/http complains of a RoundTripper that gives both or neither")
		})
	}
}

// caseClosedPort is a URL where nobody listens.
func caseClosedPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return "http://" + l.Addr().String()
}

func TestC74_TheNetworkErrorIsReached(t *testing.T) {
	for name, base := range map[string]http.RoundTripper{"default": nil, "given": &http.Transport{}} {
		t.Run("refused "+name, func(t *testing.T) {
			cfg := caseConfig(base)
			cfg.Retry.MaxAttempts, cfg.Provider.NoKeys = 3, true
			r := caseDo(t, caseDoer(caseClient(t, cfg)), caseRequest(t, "POST", caseClosedPort(t), "b"))
			var op *net.OpError
			require.ErrorIs(t, r.Err, syscall.ECONNREFUSED)
			require.ErrorAs(t, r.Err, &op)
			require.ErrorIs(t, r.Err, outbound.ErrAttemptsExhausted)
			require.ErrorContains(t, r.Err, "3 attempts")
			require.ErrorContains(t, r.Err, "connection refused")
			assert.Len(t, r.Report.Attempts, 3)
			assert.Equal(t, outbound.OutcomeNotSent, r.Report.Outcome)
		})
	}
	for name, act := range map[string]http.HandlerFunc{"drop": caseDrop, "reset": caseReset} {
		t.Run(name, func(t *testing.T) {
			s := caseServe(t, act)
			cfg := caseConfig(s.base)
			cfg.Retry.MaxAttempts = 3
			r := caseDo(t, caseNew(t, cfg), caseRequest(t, "POST", s.URL, "b"))
			assert.True(t, errors.Is(r.Err, io.EOF) || errors.Is(r.Err, syscall.ECONNRESET), "%v", r.Err)
			require.ErrorContains(t, r.Err, "3 attempts")
			assert.Equal(t, 3, s.count())
			assert.Equal(t, outbound.OutcomeUnknown, r.Report.Outcome)
		})
	}
}

func TestC75_TheResultIsTheLastAttempts(t *testing.T) {
	rows := map[string]struct {
		steps   []caseStep
		status  int // 0: an error
		hits    int
		stopped error
	}{
		"drop, 200":       {[]caseStep{caseErr(io.EOF), caseReply(200)}, 200, 2, nil},
		"503, drop, drop": {[]caseStep{caseReply(503), caseErr(io.EOF)}, 0, 3, outbound.ErrAttemptsExhausted},
		"503, 404":        {[]caseStep{caseReply(503), caseReply(404)}, 404, 2, nil},
		"drop, 503, 503":  {[]caseStep{caseErr(io.EOF), caseReply(503)}, 503, 3, outbound.ErrAttemptsExhausted},
		"429, 200":        {[]caseStep{caseReply(429, "Retry-After", "1"), caseReply(200)}, 200, 2, nil},
		"half, 200":       {[]caseStep{caseHalfReply, caseReply(200)}, 200, 2, nil},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			base := caseScript(row.steps...)
			cfg := caseConfig(base)
			cfg.Retry.MaxAttempts = 3
			r := caseDo(t, caseNew(t, cfg), casePost(t))
			assert.Equal(t, row.hits, base.count())
			assert.Equal(t, row.status, r.Status)
			if row.status != 0 {
				assert.Equal(t, "{}", r.Body)
				require.NoError(t, r.ReadErr)
			} else {
				require.ErrorIs(t, r.Err, io.EOF)
				assert.NotContains(t, r.Err.Error(), "503")
			}
			if row.stopped == nil {
				require.NoError(t, r.Report.Stopped)
				assert.Zero(t, r.Report.RetryAfter, "an old hint is gone")
				return
			}
			require.ErrorIs(t, r.Report.Stopped, row.stopped)
		})
	}
}

func TestC76_HooksSeeNoReplyAndTheError(t *testing.T) {
	hooks, asked := caseHooks{}, 0
	cfg := caseTripping(nil, 3)
	cfg.Hooks, cfg.Retry.MaxAttempts = hooks.hooks(), 3
	cfg.Retry.If = func(a outbound.Attempt) bool {
		asked++
		return a.Err != nil && a.Status == 0
	}
	cfg.Provider.Judge = func(resp *http.Response, _ []byte) outbound.Verdict {
		assert.NotNil(t, resp)
		return outbound.Verdict{}
	}
	r := caseDo(t, caseNew(t, cfg), caseRequest(t, "POST", caseClosedPort(t), "b"))
	require.ErrorIs(t, r.Err, syscall.ECONNREFUSED)
	require.Len(t, hooks.attempts, 3)
	for _, a := range slices.Concat(hooks.attempts, hooks.retries) {
		assert.Zero(t, a.Status)
		require.ErrorIs(t, a.Err, syscall.ECONNREFUSED)
	}
	assert.Len(t, hooks.retries, 2)
	assert.Equal(t, 2, asked)
	require.Len(t, hooks.done, 1)
	assert.Equal(t, outbound.OutcomeNotSent, hooks.done[0].Outcome)
	require.Len(t, hooks.changes, 1)
	assert.Equal(t, outbound.CircuitOpen, hooks.changes[0].To)
}

func TestC76_OddBases(t *testing.T) {
	noBody := func(status int) caseStep {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}}, nil
		}
	}
	bare := func(status int) caseStep {
		return func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: status}, nil }
	}
	rows := map[string]struct {
		steps  []caseStep
		hits   int
		status int
	}{
		"neither":               {[]caseStep{caseErr(nil)}, 4, 0},
		"neither, then 200":     {[]caseStep{caseErr(nil), caseReply(200)}, 2, 200},
		"503 without Body":      {[]caseStep{noBody(503), caseReply(200)}, 2, 200},
		"200 without Body":      {[]caseStep{noBody(200)}, 1, 200},
		"503 without a Header":  {[]caseStep{bare(503), caseReply(200)}, 2, 200},
		"both":                  {[]caseStep{func(*http.Request) (*http.Response, error) { return caseResponse(200, "x"), io.EOF }}, 4, 0},
		"both, then 200":        {[]caseStep{func(*http.Request) (*http.Response, error) { return caseResponse(503, "x"), io.EOF }, caseReply(200)}, 2, 200},
		"503 to the end, empty": {[]caseStep{noBody(503)}, 4, 503},
	}
	for name, row := range rows {
		for _, method := range []string{"GET", "POST"} {
			caseVirtual(t, name+" "+method, func(t *testing.T) {
				base := caseScript(row.steps...)
				r := caseDo(t, caseNew(t, caseConfig(base)), caseRequest(t, method, caseURL, "b"))
				assert.Equal(t, row.hits, base.count())
				assert.Equal(t, row.status, r.Status)
				for i, n := range base.closes() {
					assert.Equal(t, 1, n, "reply %d", i+1)
				}
			})
		}
	}
}

// Retry classification.

func TestC77_CertificateErrorsAreFinal(t *testing.T) {
	rows := map[string]func(*tls.Config, *x509.CertPool){
		"unknown authority": func(*tls.Config, *x509.CertPool) {},
		"wrong host":        func(c *tls.Config, pool *x509.CertPool) { c.RootCAs, c.ServerName = pool, "other.test" },
		"expired": func(c *tls.Config, pool *x509.CertPool) {
			c.RootCAs, c.Time = pool, func() time.Time { return time.Now().AddDate(200, 0, 0) }
		},
	}
	for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": caseServeTLS, "HTTP2": caseServeH2} {
		for name, set := range rows {
			for _, method := range []string{"GET", "POST"} {
				t.Run(wire+" "+name+" "+method, func(t *testing.T) {
					s := serve(t, caseSend(200, "never"))
					base := &http.Transport{TLSClientConfig: &tls.Config{}, ForceAttemptHTTP2: wire == "HTTP2"}
					set(base.TLSClientConfig, s.base.TLSClientConfig.RootCAs)
					cfg := caseTripping(base, 1)
					cfg.Retry.MaxAttempts, cfg.Retry.Backoff = 5, caseBackoff(caseNoMore)
					tr := caseNew(t, cfg)
					r := caseDo(t, tr, caseRequest(t, method, s.URL, "b"))
					var verification *tls.CertificateVerificationError
					require.ErrorAs(t, r.Err, &verification)
					require.ErrorIs(t, r.Report.Stopped, outbound.ErrNotRetryable)
					assert.EqualValues(t, 1, s.conns.Load(), "handshakes")
					assert.Len(t, r.Report.Attempts, 1)
					assert.Equal(t, outbound.OutcomeNotSent, r.Report.Outcome)
					assert.Equal(t, outbound.CircuitOpen, caseCircuit(t, tr).State, "not counted as healthy")
				})
			}
		}
	}
}

func TestC78_HopelessRequestsAreNotSent(t *testing.T) {
	rows := map[string]func(*http.Request){
		"scheme":            func(r *http.Request) { r.URL.Scheme = "foo" },
		"no scheme":         func(r *http.Request) { r.URL.Scheme = "" },
		"header value":      func(r *http.Request) { r.Header.Set("X", "a\nb") },
		"header name":       func(r *http.Request) { r.Header["a b"] = []string{"c"} },
		"trailer value":     func(r *http.Request) { r.Trailer = http.Header{"X": {"a\r\nb"}} },
		"no host":           func(r *http.Request) { r.URL.Host = "" },
		"no URL":            func(r *http.Request) { r.URL = nil },
		"method":            func(r *http.Request) { r.Method = "PO ST" },
		"method with break": func(r *http.Request) { r.Method = "POST\n" },
	}
	for name, spoil := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			base, hooks := caseScript(caseReply(200)), caseHooks{}
			cfg := caseTripping(base, 1)
			cfg.Hooks, cfg.Retry.Backoff = hooks.hooks(), caseBackoff(time.Second)
			tr := caseNew(t, cfg)
			req := casePost(t)
			spoil(req)
			body := &caseBody{ReadCloser: req.Body}
			req.Body = body
			r := caseDo(t, tr, req)
			require.ErrorIs(t, r.Err, outbound.ErrNotRetryable)
			assert.Zero(t, r.Elapsed)
			assert.Zero(t, base.count())
			assert.Empty(t, hooks.retries)
			assert.Empty(t, r.Report.Attempts)
			assert.Empty(t, tr.Circuits(), "no circuit was asked")
			assert.Equal(t, outbound.OutcomeNotSent, r.Report.Outcome)
			assert.EqualValues(t, 1, body.closed.Load())
		})
	}
}

func TestC78_RedirectLoopIsNotRetried(t *testing.T) {
	for status, method := range map[int]string{302: "GET", 307: "POST"} {
		caseVirtual(t, method, func(t *testing.T) {
			base := caseScript(caseReply(status, "Location", "/again"))
			resp, err := caseClient(t, caseConfig(base)).Do(caseRequest(t, method, caseURL, "b"))
			require.ErrorContains(t, err, "stopped after 10 redirects")
			require.NotNil(t, resp)
			assert.Equal(t, 10, base.count())
		})
	}
}

func TestC79_NameErrors(t *testing.T) {
	gone := &net.DNSError{Err: "no such host", Name: "api.test", IsNotFound: true}
	hiccup := &net.DNSError{Err: "server misbehaving", Name: "api.test", IsTemporary: true}
	late := &net.DNSError{Err: "i/o timeout", Name: "api.test", IsTimeout: true}
	both := &net.DNSError{Err: "no such host", Name: "api.test", IsNotFound: true, IsTemporary: true}
	rows := map[string]struct {
		errs  []error
		dials int32
		final bool
	}{
		"not found":              {[]error{gone, gone}, 1, true},
		"not found, wrapped":     {[]error{&net.OpError{Op: "dial", Net: "tcp", Err: gone}, gone}, 1, true},
		"temporary, twice":       {[]error{hiccup, hiccup}, 3, false},
		"timeout, twice":         {[]error{late, late}, 3, false},
		"wrapped":                {[]error{&net.OpError{Op: "dial", Net: "tcp", Err: hiccup}}, 2, false},
		"found nothing for now":  {[]error{both}, 2, false},
		"hiccup, then not found": {[]error{hiccup, gone}, 2, true},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			s := casePipe(t, caseSend(200, "ok")).failing(row.errs...)
			cfg := caseConfig(s.base)
			cfg.Provider.NoKeys = true // nothing was sent, so a write without a key is safe too
			r := caseDo(t, caseNew(t, cfg), caseRequest(t, "POST", s.URL, "b"))
			assert.Equal(t, row.dials, s.dials.Load())
			if !row.final {
				assert.Equal(t, 200, r.Status)
				assert.Equal(t, 1, s.count())
				return
			}
			require.ErrorIs(t, r.Err, gone)
			require.ErrorIs(t, r.Report.Stopped, outbound.ErrNotRetryable)
			assert.Equal(t, outbound.OutcomeNotSent, r.Report.Outcome)
		})
	}
}

func TestC80_ConnectionsThatEndBeforeTheReply(t *testing.T) {
	acts := map[string]http.HandlerFunc{
		"drop": caseDrop, "reset": caseReset, "half a status line": caseRaw("HTTP/1.1 2"), "half a header": caseRaw("HTTP/1.1 200 OK\r\nX-A"),
	}
	for name, act := range acts {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "HEAD"} {
			t.Run(name+" "+method, func(t *testing.T) {
				s := caseServe(t, act, caseSend(200, ""))
				caseOK(t, caseNew(t, caseConfig(s.base)), caseRequest(t, method, s.URL, ""))
				assert.Equal(t, 2, s.count())
			})
		}
		t.Run(name+" POST without a key", func(t *testing.T) {
			s := caseServe(t, act, caseSend(200, ""))
			cfg := caseConfig(s.base)
			cfg.Provider.NoKeys = true
			r := caseDo(t, caseNew(t, cfg), caseRequest(t, "POST", s.URL, "b"))
			require.ErrorIs(t, r.Err, outbound.ErrNotRetryable)
			assert.Equal(t, 1, s.count())
			assert.Equal(t, outbound.OutcomeUnknown, r.Report.Outcome)
		})
	}
}

// The server takes the headers and a bit of a long body, and resets: the client meets EPIPE or ECONNRESET while it writes.
func TestC80_ResetWhileTheBodyIsWritten(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	const size = 8 << 20
	got := make(chan int64, 2)
	go func() {
		for _, n := range []int64{1 << 10, size} {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			got <- caseTakeSome(conn, n)
		}
	}()
	base := &http.Transport{}
	r := caseOK(t, caseNew(t, caseConfig(base)), caseRequest(t, "POST", "http://"+l.Addr().String(), strings.Repeat("b", size)))
	assert.Len(t, r.Report.Attempts, 2)
	assert.EqualValues(t, 1<<10, <-got)
	assert.EqualValues(t, size, <-got)
}

// caseTakeSome reads so much of a request's body, then answers if that was all, and resets if not.
func caseTakeSome(conn net.Conn, n int64) int64 {
	defer func() { _ = conn.Close() }()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return -1
	}
	n, _ = io.CopyN(io.Discard, req.Body, n)
	if n == req.ContentLength {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return n
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	return n
}

// The server closes a kept connection between two requests: net/http finds out and takes another, or our loop does.
func TestC80_IdleConnectionClosedByTheServer(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		s := caseServe(t, caseRaw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), caseSend(200, "ok"))
		tr := caseNew(t, caseConfig(s.base))
		caseOK(t, tr, caseRequest(t, method, s.URL, ""))
		caseOK(t, tr, caseRequest(t, method, s.URL, ""))
		assert.Equal(t, 2, s.count())
	}
}

func TestC82_GracefulShutdownOverHTTP2(t *testing.T) {
	rows := map[string]struct {
		method string
		noKeys bool
	}{"POST": {"POST", false}, "PUT": {"PUT", false}, "GET": {"GET", false}}
	for name, row := range rows {
		for _, layers := range []string{"direct", "wrapped"} {
			t.Run(name+" "+layers, func(t *testing.T) {
				s := caseServeFrames(t, func(n int, stream uint32) ([]byte, bool) {
					if n == 0 {
						return caseFrameGone(0), true // nothing of this connection was processed
					}
					return caseFrameOK(stream), false
				})
				cfg := caseConfig(s.base)
				if layers == "wrapped" {
					cfg.Base = caseFunc(s.base.RoundTrip)
				}
				r := caseOK(t, caseNew(t, cfg), caseRequest(t, row.method, s.URL, "second"))
				assert.Equal(t, 2, s.count())
				caseSameBody(t, s.all(), "second")
				if row.method != "GET" {
					assert.Len(t, r.Report.Attempts, 2, "one request on the wire is one attempt of a write")
				}
			})
		}
	}
}

// What goes down is DESIGN's: whole at each attempt, and to a wrapped Base without GetBody where a key is sent.
func TestC82_EachAttemptGoesDownWhole(t *testing.T) {
	rows := map[string]struct {
		method string
		noKeys bool
		steps  []caseStep
		hits   int
		again  bool // the layer below may read the body again
	}{
		"keyed POST":              {method: "POST", steps: []caseStep{caseReply(503), caseReply(200)}, hits: 2},
		"keyed POST, redirected":  {method: "POST", steps: []caseStep{caseReply(307, "Location", "/b"), caseReply(503), caseReply(200)}, hits: 3},
		"PUT":                     {method: "PUT", steps: []caseStep{caseReply(503), caseReply(200)}, hits: 2, again: true},
		"PUT, redirected":         {method: "PUT", steps: []caseStep{caseReply(307, "Location", "/b"), caseReply(503), caseReply(200)}, hits: 3, again: true},
		"POST without a key, 429": {method: "POST", noKeys: true, steps: []caseStep{caseReply(429), caseReply(200)}, hits: 2, again: true},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			base := &caseBase{}
			for _, step := range row.steps {
				base.steps = append(base.steps, func(r *http.Request) (*http.Response, error) {
					assert.Equal(t, row.again, r.GetBody != nil)
					for range 2 {
						if r.GetBody != nil {
							body, err := r.GetBody()
							assert.NoError(t, err)
							got, _ := io.ReadAll(body)
							assert.Equal(t, "whole", string(got))
						}
					}
					return step(r)
				})
			}
			cfg := caseConfig(base)
			cfg.Provider.NoKeys = row.noKeys
			caseOK(t, caseDoer(caseClient(t, cfg)), caseRequest(t, row.method, caseURL, "whole"))
			require.Equal(t, row.hits, base.count())
			caseSameBody(t, base.all(), "whole")
			for _, h := range base.all() {
				assert.EqualValues(t, 5, h.Length)
			}
		})
	}
}

func TestC83_NothingIsResentAfterTheHandover(t *testing.T) {
	rows := map[string]struct {
		method string
		length int
		media  string
		noKeys bool
	}{
		"GET":                    {"GET", 1000, "application/json", false},
		"PUT":                    {"PUT", 1000, "application/json", false},
		"POST without a key":     {"POST", 1000, "application/json", true},
		"POST, more than 1 MiB":  {"POST", 1<<20 + 1, "application/json", false},
		"POST, stream":           {"POST", 1000, "text/event-stream", false},
		"POST, length not known": {"POST", -1, "application/pdf", false},
	}
	for wire, serve := range caseWires {
		for name, row := range rows {
			t.Run(wire+" "+name, func(t *testing.T) {
				s := serve(t, caseCut(200, row.length, 10, "Content-Type", row.media, "X-Trace", "t"), caseSend(200, "never"))
				cfg := caseConfig(s.base)
				cfg.Provider.NoKeys = row.noKeys
				tr := caseNew(t, cfg)
				resp, err := tr.RoundTrip(caseRequest(t, row.method, s.URL, "b"))
				require.NoError(t, err)
				assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, nil))
				assert.Equal(t, "t", resp.Header.Get("X-Trace"))
				body, err := caseRead(resp)
				assert.Equal(t, strings.Repeat("x", 10), body)
				require.Error(t, err)
				if wire == "HTTP1" {
					require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				}
				assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, nil), "after reading")
				assert.Equal(t, 1, s.count())
			})
		}
	}
}

func TestC83_SmallReplyToAKeyedWriteIsReadInTheAttempt(t *testing.T) {
	cut := caseCut(200, 1000, 10, "Content-Type", "application/json")
	for wire, serve := range caseWires {
		t.Run(wire, func(t *testing.T) {
			s := serve(t, cut, caseSend(200, "whole"))
			r := caseOK(t, caseNew(t, caseConfig(s.base)), caseRequest(t, "POST", s.URL, "b"))
			assert.Equal(t, "whole", r.Body)
			assert.Equal(t, 2, s.count())
			caseSameKey(t, s.all())
			assert.Equal(t, 200, r.Report.Attempts[0].Status)
			assert.Error(t, r.Report.Attempts[0].Err)
		})
		t.Run(wire+" to the end", func(t *testing.T) {
			s := serve(t, cut)
			r := caseDo(t, caseNew(t, caseConfig(s.base)), caseRequest(t, "POST", s.URL, "b"))
			require.NoError(t, r.Err)
			assert.Equal(t, strings.Repeat("x", 10), r.Body)
			require.Error(t, r.ReadErr)
			assert.Equal(t, 4, s.count())
			assert.Equal(t, outbound.OutcomeUnknown, r.Report.Outcome)
		})
	}
}

func TestC84_StatusTable(t *testing.T) {
	retried := map[string][]int{
		"GET":         {429, 500, 502, 503, 504, 529, 599},
		"PUT":         {429, 500, 502, 503, 504, 529, 599},
		"POST":        {409, 429, 500, 502, 503, 504, 529, 599},
		"POST no key": {429},
	}
	statuses := []int{200, 201, 202, 204, 301, 304, 400, 401, 402, 403, 404, 408, 409, 413, 421, 422, 423, 425, 429, 500, 501, 502, 503, 504, 505, 529, 599}
	for name, list := range retried {
		for _, status := range statuses {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				base := caseScript(caseReplyWith(status, ""), caseReply(200))
				cfg := caseConfig(base)
				cfg.Provider.NoKeys = name == "POST no key"
				method, _, _ := strings.Cut(name, " ")
				r := caseDo(t, caseNew(t, cfg), caseRequest(t, method, caseURL, "b"))
				require.NoError(t, r.Err)
				want, hits := status, 1
				if slices.Contains(list, status) {
					want, hits = 200, 2
				}
				assert.Equal(t, hits, base.count())
				assert.Equal(t, want, r.Status)
			})
		}
	}
}

// Secrets.

const caseSecret = "hunter2"

// caseSecrets is a request full of secrets.
func caseSecrets(t *testing.T) *http.Request {
	req := caseRequest(t, "POST", "http://user:"+caseSecret+"@api.test/pay?token="+caseSecret+"#"+caseSecret, caseSecret)
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "X-Goog-Api-Key", "Proxy-Authorization", "X-My-Own"} {
		req.Header.Set(name, "Bearer "+caseSecret)
	}
	return req
}

func TestC96_NoSecretIsLogged(t *testing.T) {
	leaky := &url.Error{Op: "Post", URL: "http://x/?token=" + caseSecret, Err: errors.New("401 for " + caseSecret)}
	rows := map[string][]caseStep{
		"503, 200":           {caseReplyWith(503, caseSecret, "Set-Cookie", caseSecret), caseReplyWith(200, caseSecret)},
		"stranger's error":   {caseErr(leaky)},
		"error in a wrapper": {caseErr(fmt.Errorf("%s: %w", caseSecret, io.EOF)), caseReply(200)},
		"both":               {func(*http.Request) (*http.Response, error) { return caseResponse(503, caseSecret), leaky }},
		"half":               {caseHalfReply},
		"400":                {caseReplyWith(400, caseSecret, "X-Echo", caseSecret)},
	}
	for name, steps := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			var out bytes.Buffer
			hooks, recorded := outbound.SlogHooks(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))), caseHooks{}
			cfg := caseTripping(caseScript(steps...), 2)
			cfg.Hooks = hooks
			tr := caseNew(t, cfg)
			r := caseDo(t, tr, caseSecrets(t))
			assert.Contains(t, out.String(), "http://api.test/pay")
			cfg.Hooks = recorded.hooks()
			caseDo(t, caseNew(t, cfg), caseSecrets(t))
			shown := []any{r.Err, r.Report, &r.Report, recorded.attempts, recorded.done, recorded.changes, tr, cfg.Provider, tr.Circuits()}
			if r.Resp != nil {
				shown = append(shown, outbound.CheckResponse(r.Resp))
			}
			for _, v := range shown {
				_, _ = fmt.Fprintf(&out, "%v %+v\n", v, v)
			}
			for line := range strings.Lines(out.String()) {
				assert.NotContains(t, line, caseSecret)
			}
		})
	}
}

func TestC96_NoSecretInARefusal(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"header":  func(r *http.Request) { r.Header.Set("X-Token", caseSecret+"\n") },
		"key":     func(r *http.Request) { r.Header.Set("Idempotency-Key", caseSecret+" x") },
		"scheme":  func(r *http.Request) { r.URL.Scheme = "ftp" },
		"no host": func(r *http.Request) { r.URL.Host = "" },
	} {
		req := caseSecrets(t)
		spoil(req)
		r := caseDo(t, caseNew(t, caseConfig(caseScript(caseReply(200)))), req)
		require.Error(t, r.Err, name)
		assert.NotContains(t, fmt.Sprintf("%v %+v", r.Err, r.Report), caseSecret, name)
	}
}

// 127.0.0.1, then localhost, which is another host by name, twice: what http.Client took away stays away.
func TestC97_RemovedHeadersStayRemoved(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			hop := func(to func(*http.Request) string) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to(r), http.StatusTemporaryRedirect) }
			}
			s := caseServe(t,
				hop(func(r *http.Request) string {
					return "http://" + strings.Replace(r.Host, "127.0.0.1", "localhost", 1) + "/b"
				}),
				hop(func(*http.Request) string { return "/c" }),
				caseSend(503, ""), caseSend(200, "ok"))
			port := strings.TrimPrefix(s.URL, "http://127.0.0.1")
			s.base.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1"+port)
			}
			req := caseRequest(t, method, s.URL+"/a", "b", "Authorization", "Bearer x", "Cookie", "a=b", "Www-Authenticate", "y")
			r := caseOK(t, caseDoer(caseClient(t, caseConfig(s.base))), req)
			hits := s.all()
			require.Len(t, hits, 4)
			assert.Equal(t, "Bearer x", hits[0].Header.Get("Authorization"))
			for i, h := range hits[1:] {
				assert.Equal(t, "localhost"+port, h.Host)
				for _, name := range []string{"Authorization", "Cookie", "Www-Authenticate"} {
					assert.Empty(t, h.Header.Values(name), "%s on request %d", name, i+2)
				}
			}
			if method == "POST" {
				assert.Equal(t, caseSameKey(t, hits), r.Report.IdempotencyKey, "one action")
			}
		})
	}
}
