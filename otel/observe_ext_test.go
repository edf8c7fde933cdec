package outboundotel_test

import (
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/outbound-go/outbound"
	outboundotel "github.com/outbound-go/outbound/otel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A circuit on its way from closed to open, half-open and back, as the hooks and the gauges tell it.
func TestCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t, outboundotel.Config{})
		transport := newTransport(t, outbound.Config{
			Base: answers(500, 200), Hooks: tel.Hooks(), Retry: outbound.RetryPolicy{MaxAttempts: 1},
			Breaker: outbound.BreakerPolicy{ConsecutiveFailures: 1, OpenFor: time.Minute},
		})
		watch, err := tel.Observe(transport)
		require.NoError(t, err)
		assert.Empty(t, tel.lines(t), "nobody was called")
		state := func(closed, halfOpen, open string) {
			t.Helper()
			assert.Equal(t, []string{
				"outbound.circuits{outbound.circuit.state=closed," + pay + "} " + closed,
				"outbound.circuits{outbound.circuit.state=half_open," + pay + "} " + halfOpen,
				"outbound.circuits{outbound.circuit.state=open," + pay + "} " + open,
			}, of(tel.lines(t), "outbound.circuits"))
		}
		call(t.Context(), transport, http.MethodGet, "https://pay.test/")
		state("0", "0", "1")
		call(t.Context(), transport, http.MethodGet, "https://pay.test/")
		time.Sleep(2 * time.Minute)
		state("0", "0", "1") // collecting moves nothing

		done := make(chan struct{})
		go func() {
			defer close(done)
			call(t.Context(), transport, http.MethodGet, "https://pay.test/")
		}()
		synctest.Wait()
		state("0", "1", "0")
		assert.Equal(t, []string{"outbound.active_calls{" + pay + "} 1"}, of(tel.lines(t), "outbound.active_calls"))
		<-done
		state("1", "0", "0")

		lines := tel.lines(t)
		assert.Equal(t, []string{"outbound.active_calls{" + pay + "} 0"}, of(lines, "outbound.active_calls"))
		assert.Equal(t, []string{"outbound.retry.budget{" + pay + "} 10"}, of(lines, "outbound.retry.budget"))
		assert.Equal(t, []string{
			"outbound.circuit.changes{outbound.circuit.previous_state=closed,outbound.circuit.state=open," + pay + "} 1",
			"outbound.circuit.changes{outbound.circuit.previous_state=half_open,outbound.circuit.state=closed," + pay + "} 1",
			"outbound.circuit.changes{outbound.circuit.previous_state=open,outbound.circuit.state=half_open," + pay + "} 1",
		}, of(lines, "outbound.circuit.changes"))
		assert.Contains(t, lines, "outbound.calls{http.request.method=GET,outbound.outcome=not_sent,outbound.stop.reason=circuit_open,"+pay+"} 1")
		assert.Contains(t, lines, "outbound.call.attempts{http.request.method=GET,"+pay+"} 2 in 3")

		require.NoError(t, watch.Unregister())
		require.NoError(t, watch.Unregister(), "twice is no fault")
		for _, metric := range []string{"outbound.circuits", "outbound.active_calls", "outbound.retry.budget"} {
			assert.Empty(t, of(tel.lines(t), metric), "no longer observed")
		}
		assert.NotEmpty(t, of(tel.lines(t), "outbound.calls"), "the hooks go on")
	})
}

// A call is active in its waits, too, and those of all targets are added up.
func TestActiveCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := newTelemetry(t, outboundotel.Config{Host: func(string) string { return "all" }})
		transport := newTransport(t, outbound.Config{Base: answers(503)})
		_, err := tel.Observe(transport)
		require.NoError(t, err)
		for _, url := range []string{"https://a.test/", "https://b.test/"} {
			go call(t.Context(), transport, http.MethodGet, url)
		}
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, []string{"outbound.active_calls{server.address=all,server.port=443,url.scheme=https} 2"},
			of(tel.lines(t), "outbound.active_calls"))
	})
}

// Transports that are observed together are added up where they, or Host, make several targets one server.
func TestSums(t *testing.T) {
	tel := newTelemetry(t, outboundotel.Config{Host: func(string) string { return "all" }})
	one := newTransport(t, outbound.Config{Base: instant(200)})
	two := newTransport(t, outbound.Config{Base: instant(200), Retry: outbound.RetryPolicy{Budget: outbound.BudgetPolicy{Burst: 5}}})
	unlimited := newTransport(t, outbound.Config{Base: instant(200), Retry: outbound.RetryPolicy{Budget: outbound.BudgetPolicy{Disabled: true}}})
	list := []*outbound.Transport{nil, one, two, unlimited}
	_, err := tel.Observe(list...)
	require.NoError(t, err)
	assert.Equal(t, []*outbound.Transport{nil, one, two, unlimited}, list, "the caller's slice is his")
	for _, url := range []string{"https://a.test/", "https://b.test/"} {
		call(t.Context(), one, http.MethodGet, url)
		call(t.Context(), two, http.MethodGet, url)
	}
	call(t.Context(), unlimited, http.MethodGet, "http://c.test/")
	const tls, plain = "server.address=all,server.port=443,url.scheme=https", "server.address=all,server.port=80,url.scheme=http"
	assert.Equal(t, []string{
		"outbound.active_calls{" + tls + "} 0",
		"outbound.active_calls{" + plain + "} 0",
		"outbound.circuits{outbound.circuit.state=closed," + tls + "} 4",
		"outbound.circuits{outbound.circuit.state=closed," + plain + "} 1",
		"outbound.circuits{outbound.circuit.state=half_open," + tls + "} 0",
		"outbound.circuits{outbound.circuit.state=half_open," + plain + "} 0",
		"outbound.circuits{outbound.circuit.state=open," + tls + "} 0",
		"outbound.circuits{outbound.circuit.state=open," + plain + "} 0",
		"outbound.retry.budget{" + tls + "} 30",
	}, tel.lines(t))
}

// After Unregister nothing holds the Transport any more, though the Instrumentation lives on.
func TestUnregisterLetsGo(t *testing.T) {
	tel := newTelemetry(t, outboundotel.Config{})
	held, unregister := observed(t, tel)
	runtime.GC()
	require.NotNil(t, held.Value(), "observed")
	require.NoError(t, unregister())
	unregister = nil // an SDK's registration may hold its callback
	runtime.GC()
	assert.Nil(t, held.Value())
	assert.Empty(t, tel.lines(t))
}

func observed(t *testing.T, tel telemetry) (weak.Pointer[outbound.Transport], func() error) {
	t.Helper()
	transport := newTransport(t, outbound.Config{Base: instant(200)})
	watch, err := tel.Observe(transport)
	require.NoError(t, err)
	return weak.Make(transport), watch.Unregister
}
