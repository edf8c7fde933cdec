package wire

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// http2Step is what the server does with a stream. It reports whether the connection goes on.
type http2Step struct {
	early bool // act on the request's head, not at its end
	act   func(*stream) (goOn bool)
}

// http2Server speaks HTTP/2 in single frames, over TLS or in the clear, keeps every request, and does what the script of its
// path says.
type http2Server struct {
	ledger[http2Step]
	listener net.Listener
	secure   *tls.Config // nil: in the clear
	roots    *x509.CertPool
	open     map[*http2Conn]bool // guarded by mu
}

func newHTTP2Server(t testing.TB, secure bool) *http2Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http2Server{listener: l, open: map[*http2Conn]bool{}}
	s.init()
	if secure {
		s.secure, s.roots = certificate(t)
	}
	go s.accept()
	t.Cleanup(func() {
		_ = l.Close()
		s.cutAll(false)
	})
	return s
}

// certificate is a new one for the loopback address, signed by itself.
func certificate(t testing.TB) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	pair := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
	return &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}, roots
}

func (s *http2Server) url() string {
	if s.secure != nil {
		return "https://" + s.listener.Addr().String()
	}
	return "http://" + s.listener.Addr().String()
}

func (s *http2Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := &http2Conn{server: s, tcp: conn.(*net.TCPConn), streams: map[uint32]*stream{}}
		c.number = s.opened()
		s.note(c, true)
		go c.serve()
	}
}

func (s *http2Server) note(c *http2Conn, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.open[c] = true
	} else {
		delete(s.open, c)
	}
}

func (s *http2Server) openConns() []*http2Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*http2Conn
	for c := range s.open {
		all = append(all, c)
	}
	return all
}

func (s *http2Server) cut(client net.Addr, reset bool) {
	for _, c := range s.openConns() {
		if c.tcp.RemoteAddr().String() == client.String() {
			c.end(reset)
		}
	}
}

func (s *http2Server) cutAll(reset bool) {
	for _, c := range s.openConns() {
		c.end(reset)
	}
}

// settle waits until all that the client wrote was read: each of its connections was accepted, and has ended or answered
// a ping, which follows what was written before.
func (s *http2Server) settle(t testing.TB, dialed int) {
	t.Helper()
	s.await(t, "for connections to be accepted", func() bool { return s.conns >= dialed })
	pinged := map[*http2Conn]int{}
	for _, c := range s.openConns() {
		pinged[c] = c.ping()
	}
	s.await(t, "for pings", func() bool {
		for c, n := range pinged {
			if s.open[c] && c.pongs < n {
				return false
			}
		}
		return true
	})
}

// http2Conn is one connection on the server's side.
type http2Conn struct {
	server  *http2Server
	number  int
	count   int
	tcp     *net.TCPConn
	streams map[uint32]*stream // what the client sends on; used by the reading goroutine only

	writing sync.Mutex
	framer  *http2.Framer // nil until the preface is in; writes are guarded by writing
	pings   int           // guarded by writing
	pongs   int           // guarded by the server's mu
}

// stream is one request, and the place to answer it.
type stream struct {
	*http2Conn
	id   uint32
	seen *seen
	step http2Step
}

func (c *http2Conn) serve() {
	defer c.server.closed()
	defer c.server.note(c, false)
	defer func() { _ = c.tcp.Close() }()
	conn := net.Conn(c.tcp)
	if c.server.secure != nil {
		conn = tls.Server(c.tcp, c.server.secure)
	}
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.writing.Lock()
	c.framer = framer
	_ = framer.WriteSettings()
	c.catchUp()
	c.writing.Unlock()
	for {
		f, err := framer.ReadFrame()
		if err != nil || !c.take(f) {
			return
		}
	}
}

// catchUp sends the pings that were asked for before the connection stood. It runs under writing.
func (c *http2Conn) catchUp() {
	for n := 1; n <= c.pings; n++ {
		_ = c.framer.WritePing(false, pingData(n))
	}
}

func pingData(n int) (data [8]byte) {
	copy(data[:], fmt.Sprintf("%08d", n))
	return data
}

// ping asks for a sign, and returns how many will have come when it does.
func (c *http2Conn) ping() int {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.pings++
	if c.framer != nil {
		_ = c.framer.WritePing(false, pingData(c.pings))
	}
	return c.pings
}

func (c *http2Conn) write(frame func(*http2.Framer) error) bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	return frame(c.framer) == nil
}

// end closes the connection below TLS.
func (c *http2Conn) end(reset bool) {
	if reset {
		_ = c.tcp.SetLinger(0)
	}
	_ = c.tcp.Close()
}

