package outboundtest_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ot "github.com/outbound-go/outbound/outboundtest"
)

// drawn returns the faults that a mix draws for 100 writes.
func drawn(t *testing.T, m ot.Mix) []string {
	t.Helper()
	gw := ot.NewGateway(t, ot.Config{Mix: m})
	for i := range 100 {
		post(t, gw, fmt.Sprint("k", i), order7)
	}
	var faults []string
	for _, r := range gw.Requests() {
		faults = append(faults, r.Fault.String())
	}
	return faults
}

func TestSameSeedSameFaults(t *testing.T) {
	mix := ot.Mix{Seed: 7, Rates: []ot.FaultRate{
		{Fault: ot.ResetOnAccept, Rate: 0.2},
		{Fault: ot.LoseReply, Rate: 0.2},
		{Fault: ot.Answer(503), Rate: 0.2},
	}}
	first := drawn(t, mix)
	require.Len(t, first, 100)
	assert.Equal(t, first, drawn(t, mix))
	for _, want := range []string{"ok", "before-accept rst", "after-work fin", "answer 503 before-work"} {
		assert.Contains(t, first, want)
	}
	mix.Seed = 8
	assert.NotEqual(t, first, drawn(t, mix))
}

func TestScriptComesBeforeTheMix(t *testing.T) {
	always := ot.Mix{Rates: []ot.FaultRate{{Fault: ot.Answer(503), Rate: 1}}}
	gw := ot.NewGateway(t, ot.Config{Script: ot.Script{ot.Answer(418)}, Mix: always})
	assert.Equal(t, 418, post(t, gw, "k1", order7).status)
	assert.Equal(t, 503, post(t, gw, "k1", order7).status)
	get(t, gw, "/healthz") // its connection makes the mix draw
	require.NoError(t, gw.Script(ot.Answer(418)))
	assert.Equal(t, 418, post(t, gw, "k1", order7).status)
	assert.Equal(t, 503, post(t, gw, "k1", order7).status)
	gw.Calm()
	assert.Equal(t, 201, post(t, gw, "k1", order7).status)
}

func TestReadyMixes(t *testing.T) {
	for want, m := range map[float64]ot.Mix{0.35: ot.DefaultMix(1), 0.7: ot.StormMix(1)} {
		sum, silence := 0.0, 0.0
		points := map[ot.Point]bool{}
		for _, r := range m.Rates {
			sum += r.Rate
			points[r.Fault.Point] = true
			if r.Fault.End == ot.Silence {
				silence += r.Rate
			}
		}
		assert.InDelta(t, want, sum, 1e-9)
		assert.InDelta(t, want/35, silence, 1e-9)
		assert.Len(t, points, int(ot.InBody)+1, "every point is in it")
	}
}

// settle retries with one key until there is a last word on the payment.
func settle(client *http.Client, gw *ot.Gateway, key, body string) answer {
	for {
		a := do(client, http.MethodPost, gw.PaymentsURL(), key, body)
		if a.err == nil && (a.status == 201 || a.status == 500) {
			return a
		}
	}
}

// storm settles 100 orders, ten at a time.
func storm(gw *ot.Gateway) {
	client := &http.Client{Timeout: 200 * time.Millisecond}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			for j := range 10 {
				n := fmt.Sprint(i, "-", j)
				settle(client, gw, "key-"+n, `{"order":"`+n+`"}`)
			}
		})
	}
	wg.Wait()
}

func TestStormWithKeysChargesNobodyTwice(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{Mix: ot.StormMix(1)})
	storm(gw)
	assert.Empty(t, gw.DoubleCharged())
	assert.Greater(t, gw.Attempts(), 100)
	assert.Greater(t, len(gw.Payments()), 90, "the rest met a stored 500")
}

func TestStormWithoutKeysChargesTwice(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{Mix: ot.StormMix(1), IgnoreKeys: true})
	storm(gw)
	assert.NotEmpty(t, gw.DoubleCharged())
}
