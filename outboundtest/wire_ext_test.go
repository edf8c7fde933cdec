package outboundtest_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ot "github.com/outbound-go/outbound/outboundtest"
)

func TestKeepAlive(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	c := dial(t, gw)
	c.send(rawPost("k1", order7) + rawPost("k2", order7)) // the second is pipelined
	assert.Equal(t, 201, c.reply(t).status)
	assert.Equal(t, 201, c.reply(t).status)
	c.send("GET /healthz HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n")
	assert.Equal(t, 200, c.reply(t).status)
	_, err := c.rest()
	require.NoError(t, err)

	rs := gw.Requests()
	require.Len(t, rs, 3)
	assert.Equal(t, 1, rs[1].Conn)
	assert.Equal(t, "POST", rs[1].Method)
	assert.Equal(t, "/v1/payments", rs[1].Path)
	assert.Equal(t, []string{"k2"}, rs[1].Keys)
	assert.Equal(t, "k2", rs[1].Header.Get("Idempotency-Key"))
	assert.Equal(t, "order-7", rs[1].Order)
	assert.Equal(t, 201, rs[1].Status)
	assert.True(t, rs[1].Charged)
	assert.Equal(t, 1, gw.ConnsAccepted())
}

func TestRequestsThatCannotBeRead(t *testing.T) {
	for name, tt := range map[string]struct {
		raw  string
		want int
	}{
		"garbage":      {"what is this\r\n\r\n", 400},
		"bad URI":      {"POST %zz HTTP/1.1\r\nHost: gw\r\n\r\n", 400},
		"bad length":   {"POST /v1/payments HTTP/1.1\r\nHost: gw\r\nContent-Length: x\r\n\r\n", 400},
		"bad chunk":    {"POST /v1/payments HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
		"long headers": {"GET / HTTP/1.1\r\nHost: gw\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n", 431},
		"long body":    {"POST /v1/payments HTTP/1.1\r\nHost: gw\r\nContent-Length: 1048577\r\n\r\n", 413},
	} {
		t.Run(name, func(t *testing.T) {
			gw := ot.NewGateway(t, ot.Config{})
			c := dial(t, gw)
			c.send(tt.raw)
			a := c.reply(t)
			assert.Equal(t, tt.want, a.status)
			assert.True(t, a.last)
			_, err := c.rest()
			assert.NoError(t, err)
			assert.Equal(t, tt.want, gw.Requests()[0].Status)
		})
	}
}

func TestLongBodyInChunks(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	body := io.MultiReader(strings.NewReader(strings.Repeat(" ", 1<<20)), strings.NewReader("{}"))
	req, err := http.NewRequest(http.MethodPost, gw.PaymentsURL(), body)
	require.NoError(t, err)
	assert.Equal(t, 413, send(t, req).status)
}

func TestLongestBody(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	body := strings.Repeat(" ", 1<<20-len(order7)) + order7
	assert.Equal(t, 201, post(t, gw, "k1", body).status)
}

func TestRequestBrokenOffGetsNoReply(t *testing.T) {
	whole := rawPost("k1", order7)
	for _, n := range []int{strings.Index(whole, "Content-"), strings.Index(whole, "{"), len(whole) - 1} {
		gw := ot.NewGateway(t, ot.Config{})
		c := dial(t, gw)
		c.send(whole[:n])
		require.NoError(t, c.CloseWrite())
		got, err := c.rest()
		require.NoError(t, err)
		assert.Empty(t, got)
		assert.Empty(t, gw.Payments())
	}
}

func TestNoSuchPageOrMethod(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	assert.Equal(t, 404, get(t, gw, "/v2").status)
	assert.Equal(t, 405, do(freshConns(t), http.MethodDelete, gw.PaymentsURL(), "", "").status)
	head := do(freshConns(t), http.MethodHead, gw.PaymentsURL(), "", "")
	require.NoError(t, head.err)
	assert.Equal(t, 405, head.status)
}

func TestHTTP10ConnectionsClose(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	c := dial(t, gw)
	c.send("GET /healthz HTTP/1.0\r\n\r\n")
	assert.Equal(t, 200, c.reply(t).status)
	_, err := c.rest()
	assert.NoError(t, err)
}

func TestExpectContinue(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	c := dial(t, gw)
	head, body, _ := strings.Cut(rawPost("k1", order7), "\r\n\r\n")
	c.send(head + "\r\nExpect: 100-continue\r\n\r\n")
	assert.Equal(t, "HTTP/1.1 100 Continue\r\n\r\n", readN(t, c.in, 25))
	c.send(body)
	assert.Equal(t, 201, c.reply(t).status)
}

func readN(t *testing.T, r *bufio.Reader, n int) string {
	t.Helper()
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	require.NoError(t, err)
	return string(b)
}

func TestExpectContinueByHTTPClient(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	req, err := http.NewRequest(http.MethodPost, gw.PaymentsURL(), strings.NewReader(order7))
	require.NoError(t, err)
	req.Header.Set("Idempotency-Key", "k1")
	req.Header.Set("Expect", "100-continue")
	tr := &http.Transport{ExpectContinueTimeout: time.Hour, DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 201, resp.StatusCode)
}
