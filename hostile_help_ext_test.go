package outbound_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
)

const (
	hostileMark  = "s3cr3t"         // is in all that the hostile servers and callers send, and must be in no error
	hostileLimit = 32 << 20         // how far the heap may grow
	hostileFlood = 96 << 20         // what an endless server sends at most; a client that took it all did not hang up
	hostileRead  = 2 << 20          // what the caller reads of a reply
	hostileSoon  = 10 * time.Second // bounds a poll; what is polled for comes at once or not at all
)

// hostileConn is a server's end of one connection.
type hostileConn struct {
	*net.TCPConn
	s *hostileServer
}

func (c hostileConn) say(text string) { _, _ = io.WriteString(c.TCPConn, text) }

// flood sends what next yields, over and over, until the client hangs up, and looks at the heap meanwhile.
func (c hostileConn) flood(next func() []byte) {
	for sent, looked := 0, 0; ; {
		n, err := c.Write(next())
		if err != nil {
			return
		}
		if sent += n; sent-looked >= 1<<20 {
			looked = sent
			c.s.grown()
		}
		if sent > hostileFlood {
			c.s.overrun.Store(true)
			return
		}
	}
}

// hostileServer is a bare server on a loopback socket: it reads requests, and does to each what its row says.
type hostileServer struct {
	listener net.Listener
	addr     string
	hits     atomic.Int32
	overrun  atomic.Bool
	conns    sync.WaitGroup // accept loop and connections

	heap int64
	mu   sync.Mutex
	peak int64
	open []net.Conn

	idle, gone chan struct{} // closed by the tests that need them
}

func (s *hostileServer) url() string { return "http://" + s.addr + "/v1/payments" }

// grown looks at the heap, and is how far it has grown at most.
func (s *hostileServer) grown() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peak = max(s.peak, caseHeap()-s.heap)
	return s.peak
}

// hostileAct answers one request, and says whether the server keeps the connection.
type hostileAct func(c hostileConn, n int) (keep bool)

// hostileServe starts a server. A client that hangs up ends what it does on a connection; the test's end ends all.
func hostileServe(t *testing.T, act hostileAct) *hostileServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &hostileServer{listener: l, addr: l.Addr().String(), heap: caseHeap(), idle: make(chan struct{}), gone: make(chan struct{})}
	s.conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.open = append(s.open, conn)
			s.mu.Unlock()
			s.conns.Go(func() { s.serve(hostileConn{conn.(*net.TCPConn), s}, act) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, conn := range s.open {
			_ = conn.Close()
		}
	})
	return s
}

func (s *hostileServer) serve(c hostileConn, act hostileAct) {
	defer func() { _ = c.Close() }()
	for r := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		n := int(s.hits.Add(1))
		if req.Header.Get("X-Unread") == "" {
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
		}
		if !act(c, n) {
			return
		}
	}
}

// hostileBytes sends these bytes and waits for the client to go on or to hang up.
func hostileBytes(text string) hostileAct {
	return func(c hostileConn, _ int) bool { c.say(text); return true }
}

// hostileCut sends these bytes and closes.
func hostileCut(text string) hostileAct {
	return func(c hostileConn, _ int) bool { c.say(text); return false }
}

// hostileReset sends these bytes and resets.
func hostileReset(text string) hostileAct {
	return func(c hostileConn, _ int) bool { c.say(text); _ = c.SetLinger(0); return false }
}

// hostileEndless sends the head, and then the unit for ever.
func hostileEndless(head, unit string) hostileAct {
	block := []byte(strings.Repeat(unit, max(1, (64<<10)/len(unit))))
	return func(c hostileConn, _ int) bool {
		c.say(head)
		c.flood(func() []byte { return block })
		return false
	}
}

// hostileNames sends header fields with ever new short names.
func hostileNames(c hostileConn, _ int) bool {
	c.say("HTTP/1.1 200 OK\r\n")
	var block []byte
	n := 0
	c.flood(func() []byte {
		for block = block[:0]; len(block) < 64<<10; n++ {
			block = fmt.Appendf(block, "%x:\r\n", n)
		}
		return block
	})
	return false
}

func hostileChunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// hostileGzip is so many zeros, compressed.
func hostileGzip(zeros int) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, zeros))
	_ = z.Close()
	return b.String()
}

// hostileDoer is the Transport as http.Client uses it, with what holds for every hop: one of response and error, and an
// error that says nothing of what was sent.
type hostileDoer struct {
	t  *testing.T
	rt *outbound.Transport
}

func (d hostileDoer) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.rt.RoundTrip(req)
	assert.NotEqual(d.t, resp == nil, err == nil, "one of response and error: %v, %v", resp, err)
	r, ok := outbound.ReportOf(resp, err)
	assert.True(d.t, ok, "a report")
	hostileClean(d.t, err, r)
	return resp, err
}

func (d hostileDoer) CloseIdleConnections() { d.rt.CloseIdleConnections() }

