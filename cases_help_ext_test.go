package outbound_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
)

const caseURL = "http://api.test/pay"

// caseBackoff is a wait of one length, so that it can be told from what a server asked for.
type caseBackoff time.Duration

func (b caseBackoff) Delay(int) time.Duration { return time.Duration(b) }

// caseConfig is what the recipes take for granted: four attempts, no wait of our own, no circuit.
func caseConfig(base http.RoundTripper) outbound.Config {
	return outbound.Config{
		Base:    base,
		Retry:   outbound.RetryPolicy{Backoff: caseBackoff(0), Budget: outbound.BudgetPolicy{Disabled: true}},
		Breaker: outbound.BreakerPolicy{Disabled: true},
	}
}

func caseWaiting(base http.RoundTripper, wait time.Duration) outbound.Config {
	cfg := caseConfig(base)
	cfg.Retry.Backoff = caseBackoff(wait)
	return cfg
}

// caseTripping is caseConfig with a circuit that opens after so many failures in a row.
func caseTripping(base http.RoundTripper, failures int) outbound.Config {
	cfg := caseConfig(base)
	cfg.Breaker = outbound.BreakerPolicy{ConsecutiveFailures: failures}
	return cfg
}

func caseNew(t *testing.T, cfg outbound.Config) *outbound.Transport {
	t.Helper()
	tr, err := outbound.New(cfg)
	require.NoError(t, err)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func caseClient(t *testing.T, cfg outbound.Config) *http.Client {
	t.Helper()
	return &http.Client{Transport: caseNew(t, cfg)}
}

// caseVirtual runs a subtest in virtual time.
func caseVirtual(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// caseFunc is a RoundTripper made of a function. caseDoer makes one of a client.
type caseFunc func(*http.Request) (*http.Response, error)

func (f caseFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func caseDoer(c *http.Client) http.RoundTripper { return caseFunc(c.Do) }

func caseHeader(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// caseRequest is a request with a body that can be replayed; an empty one means none.
func caseRequest(t *testing.T, method, url, body string, header ...string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, r)
	require.NoError(t, err)
	req.Header = caseHeader(header...)
	return req
}

func caseGet(t *testing.T) *http.Request {
	t.Helper()
	return caseRequest(t, http.MethodGet, caseURL, "")
}

func casePost(t *testing.T) *http.Request {
	t.Helper()
	return caseRequest(t, http.MethodPost, caseURL, `{"amount":7}`, "Content-Type", "application/json")
}

// caseOneShot takes GetBody away: the body can be sent once.
func caseOneShot(req *http.Request) *http.Request {
	req.GetBody = nil
	req.Body = io.NopCloser(req.Body)
	return req
}

// caseResult is all that a caller sees of one call whose reply was read to its end.
type caseResult struct {
	Resp    *http.Response
	Err     error
	Status  int
	Body    string
	ReadErr error
	Elapsed time.Duration // until RoundTrip returned
	Report  outbound.Report
}

// caseDo makes a call, and holds for every call of these tests: a response or an error, and a report of either.
func caseDo(t *testing.T, rt http.RoundTripper, req *http.Request) caseResult {
	t.Helper()
	start := time.Now()
	resp, err := rt.RoundTrip(req)
	r := caseResult{Resp: resp, Err: err, Elapsed: time.Since(start)}
	assert.NotEqual(t, resp == nil, err == nil, "a response or an error, never both, never neither: %v", err)
	if resp != nil {
		r.Status = resp.StatusCode
		r.Body, r.ReadErr = caseRead(resp)
	}
	var ok bool
	r.Report, ok = outbound.ReportOf(resp, err)
	assert.True(t, ok, "no report of %v, %v", resp, err)
	return r
}

func caseRead(resp *http.Response) (string, error) {
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	return string(b), err
}

// caseOK is caseDo of a call that has to end with a complete 200.
func caseOK(t *testing.T, rt http.RoundTripper, req *http.Request) caseResult {
	t.Helper()
	r := caseDo(t, rt, req)
	require.NoError(t, r.Err)
	require.Equal(t, http.StatusOK, r.Status)
	require.NoError(t, r.ReadErr)
	return r
}

// caseHit is one request as a server saw it.
type caseHit struct {
	Method, Path, Host string
	Header             http.Header
	Body               []byte
	Length             int64
	Encoding           []string
	Trailer            http.Header
	Close              bool
	At                 time.Time
}

// Keys are the values of the key header, under any spelling.
func (h caseHit) Keys(name string) []string {
	var keys []string
	for spelled, values := range h.Header {
		if http.CanonicalHeaderKey(spelled) == http.CanonicalHeaderKey(name) {
			keys = append(keys, values...)
		}
	}
	return keys
}

type caseLog struct {
	mu   sync.Mutex
	hits []caseHit
}

// add reads the request to its end and notes it; n is 0 for the first.
func (l *caseLog) add(r *http.Request) (n int) {
	hit := caseHit{
		Method: r.Method, Path: r.URL.Path, Host: r.Host, Header: r.Header.Clone(), Length: r.ContentLength,
		Encoding: slices.Clone(r.TransferEncoding), Close: r.Close, At: time.Now(),
	}
	l.mu.Lock()
	n = len(l.hits)
	l.hits = append(l.hits, hit)
	l.mu.Unlock()
	if r.Body == nil {
		return n
	}
	body, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hits[n].Body, l.hits[n].Trailer = body, r.Trailer.Clone()
	return n
}

func (l *caseLog) all() []caseHit {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.hits)
}

func (l *caseLog) count() int { return len(l.all()) }

// countAt counts the hits of one path.
func (l *caseLog) countAt(path string) int {
	n := 0
	for _, h := range l.all() {
		if h.Path == path {
			n++
		}
	}
	return n
}

// caseSameKey requires one key, once, on each hit, and returns it.
func caseSameKey(t *testing.T, hits []caseHit) string {
	t.Helper()
	require.NotEmpty(t, hits)
	first := hits[0].Keys("Idempotency-Key")
	for i, h := range hits {
		require.Len(t, h.Keys("Idempotency-Key"), 1, "hit %d", i+1)
		require.Equal(t, first, h.Keys("Idempotency-Key"), "hit %d", i+1)
	}
	require.NotEmpty(t, first[0])
	return first[0]
}

func caseSameBody(t *testing.T, hits []caseHit, want string) {
	t.Helper()
	for i, h := range hits {
		require.Equal(t, want, string(h.Body), "body of hit %d", i+1)
	}
}

// caseWaits are the waits before the second and each later attempt.
func caseWaits(r outbound.Report) []time.Duration {
	var waits []time.Duration
	for _, a := range r.Attempts[min(1, len(r.Attempts)):] {
		waits = append(waits, a.Wait)
	}
	return waits
}

// caseBase is a scripted fake Base; the last step repeats.
type caseBase struct {
	caseLog
	steps  []caseStep
	bodies []*caseBody // of the replies, in order; guarded by mu
}

type caseStep func(*http.Request) (*http.Response, error)

func caseScript(steps ...caseStep) *caseBase { return &caseBase{steps: steps} }

func (b *caseBase) RoundTrip(r *http.Request) (*http.Response, error) {
	n := b.add(r)
	resp, err := b.steps[min(n, len(b.steps)-1)](r)
	if resp == nil {
		return nil, err
	}
	resp.Request = r
	if resp.Body != nil && resp.Body != http.NoBody {
		resp.Body = b.counted(resp.Body)
	}
	return resp, err
}

func (b *caseBase) counted(body io.ReadCloser) io.ReadCloser {
	c := &caseBody{ReadCloser: body}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bodies = append(b.bodies, c)
	return c
}

// closes is how often each reply's body was closed.
func (b *caseBase) closes() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	var n []int
	for _, body := range b.bodies {
		n = append(n, int(body.closed.Load()))
	}
	return n
}

// caseBody counts.
type caseBody struct {
	io.ReadCloser
	taken, closed atomic.Int64
}

func (b *caseBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.taken.Add(int64(n))
	return n, err
}

func (b *caseBody) Close() error {
	b.closed.Add(1)
	return b.ReadCloser.Close()
}

func caseResponse(status int, body string, header ...string) *http.Response {
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: caseHeader(header...), Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func caseReply(status int, header ...string) caseStep { return caseReplyWith(status, "{}", header...) }

func caseReplyWith(status int, body string, header ...string) caseStep {
	return func(*http.Request) (*http.Response, error) { return caseResponse(status, body, header...), nil }
}

func caseErr(err error) caseStep {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// caseStall never answers.
func caseStall(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// caseServer is a scripted server over net/http; the last act repeats.
type caseServer struct {
	caseLog
	acts  []http.HandlerFunc
	URL   string
	base  *http.Transport // finds and trusts it
	conns atomic.Int32    // accepted
	dials atomic.Int32    // of base
}

func (s *caseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.acts[min(s.add(r), len(s.acts)-1)](w, r)
}

// caseServe is a server on a loopback socket that speaks HTTP/1.
func caseServe(t *testing.T, acts ...http.HandlerFunc) *caseServer {
	t.Helper()
	return caseListen(t, (*httptest.Server).Start, acts)
}

// caseServeH2 is a server on a loopback socket that speaks HTTP/2 over TLS.
func caseServeH2(t *testing.T, acts ...http.HandlerFunc) *caseServer {
	t.Helper()
	return caseListen(t, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() }, acts)
}

// caseServeTLS is a server on a loopback socket that speaks HTTP/1 over TLS.
func caseServeTLS(t *testing.T, acts ...http.HandlerFunc) *caseServer {
	t.Helper()
	return caseListen(t, (*httptest.Server).StartTLS, acts)
}

func caseListen(t *testing.T, start func(*httptest.Server), acts []http.HandlerFunc) *caseServer {
	s := &caseServer{acts: acts}
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	start(srv)
	t.Cleanup(srv.Close)
	s.URL, s.base = srv.URL, srv.Client().Transport.(*http.Transport)
	t.Cleanup(s.base.CloseIdleConnections)
	return s
}

// caseWires are the two ways over real sockets.
var caseWires = map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": caseServe, "HTTP2": caseServeH2}

// casePipe is a server over net.Pipe, for virtual time: call it in a bubble. Its URL is caseURL's host, whatever the name.
func casePipe(t *testing.T, acts ...http.HandlerFunc) *caseServer {
	t.Helper()
	return casePipeOf(t, http.Protocols{}, acts)
}

// casePipeH2 is casePipe with HTTP/2 in clear text.
func casePipeH2(t *testing.T, acts ...http.HandlerFunc) *caseServer {
	t.Helper()
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return casePipeOf(t, p, acts)
}

func casePipeOf(t *testing.T, protocols http.Protocols, acts []http.HandlerFunc) *caseServer {
	s := &caseServer{acts: acts, URL: "http://api.test"}
	l := newCaseListener()
	srv := &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	s.base = &http.Transport{DialContext: s.counting(l.dial)}
	if protocols != (http.Protocols{}) {
		srv.Protocols, s.base.Protocols = &protocols, &protocols
	}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	t.Cleanup(s.base.CloseIdleConnections)
	return s
}

type caseDial func(ctx context.Context, network, addr string) (net.Conn, error)

func (s *caseServer) counting(dial caseDial) caseDial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		s.dials.Add(1)
		return dial(ctx, network, addr)
	}
}

// failing lets the first dials fail, each with the next error.
func (s *caseServer) failing(errs ...error) *caseServer {
	next, n := s.base.DialContext, atomic.Int32{}
	s.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if i := int(n.Add(1)) - 1; i < len(errs) {
			s.dials.Add(1)
			return nil, errs[i]
		}
		return next(ctx, network, addr)
	}
	return s
}