// take handles one frame.
func (c *http2Conn) take(f http2.Frame) (goOn bool) {
	switch f := f.(type) {
	case *http2.SettingsFrame:
		return f.IsAck() || c.write((*http2.Framer).WriteSettingsAck)
	case *http2.PingFrame:
		c.takePing(f)
	case *http2.MetaHeadersFrame:
		return c.takeHeaders(f)
	case *http2.DataFrame:
		return c.takeData(f)
	}
	return true
}

func (c *http2Conn) takePing(f *http2.PingFrame) {
	if !f.IsAck() {
		c.write(func(fr *http2.Framer) error { return fr.WritePing(true, f.Data) })
		return
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.pongs++
	c.server.changed.Broadcast()
}

func (c *http2Conn) takeHeaders(f *http2.MetaHeadersFrame) (goOn bool) {
	if s := c.streams[f.StreamID]; s != nil {
		c.server.update(s.seen, func(e *seen) { e.trailers = fieldsOf(f.RegularFields()) })
		return s.finish()
	}
	c.count++
	method, path := f.PseudoValue("method"), f.PseudoValue("path")
	s := &stream{http2Conn: c, id: f.StreamID, seen: &seen{
		conn: c.number, nth: c.count, line: method + " " + path, method: method, fields: fieldsOf(f.RegularFields()),
	}}
	s.step = c.server.arrive(path, s.seen)
	if s.step.act == nil {
		s.step = answer2(200, "ok")
	}
	c.streams[f.StreamID] = s
	if s.step.early && !s.step.act(s) {
		return false
	}
	return !f.StreamEnded() || s.finish()
}

func fieldsOf(list []hpack.HeaderField) []field {
	var fields []field
	for _, f := range list {
		fields = append(fields, field{f.Name, f.Value})
	}
	return fields
}

func (c *http2Conn) takeData(f *http2.DataFrame) (goOn bool) {
	if n := uint32(len(f.Data())); n > 0 { // the next streams need the room
		c.write(func(fr *http2.Framer) error { return fr.WriteWindowUpdate(0, n) })
	}
	s := c.streams[f.StreamID]
	if s == nil {
		return true
	}
	c.server.update(s.seen, func(e *seen) { e.body += string(f.Data()) })
	return !f.StreamEnded() || s.finish()
}

// finish notes that the request came whole, and acts on it.
func (s *stream) finish() (goOn bool) {
	s.server.update(s.seen, func(e *seen) { e.ended = true })
	return s.step.early || s.step.act(s)
}

func (s *stream) headers(last bool, pairs ...string) bool {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i < len(pairs); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return s.write(func(fr *http2.Framer) error {
		return fr.WriteHeaders(http2.HeadersFrameParam{
			StreamID: s.id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: last,
		})
	})
}

func (s *stream) data(last bool, text string) bool {
	return s.write(func(fr *http2.Framer) error { return fr.WriteData(s.id, last, []byte(text)) })
}

// answer2 reads the request and answers it.
func answer2(status int, body string) http2Step {
	return http2Step{act: func(s *stream) bool {
		return s.headers(false, ":status", strconv.Itoa(status), "content-type", "text/plain",
			"content-length", strconv.Itoa(len(body))) && s.data(true, body)
	}}
}

// resetStream resets the stream: before the work, when only the head is in, or after it.
func resetStream(code http2.ErrCode, early bool) http2Step {
	return http2Step{early: early, act: func(s *stream) bool {
		return s.write(func(fr *http2.Framer) error { return fr.WriteRSTStream(s.id, code) })
	}}
}

// hintAndReset sends an interim answer, and then resets the stream.
func hintAndReset(code http2.ErrCode) http2Step {
	return http2Step{act: func(s *stream) bool {
		return s.headers(false, ":status", "103", "link", "</a>; rel=preload") && resetStream(code, false).act(s)
	}}
}

// goAway says that this stream was not handled (below), or was, and may hang up then.
func goAway(below, hangUp, early bool) http2Step {
	return http2Step{early: early, act: func(s *stream) bool {
		last := s.id
		if below {
			last = max(s.id, 2) - 2
		}
		s.write(func(fr *http2.Framer) error { return fr.WriteGoAway(last, http2.ErrCodeNo, nil) })
		return !hangUp
	}}
}

// closeConn ends the connection: with a FIN, or with a reset.
func closeConn(reset, early bool) http2Step {
	return http2Step{early: early, act: func(s *stream) bool {
		s.end(reset)
		return false
	}}
}

// breakOff answers, and resets the stream in the middle of the body.
func breakOff() http2Step {
	return http2Step{act: func(s *stream) bool {
		return s.headers(false, ":status", "200", "content-type", "text/plain", "content-length", "10") && s.data(false, "half") &&
			s.write(func(fr *http2.Framer) error { return fr.WriteRSTStream(s.id, http2.ErrCodeInternal) })
	}}
}
