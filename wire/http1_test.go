package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// http1Step is what the server does with a request whose head it has read. It reports whether the connection goes on.
type http1Step func(*exchange) (goOn bool)

// http1Server reads HTTP/1.1 from raw TCP, keeps every request as it was sent, and does what the script of its path says.
type http1Server struct {
	ledger[http1Step]
	listener net.Listener
	kept     sync.Map // the client's address → *http1Conn
}

func newHTTP1Server(t testing.TB) *http1Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &http1Server{listener: l}
	s.init()
	go s.accept()
	t.Cleanup(func() {
		_ = l.Close()
		s.kept.Range(func(_, c any) bool {
			_ = c.(*http1Conn).tcp.Close()
			return true
		})
	})
	return s
}

func (s *http1Server) url() string { return "http://" + s.listener.Addr().String() }

func (s *http1Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := &http1Conn{server: s, tcp: conn.(*net.TCPConn), r: bufio.NewReader(conn)}
		s.kept.Store(conn.RemoteAddr().String(), c)
		c.number = s.opened()
		go c.serve()
	}
}

// settle waits until all that the client wrote was read: each of its connections was accepted, and has ended.
func (s *http1Server) settle(t testing.TB, dialed int) {
	t.Helper()
	s.await(t, "for connections to end", func() bool { return s.conns >= dialed && s.live == 0 })
}

// cut ends a kept connection from the server's side: with a FIN, or with a reset.
func (s *http1Server) cut(client net.Addr, reset bool) {
	if c, ok := s.kept.Load(client.String()); ok {
		c.(*http1Conn).end(reset)
	}
}

// cutAll ends every kept connection.
func (s *http1Server) cutAll(reset bool) {
	s.kept.Range(func(_, c any) bool {
		c.(*http1Conn).end(reset)
		return true
	})
}

// http1Conn is one connection on the server's side.
type http1Conn struct {
	server *http1Server
	number int
	count  int
	tcp    *net.TCPConn
	r      *bufio.Reader
}

func (c *http1Conn) serve() {
	defer c.server.closed()
	defer c.server.kept.Delete(c.tcp.RemoteAddr().String())
	defer func() { _ = c.tcp.Close() }()
	for {
		x, path, err := c.readHead()
		if err != nil {
			return
		}
		step := c.server.arrive(path, x.seen)
		if step == nil {
			step = answer(200, "ok")
		}
		if !step(x) {
			return
		}
	}
}

// end closes the connection; it returns when it is closed.
func (c *http1Conn) end(reset bool) {
	if reset {
		_ = c.tcp.SetLinger(0)
	}
	_ = c.tcp.Close()
}

func (c *http1Conn) readHead() (x *exchange, path string, err error) {
	line, err := c.readLine()
	if err != nil {
		return nil, "", err
	}
	fields, err := c.readFields()
	if err != nil {
		return nil, "", err
	}
	c.count++
	method, rest, _ := strings.Cut(line, " ")
	path, _, _ = strings.Cut(rest, " ")
	return &exchange{c, &seen{conn: c.number, nth: c.count, line: line, method: method, fields: fields}}, path, nil
}

func (c *http1Conn) readLine() (string, error) {
	line, err := c.r.ReadString('\n')
	return strings.TrimSuffix(line, "\r\n"), err
}

func (c *http1Conn) readFields() ([]field, error) {
	var fields []field
	for {
		line, err := c.readLine()
		if err != nil || line == "" {
			return fields, err
		}
		name, value, _ := strings.Cut(line, ":")
		fields = append(fields, field{name, strings.TrimPrefix(value, " ")})
	}
}

// exchange is one request and the connection to answer it on.
type exchange struct {
	*http1Conn
	seen *seen
}

// readBody reads the body and its trailers. It reports whether they came whole.
func (x *exchange) readBody() bool {
	body, trailers, err := x.takeBody()
	x.server.update(x.seen, func(s *seen) { s.body, s.trailers, s.ended = body, trailers, err == nil })
	return err == nil
}

func (x *exchange) takeBody() (body string, trailers []field, err error) {
	if strings.EqualFold(x.seen.value("Transfer-Encoding"), "chunked") {
		b, err := io.ReadAll(httputil.NewChunkedReader(x.r))
		if err != nil {
			return string(b), nil, err
		}
		trailers, err = x.readFields()
		return string(b), trailers, err
	}
	length, _ := strconv.Atoi(x.seen.value("Content-Length"))
	b := make([]byte, length)
	n, err := io.ReadFull(x.r, b)
	return string(b[:n]), nil, err
}

func (x *exchange) write(text string) bool {
	_, err := io.WriteString(x.tcp, text)
	return err == nil
}

// reply is a whole reply with a plain body.
func reply(status int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d Scripted\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// answer reads the request and answers it.
func answer(status int, body string) http1Step {
	return func(x *exchange) bool { return x.readBody() && x.write(reply(status, body)) }
}

// say reads the request, says these bytes, and hangs up.
func say(text string) http1Step {
	return func(x *exchange) bool {
		if x.readBody() {
			x.write(text)
		}
		return false
	}
}

// hangUp reads the request and ends the connection: with a FIN, or with a reset.
func hangUp(reset bool) http1Step {
	return func(x *exchange) bool {
		x.readBody()
		x.end(reset)
		return false
	}
}

// silence reads the request, and waits for the client to go away.
func silence(x *exchange) bool {
	x.readBody()
	_, _ = io.Copy(io.Discard, x.r)
	return false
}