func caseRefused() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

type caseListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newCaseListener() *caseListener {
	return &caseListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *caseListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *caseListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *caseListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (l *caseListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The acts of a scripted server. Each runs after the request was read to its end.

func caseSend(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Add(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// caseDrop closes without an answer; over HTTP/2 it resets the stream.
func caseDrop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// caseReset closes with linger 0.
func caseReset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// caseRaw writes just this and closes.
func caseRaw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
}

// caseCut sends so many bytes of a longer body, and breaks off.
func caseCut(status, length, sent int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Add(header[i], header[i+1])
		}
		if length >= 0 {
			w.Header().Set("Content-Length", caseItoa(length))
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Repeat("x", sent))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// caseHang never answers, until the client goes away.
func caseHang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// casePause waits, in virtual time, before it goes on to the act.
func casePause(d time.Duration, act http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			act(w, r)
		case <-r.Context().Done():
		}
	}
}

func caseItoa(n int) string { return strconv.Itoa(n) }

// caseHooks records what the hooks were told.
type caseHooks struct {
	mu       sync.Mutex
	attempts []outbound.Attempt
	retries  []outbound.Attempt
	waits    []time.Duration
	done     []outbound.Report
	changes  []outbound.CircuitChange
}

func (h *caseHooks) hooks() outbound.Hooks {
	return outbound.Hooks{
		Attempt: func(_ context.Context, a outbound.Attempt) { h.locked(func() { h.attempts = append(h.attempts, a) }) },
		Retry: func(_ context.Context, a outbound.Attempt, wait time.Duration) {
			h.locked(func() { h.retries, h.waits = append(h.retries, a), append(h.waits, wait) })
		},
		Done:    func(_ context.Context, r outbound.Report) { h.locked(func() { h.done = append(h.done, r) }) },
		Circuit: func(c outbound.CircuitChange) { h.locked(func() { h.changes = append(h.changes, c) }) },
	}
}

func (h *caseHooks) locked(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// caseCircuit is the only circuit there is.
func caseCircuit(t *testing.T, tr *outbound.Transport) outbound.Circuit {
	t.Helper()
	circuits := tr.Circuits()
	require.Len(t, circuits, 1)
	return circuits[0]
}

// caseHalfOpen waits, in virtual time, until the only circuit lets a probe through.
func caseHalfOpen(t *testing.T, tr *outbound.Transport) {
	t.Helper()
	c := caseCircuit(t, tr)
	require.Equal(t, outbound.CircuitOpen, c.State)
	time.Sleep(time.Until(c.NextProbe) + time.Millisecond)
}

// caseHeap is what lives on the heap.
func caseHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// caseZeros yields so many zero bytes, and looks at the heap on its way.
type caseZeros struct {
	left, sinceLook int64
	start           int64
	peak            atomic.Int64
}

const caseLookEvery = 8 << 20

func newCaseZeros(size int64) *caseZeros { return &caseZeros{left: size, start: caseHeap()} }

func (z *caseZeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left, 32<<10))
	clear(p[:n])
	z.left -= int64(n)
	if z.sinceLook += int64(n); z.sinceLook >= caseLookEvery {
		z.sinceLook = 0
		z.peak.Store(max(z.peak.Load(), caseHeap()-z.start))
	}
	return n, nil
}

