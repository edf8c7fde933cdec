package outboundtest_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ot "github.com/outbound-go/outbound/outboundtest"
)

// What a broken connection leaves behind, at every point.
var brokenAt = []struct {
	point    ot.Point
	charges  int
	recorded int  // the status in the gateway's record
	head     bool // the client gets a part of the headers
	body     bool // the client gets all headers and a part of the body
}{
	{point: ot.BeforeAccept},
	{point: ot.BeforeRead},
	{point: ot.BeforeWork},
	{point: ot.DuringWork, charges: 1},
	{point: ot.AfterWork, charges: 1},
	{point: ot.InHeaders, charges: 1, head: true},
	{point: ot.InBody, charges: 1, recorded: 201, head: true, body: true},
}

func TestFINGivesEOF(t *testing.T) {
	for _, tt := range brokenAt {
		t.Run(tt.point.String(), func(t *testing.T) {
			gw := ot.NewGateway(t, script(ot.Fault{Point: tt.point}))
			c := dial(t, gw)
			c.send(rawPost("k1", order7))
			got, err := c.rest()
			require.NoError(t, err, "EOF is what ReadAll returns no error for")
			assert.Equal(t, tt.head, strings.HasPrefix(got, "HTTP/1.1 201 Created\r\n"))
			assert.Equal(t, tt.body, strings.Contains(got, "\r\n\r\n{\"id\":"))
			assert.NotContains(t, got, "}")
			assert.Equal(t, tt.charges, gw.Charges("k1"))
			assert.Equal(t, tt.recorded, gw.Requests()[0].Status)
		})
	}
}

func TestRSTGivesConnectionReset(t *testing.T) {
	for _, tt := range brokenAt[1:] {
		t.Run(tt.point.String(), func(t *testing.T) {
			gw := ot.NewGateway(t, script(ot.Fault{Point: tt.point, End: ot.RST}))
			c := dial(t, gw)
			c.send(rawPost("k1", order7))
			_, err := c.rest()
			require.ErrorIs(t, err, syscall.ECONNRESET)
			assert.Equal(t, tt.charges, gw.Charges("k1"))
		})
	}
}

// The reset of a new connection may come while it is still being dialled.
func TestRSTOnAccept(t *testing.T) {
	gw := ot.NewGateway(t, script(ot.ResetOnAccept))
	c, err := net.Dial("tcp", address(gw))
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Empty(t, gw.Payments())
}

func TestSilenceLastsUntilTheClientGoes(t *testing.T) {
	for _, tt := range brokenAt {
		t.Run(tt.point.String(), func(t *testing.T) {
			gw := ot.NewGateway(t, script(ot.Fault{Point: tt.point, End: ot.Silence}))
			c := dial(t, gw)
			c.send(rawPost("k1", order7))
			eventually(t, "the request has its record", func() bool { return len(gw.Requests()) == 1 })
			eventually(t, "the work is done", func() bool { return gw.Charges("k1") == tt.charges })
			require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
			_, err := c.rest()
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the connection stays open")
			assert.Equal(t, 1, gw.ConnsOpen())
			require.NoError(t, c.Close())
			eventually(t, "the gateway lets go of the connection", func() bool { return gw.ConnsOpen() == 0 })
		})
	}
}

func TestSilenceEndsWithTheGateway(t *testing.T) {
	gw := ot.NewGateway(t, script(ot.Hang))
	c := dial(t, gw)
	c.send(rawPost("k1", order7))
	eventually(t, "the work is done", func() bool { return gw.Charges("k1") == 1 })
	gw.Close()
	_, err := c.rest()
	assert.NoError(t, ignoreReset(err))
}

// ignoreReset lets a closed connection end in either way.
func ignoreReset(err error) error {
	if errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	return err
}

func TestHTTPClientSeesEveryFault(t *testing.T) {
	for _, tt := range brokenAt {
		for _, end := range []ot.End{ot.FIN, ot.RST} {
			f := ot.Fault{Point: tt.point, End: end}
			t.Run(f.String(), func(t *testing.T) {
				gw := ot.NewGateway(t, script(f, ot.OK))
				require.Error(t, post(t, gw, "k1", order7).err)
				again := post(t, gw, "k1", order7)
				require.NoError(t, again.err)
				assert.Equal(t, 201, again.status)
				assert.Equal(t, tt.charges == 1, again.replayed())
				assert.Equal(t, 1, gw.Charges("k1"))
				assert.Equal(t, 2, gw.Attempts())
			})
		}
	}
}

func TestFaultOnAConnectionKeptAlive(t *testing.T) {
	for _, f := range []ot.Fault{ot.ResetOnAccept, ot.DropUnread.By(ot.RST)} {
		t.Run(f.String(), func(t *testing.T) {
			gw := ot.NewGateway(t, script(ot.OK, f))
			c := dial(t, gw)
			c.send(rawPost("k1", order7))
			require.Equal(t, 201, c.reply(t).status)
			c.send(rawPost("k2", order7))
			_, err := c.rest()
			require.ErrorIs(t, err, syscall.ECONNRESET)
			assert.Equal(t, 0, gw.Charges("k2"))
			second := gw.Requests()[1]
			assert.Equal(t, 1, second.Conn)
			assert.Equal(t, f, second.Fault)
			assert.Empty(t, second.Method)
		})
	}
}

