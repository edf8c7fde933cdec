package outboundtest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ot "github.com/outbound-go/outbound/outboundtest"
)

func TestChargeAndReplay(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	first, second := post(t, gw, "k1", order7), post(t, gw, "k1", order7)

	require.NoError(t, first.err)
	assert.Equal(t, 201, first.status)
	assert.Equal(t, "application/json", first.header.Get("Content-Type"))
	assert.NotEmpty(t, first.header.Get("Content-Length"))
	assert.False(t, first.replayed())
	assert.JSONEq(t, `{"id":"pay_1","amount":1234,"currency":"EUR","order":"order-7","status":"succeeded"}`, first.body)

	assert.Equal(t, 201, second.status)
	assert.True(t, second.replayed())
	assert.Equal(t, first.body, second.body)
	assert.Equal(t, 1, gw.Charges("k1"))
	assert.Equal(t, 1, gw.ChargesByOrder("order-7"))
	assert.Empty(t, gw.DoubleCharged())
}

func TestRefusalsAreNotStored(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	for _, body := range []string{"", "{", "null", "[]", `"x"`, `{} {}`} {
		assert.Equal(t, 400, post(t, gw, "k1", body).status, body)
	}
	assert.Equal(t, 400, post(t, gw, "", order7).status, "no key")
	assert.Equal(t, 201, post(t, gw, "k1", order7).status)
	assert.Equal(t, 422, post(t, gw, "k1", `{"amount":1}`).status)
	assert.Equal(t, 201, post(t, gw, "k1", order7).status)
	assert.Len(t, gw.Payments(), 1)
}

func TestSeveralKeysAreRefusedAndRecorded(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	c := dial(t, gw)
	c.send("POST /v1/payments HTTP/1.1\r\nHost: gw\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\nContent-Length: 2\r\n\r\n{}")
	assert.Equal(t, 400, c.reply(t).status)
	assert.Equal(t, []string{"a", "b"}, gw.Requests()[0].Keys)
}

func TestAnyObjectIsAPayment(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{KeyHeader: "X-Request-Id"})
	req, err := http.NewRequest(http.MethodPost, gw.PaymentsURL(), nil)
	require.NoError(t, err)
	req.Header.Set("X-Request-Id", "k1")
	assert.Equal(t, 400, send(t, req).status, "no body")

	c := dial(t, gw)
	c.send("POST /v1/payments HTTP/1.1\r\nHost: gw\r\nX-Request-Id: k1\r\nContent-Length: 23\r\n\r\n" + `{"amount":"9","more":1}`)
	a := c.reply(t)
	assert.Equal(t, 201, a.status)
	assert.JSONEq(t, `{"id":"pay_1","amount":0,"currency":"","order":"","status":"succeeded"}`, a.body)
	assert.Equal(t, 1, gw.Charges("k1"))
}

func TestOneKeyAtOnceChargesOnce(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{Work: time.Millisecond})
	client := &http.Client{Timeout: soon}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	var first, replays atomic.Int32
	for range 100 {
		wg.Go(func() {
			a := do(client, http.MethodPost, gw.PaymentsURL(), "k1", order7)
			for a.status == 409 {
				a = do(client, http.MethodPost, gw.PaymentsURL(), "k1", order7)
			}
			assert.NoError(t, a.err)
			assert.Equal(t, 201, a.status)
			if a.replayed() {
				replays.Add(1)
				return
			}
			first.Add(1)
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1, first.Load())
	assert.EqualValues(t, 99, replays.Load())
	assert.Equal(t, 1, gw.Charges("k1"))
}

func TestConflictWhileAtWork(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	release := gw.Hold()
	client, answers := freshConns(t), make(chan answer, 2)
	for range 2 {
		go func() { answers <- do(client, http.MethodPost, gw.PaymentsURL(), "k1", order7) }()
	}
	assert.Equal(t, 409, (<-answers).status, "one is held at work, so the other is answered first")
	release()
	release()
	last := <-answers
	assert.Equal(t, 201, last.status)
	assert.False(t, last.replayed())
}

func TestHoldsAreIndependent(t *testing.T) {
	gw := ot.NewGateway(t, script(ot.LeaveWorking, ot.LeaveWorking))
	releaseFirst := gw.Hold()
	require.Error(t, post(t, gw, "k1", order7).err)
	releaseSecond := gw.Hold()
	require.Error(t, post(t, gw, "k2", order7).err)
	releaseFirst()
	assert.Equal(t, 1, gw.Charges("k1"))
	assert.Equal(t, 0, gw.Charges("k2"))
	releaseSecond()
	assert.Equal(t, 1, gw.Charges("k2"))
	assert.Equal(t, []string{"order-7"}, gw.DoubleCharged(), "two keys, one order")
}

func TestIgnoreKeys(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{IgnoreKeys: true, Script: ot.Script{ot.ServerError, ot.Busy(2)}})
	assert.Equal(t, 500, post(t, gw, "k1", order7).status)
	for _, body := range []string{order7, order7, `{"amount":1}`, `{"amount":1}`} {
		a := post(t, gw, "k1", body)
		assert.Equal(t, 201, a.status)
		assert.False(t, a.replayed())
	}
	assert.Equal(t, 201, post(t, gw, "", `{}`).status)
	assert.Equal(t, 201, post(t, gw, "", `{}`).status)
	assert.Equal(t, 4, gw.Charges("k1"))
	assert.Equal(t, 2, gw.ChargesByOrder("order-7"))
	assert.Equal(t, []string{"k1", "order-7"}, gw.DoubleCharged())
}

func TestLookups(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{})
	assert.Equal(t, "[]", get(t, gw, "/v1/payments").body)
	made := post(t, gw, "k1", order7)
	post(t, gw, "k2", `{"order":"order-8"}`)

	for _, query := range []string{"?key=k1", "?order=order-7", "?key=k1&order=order-7"} {
		a := get(t, gw, "/v1/payments"+query)
		assert.Equal(t, 200, a.status, query)
		assert.Equal(t, made.body, a.body, query)
	}
	for _, query := range []string{"?key=k3", "?key=", "?order=order-9", "?key=k1&order=order-8"} {
		assert.Equal(t, 404, get(t, gw, "/v1/payments"+query).status, query)
	}
	var all []ot.Payment
	require.NoError(t, json.Unmarshal([]byte(get(t, gw, "/v1/payments").body), &all))
	assert.Len(t, all, 2)
	assert.Equal(t, "k2", gw.Payments()[1].Key)
	assert.Equal(t, 2, gw.Attempts(), "lookups are no attempts")
}

// TestAKeyThatIsIgnoredIsInTheLedger as it stands, whatever its form: by it one tells what was charged twice.
func TestAKeyThatIsIgnoredIsInTheLedger(t *testing.T) {
	for dialect, header := range map[ot.Dialect]string{ot.IETF: "Idempotency-Key", ot.RazorpayRefunds: "X-Refund-Idempotency"} {
		gw := ot.NewGateway(t, ot.Config{Dialect: dialect, IgnoreKeys: true})
		for range 2 {
			req, err := http.NewRequest(http.MethodPost, gw.PaymentsURL(), strings.NewReader(`{"amount":1}`))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set(header, "k1")
			require.Less(t, send(t, req).status, 300, "%v", dialect)
		}
		assert.Equal(t, 2, gw.Charges("k1"), "%v", dialect)
		assert.Equal(t, []string{"k1"}, gw.DoubleCharged(), "%v", dialect)
	}
}