// hostileClean holds where no text of the error or the report has anything of what the other side said.
func hostileClean(t *testing.T, err error, r outbound.Report) {
	t.Helper()
	texts := []string{fmt.Sprint(err), fmt.Sprintf("%+v", err), fmt.Sprint(r.Stopped), r.URL, r.Method}
	for _, a := range r.Attempts {
		texts = append(texts, fmt.Sprint(a.Err), fmt.Sprintf("%+v", a.Err), a.URL)
	}
	for _, text := range texts {
		assert.NotContains(t, strings.ToLower(text), hostileMark)
		assert.Less(t, len(text), 1000)
	}
}

// hostileGoroutines waits until no more goroutines run than before.
func hostileGoroutines(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(hostileSoon); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, and %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

// hostileBegin is how many goroutines run. It takes net/http's own remarks on what a server sent unasked.
func hostileBegin(t *testing.T) (goroutines int) {
	log.SetOutput(io.Discard)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	return runtime.NumGoroutine()
}

// hostileEnd holds where the client has hung up on every connection and no goroutine is left.
func hostileEnd(t *testing.T, client *http.Client, s *hostileServer, before int) {
	t.Helper()
	client.CloseIdleConnections()
	_ = s.listener.Close()
	done := make(chan struct{})
	go func() { s.conns.Wait(); close(done) }()
	hostileWait(t, done, "the client still holds a connection")
	hostileGoroutines(t, before)
}

func hostileWait(t *testing.T, done <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(hostileSoon):
		t.Fatal(otherwise)
	}
}

// hostileClient has the Base of its own where base is nil. It makes at most two attempts.
func hostileClient(t *testing.T, base http.RoundTripper) *http.Client {
	t.Helper()
	tr := newTransport(t, outbound.Config{Base: base, Retry: outbound.RetryPolicy{MaxAttempts: 2, Backoff: fixed(0)}})
	return &http.Client{Transport: hostileDoer{t, tr}}
}

func hostileRequest(t *testing.T, s *hostileServer, method, body string) *http.Request {
	t.Helper()
	if method != http.MethodPost {
		body = ""
	}
	return newRequest(t, t.Context(), method, s.url(), body)
}

// hostileCall makes the call and says what came of it.
func hostileCall(t *testing.T, client *http.Client, s *hostileServer, row hostileRow, req *http.Request) (got hostileWant) {
	t.Helper()
	if row.once {
		req = req.WithContext(outbound.WithOverride(req.Context(), outbound.Override{MaxAttempts: 1}))
	}
	resp, err := client.Do(req)
	if err != nil {
		got.err = hostileCause(err)
	} else {
		got.status = resp.StatusCode
		hostileReadReply(t, s, resp, row.unread, &got)
	}
	got.hits = int(s.hits.Load())
	got.outcome = outbound.OutcomeOf(resp, err)
	return got
}

func hostileReadReply(t *testing.T, s *hostileServer, resp *http.Response, unread bool, got *hostileWant) {
	t.Helper()
	if !unread {
		text, err := io.ReadAll(io.LimitReader(resp.Body, hostileRead))
		got.body = string(text)
		if err != nil {
			got.read = err.Error()
		}
	}
	s.grown()
	require.NoError(t, resp.Body.Close())
}

// hostileCause is the text of what Base itself returned, else of the error.
func hostileCause(err error) string {
	var e *outbound.Error
	if !errors.As(err, &e) || len(e.Report.Attempts) == 0 {
		return err.Error()
	}
	last := e.Report.Attempts[len(e.Report.Attempts)-1].Err
	if last == nil {
		return err.Error()
	}
	if inner := errors.Unwrap(last); inner != nil {
		last = inner
	}
	return last.Error()
}

// hostileCounted counts how often it is closed.
type hostileCounted struct {
	io.ReadCloser
	closed atomic.Int32
}

func (c *hostileCounted) Close() error {
	c.closed.Add(1)
	return c.ReadCloser.Close()
}

// hostileFailing is a body that gives its text and then an error.
func hostileFailing(text string) io.ReadCloser { return breaking(text, errHostile)(nil) }

// hostileThird is a GetBody that fails from its third call on: after the hash and the first attempt.
func hostileThird(n int) (io.ReadCloser, error) {
	if n > 2 {
		return nil, errHostile
	}
	return hostileReader("x"), nil
}

// hostileEmpty is a body whose Read returns nothing, and no error, so often that nobody should have gone on asking.
type hostileEmpty struct{ reads int }

const hostilePatience = 10_000

func (e *hostileEmpty) Read([]byte) (int, error) {
	if e.reads++; e.reads > hostilePatience {
		return 0, errHostile // else the test would never end
	}
	return 0, nil
}

func (e *hostileEmpty) Close() error { return nil }

func hostileIdle(*http.Request) io.ReadCloser { return &hostileEmpty{} }

func hostileURL(text string) url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return *u
}