func (z *caseZeros) Close() error { return nil }

// caseH2Raw is a bare HTTP/2 server in clear text that answers a request with frames of its own.
type caseH2Raw struct {
	caseLog
	URL   string
	base  *http.Transport
	reply func(n int, stream uint32) (frames []byte, hangUp bool)
}

func caseServeFrames(t *testing.T, reply func(n int, stream uint32) (frames []byte, hangUp bool)) *caseH2Raw {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	s := &caseH2Raw{URL: "http://" + l.Addr().String(), base: &http.Transport{Protocols: &p}, reply: reply}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go s.serve(conn)
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	t.Cleanup(s.base.CloseIdleConnections)
	return s
}

const (
	caseFrameData     = 0
	caseFrameHeaders  = 1
	caseFrameReset    = 3
	caseFrameSettings = 4
	caseFramePing     = 6
	caseFrameGoAway   = 7
	caseFlagEnd       = 1 // END_STREAM, and ACK of settings and pings
	caseFlagHeaders   = 4 // END_HEADERS
)

func caseFrame(kind, flags byte, stream uint32, payload ...byte) []byte {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

func caseFrameOK(stream uint32) []byte {
	return caseFrame(caseFrameHeaders, caseFlagEnd|caseFlagHeaders, stream, 0x88)
}

func caseFrameRST(stream uint32, code byte) []byte {
	return caseFrame(caseFrameReset, 0, stream, 0, 0, 0, code)
}

func caseFrameGone(last uint32) []byte {
	return caseFrame(caseFrameGoAway, 0, 0, append(binary.BigEndian.AppendUint32(nil, last), 0, 0, 0, 0)...)
}

func (s *caseH2Raw) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if _, err := io.CopyN(io.Discard, conn, 24); err != nil { // the preface
		return
	}
	_, _ = conn.Write(caseFrame(caseFrameSettings, 0, 0))
	bodies := map[uint32]*bytes.Buffer{}
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[:4])>>8)
		if _, err := io.ReadFull(conn, payload); err != nil {
			return
		}
		if hangUp := s.frame(conn, bodies, head, payload); hangUp {
			_, _ = io.Copy(io.Discard, conn) // what the client still says; it hangs up after a GOAWAY
			return
		}
	}
}

