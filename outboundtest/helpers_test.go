package outboundtest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound/outboundtest"
)

const order7 = `{"amount":1234,"currency":"EUR","order":"order-7"}`

// soon bounds what is expected to take no time at all.
const soon = 10 * time.Second

// answer is what a client saw of a request.
type answer struct {
	status int
	header http.Header
	last   bool // the reply says that the connection closes
	body   string
	err    error // of the request, or of reading the body
}

func (a answer) replayed() bool { return a.header.Get("Idempotent-Replayed") == "true" }

// freshConns is a client that opens a connection for every request.
func freshConns(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: soon}
}

// do sends a request; an empty key sends none.
func do(client *http.Client, method, url, key, body string) answer {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return answerTo(client, req)
}

// send sends a request on a connection of its own.
func send(t *testing.T, req *http.Request) answer {
	t.Helper()
	a := answerTo(freshConns(t), req)
	require.NoError(t, a.err)
	return a
}

func answerTo(client *http.Client, req *http.Request) answer {
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, last: resp.Close, body: string(b), err: err}
}

func post(t *testing.T, gw *outboundtest.Gateway, key, body string) answer {
	t.Helper()
	return do(freshConns(t), http.MethodPost, gw.PaymentsURL(), key, body)
}

func get(t *testing.T, gw *outboundtest.Gateway, pathAndQuery string) answer {
	t.Helper()
	a := do(freshConns(t), http.MethodGet, gw.URL+pathAndQuery, "", "")
	require.NoError(t, a.err)
	return a
}

// wire is a raw connection.
type wire struct {
	*net.TCPConn
	in *bufio.Reader
}

func address(gw *outboundtest.Gateway) string { return strings.TrimPrefix(gw.URL, "http://") }

func dial(t *testing.T, gw *outboundtest.Gateway) wire {
	t.Helper()
	c, err := net.Dial("tcp", address(gw))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(soon)))
	return wire{TCPConn: c.(*net.TCPConn), in: bufio.NewReader(c)}
}

// send writes and leaves it to the reading to find the connection broken.
func (w wire) send(s string) { _, _ = io.WriteString(w.TCPConn, s) }

// reply reads one reply.
func (w wire) reply(t *testing.T) answer {
	t.Helper()
	resp, err := http.ReadResponse(w.in, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, last: resp.Close, body: string(b), err: err}
}

// rest reads until the connection ends; the error is nil for EOF.
func (w wire) rest() (string, error) {
	b, err := io.ReadAll(w.in)
	return string(b), err
}

// rawPost is a POST as it goes over the wire.
func rawPost(key, body string) string {
	return fmt.Sprintf("POST /v1/payments HTTP/1.1\r\nHost: gw\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
		key, len(body), body)
}

// eventually polls for what a goroutine does after the client can tell.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); time.Now().Before(end); runtime.Gosched() {
		if cond() {
			return
		}
	}
	assert.Fail(t, "never came true", what)
}

func script(faults ...outboundtest.Fault) outboundtest.Config {
	return outboundtest.Config{Script: faults}
}
