package outboundtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	// maxHead bounds a request's line and headers, in bytes.
	maxHead = 64 << 10
	// maxBody bounds a request's body, in bytes.
	maxBody = 1 << 20
	// linger is how long a closed connection is still read from, so that what
	// the client has under way does not turn the FIN into an RST.
	linger = 500 * time.Millisecond
)

// refusal is a request that cannot be read and gets an answer for it.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

var errTooLarge = &refusal{http.StatusRequestEntityTooLarge, "the body is too large"}

// conn is one connection.
type conn struct {
	*net.TCPConn
	ctx    context.Context // ends when the server stops
	number int
	limit  *io.LimitedReader
	in     *bufio.Reader // reads from limit, which reads from the connection
}

func newConn(ctx context.Context, c *net.TCPConn, number int) *conn {
	limit := &io.LimitedReader{R: c}
	return &conn{TCPConn: c, ctx: ctx, number: number, limit: limit, in: bufio.NewReader(limit)}
}

// firstByte waits for the next request and leaves it unread.
func (c *conn) firstByte() (byte, error) {
	c.limit.N = maxHead
	b, err := c.in.Peek(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// readHead reads a request up to its body.
func (c *conn) readHead() (*http.Request, error) {
	req, err := http.ReadRequest(c.in)
	if err != nil && c.limit.N <= 0 {
		return nil, &refusal{http.StatusRequestHeaderFieldsTooLarge, "the headers are too large"}
	}
	c.limit.N = math.MaxInt64
	return req, refused(err)
}

// readBody reads the request's body whole, after asking for it if the client
// waits to be asked.
func (c *conn) readBody(req *http.Request) ([]byte, error) {
	if req.ContentLength > maxBody {
		return nil, errTooLarge
	}
	if req.ProtoAtLeast(1, 1) && strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
		if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, err
		}
	}
	var body bytes.Buffer
	n, err := body.ReadFrom(io.LimitReader(req.Body, maxBody+1))
	if n > maxBody {
		return nil, errTooLarge
	}
	return body.Bytes(), refused(err)
}

// refused makes a refusal of an error of the request's own making. Those of
// the connection stay what they are.
func refused(err error) error {
	var broken *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &broken):
		return err
	}
	return &refusal{http.StatusBadRequest, "malformed request: " + err.Error()}
}

// drain reads until the client goes away, the deadline comes or the server
// stops; it makes no difference which.
func (c *conn) drain() { _, _ = io.Copy(io.Discard, c.TCPConn) }

// end leaves the connection as the end says. The server closes it after that.
func (c *conn) end(e End) {
	switch e {
	case RST:
		_ = c.SetLinger(0)
	case Silence:
		c.drain()
	default:
		_ = c.CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(linger))
		c.drain()
	}
}