func (s *caseH2Raw) frame(conn net.Conn, bodies map[uint32]*bytes.Buffer, head [9]byte, payload []byte) (hangUp bool) {
	kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
	switch {
	case (kind == caseFrameSettings || kind == caseFramePing) && flags&caseFlagEnd == 0:
		if kind == caseFrameSettings {
			payload = nil
		}
		_, _ = conn.Write(caseFrame(kind, caseFlagEnd, 0, payload...))
	case kind == caseFrameHeaders:
		bodies[stream] = &bytes.Buffer{}
	case kind == caseFrameData && bodies[stream] != nil:
		bodies[stream].Write(payload)
	}
	if (kind != caseFrameHeaders && kind != caseFrameData) || flags&caseFlagEnd == 0 {
		return false
	}
	s.mu.Lock()
	n := len(s.hits)
	s.hits = append(s.hits, caseHit{Body: bodies[stream].Bytes()})
	s.mu.Unlock()
	frames, hangUp := s.reply(n, stream)
	_, _ = conn.Write(frames)
	return hangUp
}

// caseCancelAfter is the test's context, cancelled so much later.
func caseCancelAfter(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(d, cancel)
	return ctx, cancel
}

// caseNoMore is a wait that no call lives to see: it outlasts every total timeout, so asking for it ends the call at once.
const caseNoMore = time.Duration(math.MaxInt64 / 4)

var errCase = errors.New("a stranger's error")
