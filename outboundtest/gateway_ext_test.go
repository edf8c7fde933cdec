package outboundtest_test

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ot "github.com/outbound-go/outbound/outboundtest"
)

func TestStopAndRestart(t *testing.T) {
	gw := ot.NewGateway(t, script(ot.LeaveWorking))
	release := gw.Hold()
	require.Error(t, post(t, gw, "k1", order7).err)
	idle := dial(t, gw)
	idle.send("GET /healthz HTTP/1.1\r\nHost: gw\r\n\r\n")
	require.Equal(t, 200, idle.reply(t).status)
	require.ErrorContains(t, gw.Restart(), "running")

	gw.Stop()
	gw.Stop()
	_, err := idle.rest()
	require.NoError(t, err, "open connections are closed")
	require.ErrorIs(t, post(t, gw, "k1", order7).err, syscall.ECONNREFUSED)
	release() // work outlives the stop

	url := gw.URL
	require.NoError(t, gw.Restart())
	assert.Equal(t, url, gw.URL)
	again := post(t, gw, "k1", order7)
	assert.Equal(t, 201, again.status)
	assert.True(t, again.replayed())
	assert.Equal(t, 1, gw.Charges("k1"))
}

func TestStopDoesNotWaitForWork(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{Work: time.Hour})
	c := dial(t, gw)
	c.send(rawPost("k1", order7))
	eventually(t, "the request is read", func() bool { return gw.Attempts() == 1 && gw.Requests()[0].Order != "" })
	gw.Stop()
	gw.Close()
	assert.Equal(t, 0, gw.Charges("k1"), "work ended by Close is not done")
}

func TestRestartNeedsThePort(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	gw.Stop()
	l, err := net.Listen("tcp", address(gw))
	require.NoError(t, err)
	defer l.Close()
	require.ErrorIs(t, gw.Restart(), syscall.EADDRINUSE)
}

func TestCloseEndsEverything(t *testing.T) {
	gw, err := ot.Start(script(ot.Hang, ot.LeaveWorking, ot.Slow(time.Hour)))
	require.NoError(t, err)
	release := gw.Hold()
	defer release()
	for i := range 5 {
		c := dial(t, gw)
		if i > 0 { // the first stays idle
			c.send(rawPost(fmt.Sprint("k", i), order7))
		}
	}
	eventually(t, "all requests are read", func() bool { return gw.ConnsAccepted() == 5 && len(gw.Requests()) == 4 })
	gw.Close()
	gw.Close()
	assert.Equal(t, 0, gw.ConnsOpen())
	assert.ErrorIs(t, gw.Restart(), net.ErrClosed)
	assert.Len(t, gw.Requests(), 4, "the ledger can still be read")
	eventually(t, "no goroutine is left", func() bool { return !strings.Contains(stacks(), "outboundtest.(*") })
}

// stacks returns the stack of every goroutine.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// tb records what NewGateway does to a test.
type tb struct {
	fatal    string
	cleanups []func()
}

func (*tb) Helper()                     {}
func (b *tb) Cleanup(f func())          { b.cleanups = append(b.cleanups, f) }
func (b *tb) Fatalf(f string, a ...any) { b.fatal = fmt.Sprintf(f, a...) }

func TestNewGatewayClosesWithTheTest(t *testing.T) {
	b := &tb{}
	gw := ot.NewGateway(b, ot.Config{})
	assert.Equal(t, 200, get(t, gw, "/healthz").status)
	require.Len(t, b.cleanups, 1)
	b.cleanups[0]()
	assert.ErrorIs(t, gw.Restart(), net.ErrClosed)
}

func TestNewGatewayFailsTheTest(t *testing.T) {
	b := &tb{}
	assert.Nil(t, ot.NewGateway(b, ot.Config{Work: -1}))
	assert.Contains(t, b.fatal, "bad config: negative Work -1ns")
	assert.Empty(t, b.cleanups)
}