func TestAnswerInFrontOfTheServer(t *testing.T) {
	late := ot.AnswerAfterWork(502)
	late.Body = "<h1>Bad Gateway</h1>"
	gw := ot.NewGateway(t, script(ot.Answer(429, "Retry-After", "1"), late, ot.Answer(204), ot.OK))

	first := post(t, gw, "k1", order7)
	assert.Equal(t, 429, first.status)
	assert.Equal(t, "1", first.header.Get("Retry-After"))
	assert.Equal(t, 0, gw.Charges("k1"))
	assert.Equal(t, "order-7", gw.Requests()[0].Order)

	second := post(t, gw, "k1", order7)
	assert.Equal(t, 502, second.status)
	assert.Equal(t, late.Body, second.body)
	assert.Equal(t, 1, gw.Charges("k1"))

	assert.Equal(t, 204, post(t, gw, "k1", order7).status)
	last := post(t, gw, "k1", order7)
	assert.Equal(t, 201, last.status)
	assert.True(t, last.replayed())
}

func TestServerErrorIsStored(t *testing.T) {
	gw := ot.NewGateway(t, script(ot.ServerError))
	first, second := post(t, gw, "k1", order7), post(t, gw, "k1", order7)
	assert.Equal(t, 500, first.status)
	assert.False(t, first.replayed())
	assert.Equal(t, 500, second.status)
	assert.True(t, second.replayed())
	assert.Equal(t, first.body, second.body)
	assert.Equal(t, 0, gw.Charges("k1"))
	assert.Equal(t, 404, get(t, gw, "/v1/payments?key=k1").status)
}

func TestBusy(t *testing.T) {
	gw := ot.NewGateway(t, script(ot.Busy(3)))
	for range 3 {
		assert.Equal(t, 409, post(t, gw, "k1", order7).status)
	}
	assert.Equal(t, 201, post(t, gw, "k2", order7).status, "another key is free")
	last := post(t, gw, "k1", order7)
	assert.Equal(t, 201, last.status)
	assert.False(t, last.replayed())
	assert.Equal(t, 1, gw.Charges("k1"))
}

func TestWorkLeftBehindIs409ThenTheResult(t *testing.T) {
	gw := ot.NewGateway(t, script(ot.LeaveWorking))
	release := gw.Hold()
	require.Error(t, post(t, gw, "k1", order7).err)
	assert.Equal(t, 409, post(t, gw, "k1", order7).status)
	assert.Equal(t, 404, get(t, gw, "/v1/payments?key=k1").status)
	assert.False(t, gw.Requests()[0].Charged)
	release()
	assert.True(t, gw.Requests()[0].Charged)
	last := post(t, gw, "k1", order7)
	assert.Equal(t, 201, last.status)
	assert.True(t, last.replayed())
	assert.Equal(t, 1, gw.Charges("k1"))
}

func TestDelayComesBeforeThePoint(t *testing.T) {
	const d = 5 * time.Millisecond
	gw := ot.NewGateway(t, script(ot.Slow(d), ot.LoseReply.After(d)))
	began := time.Now()
	assert.Equal(t, 201, post(t, gw, "k1", order7).status)
	assert.GreaterOrEqual(t, time.Since(began), d)
	began = time.Now()
	require.Error(t, post(t, gw, "k2", order7).err)
	assert.GreaterOrEqual(t, time.Since(began), d)
}

func TestDelayEndsWithTheGateway(t *testing.T) {
	gw := ot.NewGateway(t, script(ot.Slow(time.Hour)))
	c := dial(t, gw)
	c.send(rawPost("k1", order7))
	eventually(t, "the work is done", func() bool { return gw.Charges("k1") == 1 })
	gw.Close()
}

func TestScriptIsTakenInOrderByWritesOnly(t *testing.T) {
	gw := ot.NewGateway(t, script(ot.Answer(503), ot.LoseReply, ot.OK))
	assert.Equal(t, 200, get(t, gw, "/healthz").status)
	assert.Equal(t, 503, post(t, gw, "k1", order7).status)
	assert.Equal(t, 200, get(t, gw, "/v1/payments").status)
	require.Error(t, post(t, gw, "k1", order7).err)
	assert.Equal(t, 201, post(t, gw, "k1", order7).status)
	require.NoError(t, gw.Script(ot.Answer(418), ot.Answer(503)))
	assert.Equal(t, 418, post(t, gw, "k1", order7).status)
	gw.Calm()
	assert.Equal(t, 201, post(t, gw, "k1", order7).status)
	require.ErrorContains(t, gw.Script(ot.OK, ot.Answer(99)), "script[1]: the Status 99")
}

func TestOnAcceptIsTakenByTheNextConnection(t *testing.T) {
	gw := ot.NewGateway(t, script(ot.ResetOnAccept))
	assert.Error(t, do(freshConns(t), http.MethodGet, gw.URL+"/healthz", "", "").err)
	assert.Equal(t, 201, post(t, gw, "k1", order7).status)
	assert.Equal(t, 2, gw.ConnsAccepted())
	assert.Equal(t, ot.ResetOnAccept, gw.Requests()[0].Fault)
}
