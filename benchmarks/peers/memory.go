package peers

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// memory is a transport without a network that does what the real one does wherever a layer above could notice: it asks for
// the context's end, tells a trace of its connection, reads and closes the request's body, and answers with a body that has
// to be read and closed. It takes one allocation for an answer.
type memory struct {
	reply  reply
	fails  int // how many 503 go before each 200; more than 0 only where one goroutine sends
	failed int
	conn   net.Conn
	wire   *Wire            // nil outside the smoke test: a shared counter would cost the second core
	onSent func(sent int64) // nil: nothing to do after a body was sent
}

// reply is what the transport answers with.
type reply struct {
	header http.Header
	text   []byte
	size   int64 // the text is repeated up to this size
}

// Wire counts what went over the wire.
type Wire struct {
	Requests, Bytes, Keys atomic.Int64
}

func (w *Wire) note(r *http.Request, sent int64) {
	if w == nil {
		return
	}
	w.Requests.Add(1)
	w.Bytes.Add(sent)
	if hasKey(r.Header) {
		w.Keys.Add(1)
	}
}

// hasKey finds the key under any spelling: outbound writes its name in lower case above an http.Transport.
func hasKey(h http.Header) bool {
	for name, values := range h {
		if strings.EqualFold(name, "Idempotency-Key") && values[0] != "" {
			return true
		}
	}
	return false
}

func newMemory(wire *Wire) *memory {
	conn, _ := net.Pipe()
	return &memory{
		reply: small(),
		conn:  conn,
		wire:  wire,
	}
}

func small() reply {
	return reply{header: http.Header{"Content-Type": {"application/json"}}, text: []byte(smallReply), size: int64(len(smallReply))}
}

// stream is a reply of 16 MiB without an announced length, in pieces of at most 32 KiB.
func stream() reply {
	return reply{header: http.Header{"Content-Type": {"application/x-ndjson"}}, text: make([]byte, 32<<10), size: streamed}
}

const streamed = 16 << 20

const smallReply = `{"id":"pay_1","amount":1234,"currency":"EUR","status":"done"}`

// base puts the transport beneath an *http.Transport. That is what every peer has beneath it by default, and some treat it
// otherwise than a transport that they do not know.
func (m *memory) base() http.RoundTripper {
	t := &http.Transport{}
	t.RegisterProtocol("http", m)
	return t
}

// RoundTrip answers at once.
func (m *memory) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	default:
	}
	m.tellConn(r)
	sent, err := send(r)
	if err != nil {
		return nil, err
	}
	m.wire.note(r, sent)
	if m.onSent != nil {
		m.onSent(sent)
	}
	return m.answer(r, m.status()), nil
}

func (m *memory) tellConn(r *http.Request) {
	trace := httptrace.ContextClientTrace(r.Context())
	if trace == nil {
		return
	}
	if trace.GetConn != nil {
		trace.GetConn(r.URL.Host)
	}
	if trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: m.conn, Reused: true})
	}
}

// send reads the body as a connection would, into a buffer of its own.
func send(r *http.Request) (sent int64, err error) {
	if r.Body == nil {
		return 0, nil
	}
	if r.Body != http.NoBody {
		sent, err = io.Copy(io.Discard, r.Body)
	}
	return sent, errors.Join(err, r.Body.Close())
}

func (m *memory) status() int {
	if m.fails == 0 {
		return http.StatusOK
	}
	if m.failed < m.fails {
		m.failed++
		return http.StatusServiceUnavailable
	}
	m.failed = 0
	return http.StatusOK
}

// answered is a response and its body in one allocation.
type answered struct {
	http.Response
	body replyBody
}

func (m *memory) answer(r *http.Request, status int) *http.Response {
	a := &answered{}
	a.body = replyBody{text: m.reply.text, left: m.reply.size}
	a.Response = http.Response{
		Status: statusTexts[status], StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: m.reply.header, Body: &a.body, ContentLength: m.reply.size, Request: r,
	}
	if m.reply.size == streamed {
		a.ContentLength = -1
	}
	return &a.Response
}

var statusTexts = map[int]string{http.StatusOK: "200 OK", http.StatusServiceUnavailable: "503 Service Unavailable"}

// replyBody gives the text again and again, up to the size. Its end comes with the last bytes, as net/http's does.
type replyBody struct {
	text []byte
	left int64
}

func (b *replyBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), b.left)], b.text)
	b.left -= int64(n)
	if b.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (b *replyBody) Close() error {
	b.left = 0
	return nil
}
