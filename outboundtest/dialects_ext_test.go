package outboundtest_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ot "github.com/outbound-go/outbound/outboundtest"
)

const (
	uuid4   = "8e03978e-40d5-43e8-bc93-6894a57f9324"
	order8  = `{"amount":9,"currency":"EUR","order":"order-8"}`
	form7   = "amount=1234&currency=eur&metadata[order]=order-7"
	form8   = "amount=9&currency=eur&order=order-8"
	tooLong = "0123456789012345678901234567890123456789012345678901234567890123456789"
)

// want is what an answer must be.
type want struct {
	status int
	body   string // a part of it; empty is all of it
	header string // "Name: value", or "Name" for any value; empty is not asked for
}

func (w want) check(t *testing.T, what string, a answer) {
	t.Helper()
	require.NoError(t, a.err, what)
	assert.Equal(t, w.status, a.status, "%s: %s", what, a.body)
	if w.body == "" {
		assert.Empty(t, a.body, what)
	} else {
		assert.Contains(t, a.body, w.body, what)
		assert.True(t, json.Valid([]byte(a.body)), "%s: %s", what, a.body)
	}
	name, value, has := strings.Cut(w.header, ": ")
	if has {
		assert.Equal(t, value, a.header.Get(name), what)
	} else if name != "" {
		assert.NotEmpty(t, a.header.Get(name), what)
	}
}

// keyed is what a payment API documents, or is assumed to do.
type keyed struct {
	dialect   ot.Dialect
	header    string
	form      bool
	badKeys   []string
	made      want
	again     want
	noKey     want // the same as made where none is needed
	badKey    want
	otherBody want
	inUse     want
	failed    want
	afterFail want // the repeat of what failed
	limited   want
	overload  want
	exhausted want
}

// bare is an answer without a body.
func bare(status int) want { return want{status: status} }

var payments = []keyed{
	{
		dialect: ot.Plain, header: "Idempotency-Key",
		made: want{201, "pay_1", ""}, again: want{201, "pay_1", "Idempotent-Replayed: true"},
		noKey: want{400, "Idempotency-Key", ""}, otherBody: want{422, "another", ""}, inUse: want{409, "in use", ""},
		failed: want{500, "failed", ""}, afterFail: want{500, "failed", "Idempotent-Replayed: true"},
		limited: want{429, "many", "Retry-After: 1"}, overload: want{503, "overloaded", ""}, exhausted: want{429, "quota", ""},
	},
	{
		dialect: ot.Stripe, header: "Idempotency-Key", form: true, badKeys: []string{strings.Repeat("k", 256)},
		made: want{200, "payment_intent", ""}, again: want{200, "pay_1", "Idempotent-Replayed: true"},
		noKey: want{200, "pay_1", ""}, badKey: want{400, "idempotency_error", ""}, otherBody: want{400, "idempotency_error", ""},
		inUse:  want{409, "idempotency_key_in_use", ""},
		failed: want{500, "api_error", ""}, afterFail: want{500, "api_error", "Idempotent-Replayed: true"},
		limited: want{429, "rate_limit", ""}, overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.Adyen, header: "Idempotency-Key", badKeys: []string{tooLong},
		made: want{200, "Authorised", "Idempotency-Key: " + uuid4}, again: want{200, "pay_1", "Idempotency-Key: " + uuid4},
		noKey: want{200, "pay_1", ""}, badKey: want{422, "validation", ""}, otherBody: want{200, "order-7", "Idempotency-Key: " + uuid4},
		inUse:  want{422, `"704"`, "Transient-Error: true"},
		failed: want{500, "internal", ""}, afterFail: want{500, "internal", "Idempotency-Key: " + uuid4},
		limited: bare(429), overload: want{503, `"703"`, "Transient-Error: true"}, exhausted: bare(429),
	},
	{
		dialect: ot.PayPal, header: "PayPal-Request-Id", badKeys: []string{tooLong + tooLong},
		made: want{201, "COMPLETED", ""}, again: want{200, "pay_1", ""},
		noKey: want{201, "pay_1", ""}, badKey: want{400, "INVALID_REQUEST", ""},
		otherBody: want{422, "PAYPAL_REQUEST_ID_PREVIOUSLY_USED", ""}, inUse: bare(409),
		failed: want{500, "INTERNAL_SERVER_ERROR", ""}, afterFail: want{201, "pay_1", ""},
		limited: want{429, "RATE_LIMIT_REACHED", ""}, overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.CheckoutCom, header: "Cko-Idempotency-Key",
		made: want{201, "Authorized", ""}, again: want{201, "pay_1", ""}, noKey: want{201, "pay_1", ""},
		otherBody: want{201, "1234", ""}, inUse: bare(409),
		failed: bare(500), afterFail: want{201, "pay_1", ""},
		limited: bare(429), overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.MercadoPago, header: "X-Idempotency-Key",
		made: want{201, `"id":1`, ""}, again: want{201, `"id":1`, ""}, noKey: want{400, "4292", ""},
		otherBody: bare(409), inUse: bare(423),
		failed: bare(500), afterFail: want{201, "approved", ""},
		limited: want{429, "", "Retry-After: 1"}, overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.GoCardless, header: "Idempotency-Key",
		made: want{201, "pay_1", ""}, again: want{409, `"conflicting_resource_id":"pay_1"`, ""}, noKey: want{201, "pay_1", ""},
		otherBody: want{409, "idempotent_creation_conflict", ""}, inUse: want{409, "invalid_state", ""},
		failed: want{500, "gocardless", ""}, afterFail: want{201, "pay_1", ""},
		limited: want{429, "many", "RateLimit-Reset"}, overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.Increase, header: "Idempotency-Key", badKeys: []string{strings.Repeat("k", 201)},
		made: want{200, "ach_transfer", ""}, again: want{200, "pay_1", "Idempotent-Replayed: true"}, noKey: want{200, "pay_1", ""},
		badKey: want{400, "invalid_parameters_error", ""}, otherBody: want{409, `"resource_id":"pay_1"`, ""}, inUse: bare(409),
		failed: want{500, "internal_server_error", ""}, afterFail: want{200, "pay_1", ""},
		limited: want{429, "rate_limited_error", "Retry-After: 1"}, overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.ModernTreasury, header: "Idempotency-Key",
		made: want{201, "payment_order", ""}, again: want{201, "pay_1", ""}, noKey: want{201, "pay_1", ""},
		otherBody: want{201, "1234", ""}, inUse: bare(409),
		failed: bare(500), afterFail: want{201, "pay_1", ""},
		limited: want{429, "", "Retry-After: 1"}, overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.Resend, header: "Idempotency-Key", badKeys: []string{strings.Repeat("k", 257)},
		made: want{200, "pay_1", ""}, again: want{200, "pay_1", ""}, noKey: want{200, "pay_1", ""},
		badKey: want{400, "invalid_idempotency_key", ""}, otherBody: want{409, "invalid_idempotent_request", ""},
		inUse:  want{409, "concurrent_idempotent_requests", ""},
		failed: want{500, "internal_server_error", ""}, afterFail: want{200, "pay_1", ""},
		limited: want{429, "rate_limit_exceeded", "Retry-After: 1"}, overload: bare(503), exhausted: want{429, "daily_quota_exceeded", ""},
	},
	{
		dialect: ot.Flutterwave, header: "X-Idempotency-Key",
		made: want{201, "success", ""}, again: want{201, "pay_1", "X-Idempotency-Cache-Hit: true"}, noKey: want{201, "pay_1", ""},
		otherBody: want{201, "1234", "X-Idempotency-Cache-Hit: true"}, inUse: bare(409),
		failed: bare(500), afterFail: want{201, "pay_1", ""},
		limited: bare(429), overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.Coinbase, header: "X-Idempotency-Key",
		badKeys: []string{"key-1", "8e03978e-40d5-13e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-cc93-6894a57f9324"},
		made:    want{200, "pay_1", ""}, again: want{200, "pay_1", ""}, noKey: want{200, "pay_1", ""},
		badKey: want{400, "invalid_request", ""}, otherBody: want{422, "idempotency_error", ""}, inUse: want{409, "already_exists", ""},
		failed: want{500, "internal_server_error", ""}, afterFail: want{200, "pay_1", ""},
		limited: want{429, "rate_limit_exceeded", ""}, overload: want{503, "service_unavailable", ""}, exhausted: bare(429),
	},
	{
		dialect: ot.YooKassa, header: "Idempotence-Key", badKeys: []string{tooLong},
		made: want{200, "succeeded", ""}, again: want{200, "pay_1", ""}, noKey: want{400, "Idempotence-Key", ""},
		badKey: want{400, "Idempotence-Key", ""}, otherBody: want{200, "pay_1", ""}, inUse: want{202, `"retry_after":200`, ""},
		failed: want{500, "internal_server_error", ""}, afterFail: want{200, "pay_1", ""},
		limited: want{429, "too_many_requests", ""}, overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.Klarna, header: "Klarna-Idempotency-Key",
		made: want{201, "", "Capture-Id: pay_1"}, again: want{201, "", "Capture-Id: pay_1"}, noKey: want{201, "", "Capture-Id: pay_1"},
		otherBody: want{201, "", "Capture-Id: pay_1"}, inUse: bare(409),
		failed: bare(500), afterFail: want{201, "", "Capture-Id: pay_1"},
		limited: bare(429), overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.Xendit, header: "Idempotency-Key",
		made: want{200, "ACCEPTED", ""}, again: want{200, "pay_1", ""}, noKey: want{400, "API_VALIDATION_ERROR", ""},
		otherBody: want{409, "IDEMPOTENCY_ERROR", ""}, inUse: bare(409),
		failed: want{500, "SERVER_ERROR", ""}, afterFail: want{200, "pay_1", ""},
		limited: want{429, "RATE_LIMIT_EXCEEDED", ""}, overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.RazorpayPayouts, header: "X-Payout-Idempotency",
		badKeys: []string{"abc", strings.Repeat("k", 37), "key/1"},
		made:    want{200, "processing", ""}, again: want{200, "processed", ""}, noKey: want{400, "X-Payout-Idempotency", ""},
		badKey: want{400, "BAD_REQUEST_ERROR", ""}, otherBody: want{400, "BAD_REQUEST_ERROR", ""}, inUse: bare(409),
		failed: want{500, "SERVER_ERROR", ""}, afterFail: want{200, "processing", ""},
		limited: bare(429), overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.RazorpayRefunds, header: "X-Refund-Idempotency", badKeys: []string{"123456789", "key with spaces"},
		made: want{200, "refund", ""}, again: want{200, "pay_1", ""}, noKey: want{200, "pay_1", ""},
		badKey: want{400, "BAD_REQUEST_ERROR", ""}, otherBody: want{400, "BAD_REQUEST_ERROR", ""}, inUse: bare(409),
		failed: want{500, "SERVER_ERROR", ""}, afterFail: want{200, "pay_1", ""},
		limited: bare(429), overload: bare(503), exhausted: bare(429),
	},
	{
		dialect: ot.IETF, header: "Idempotency-Key", badKeys: []string{uuid4, `"`, `""`, `"a"b`, "'a'"},
		made: want{201, "pay_1", ""}, again: want{201, "pay_1", ""}, noKey: want{400, "Idempotency-Key", "Content-Type: application/problem+json"},
		badKey: want{400, "quotes", "Content-Type: application/problem+json"}, otherBody: want{422, "another", "Content-Type: application/problem+json"},
		inUse:  want{409, "in use", "Content-Type: application/problem+json"},
		failed: want{500, "failed", ""}, afterFail: want{201, "pay_1", ""},
		limited: want{429, "many", "Retry-After: 1"}, overload: want{503, "overloaded", ""}, exhausted: want{429, "quota", ""},
	},
}

// request is a payment; an empty key is none.
func (k keyed) request(t *testing.T, gw *ot.Gateway, key, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, gw.PaymentsURL(), strings.NewReader(body))
	require.NoError(t, err)
	if key != "" {
		req.Header.Set(k.header, key)
	}
	return req
}

func (k keyed) post(t *testing.T, gw *ot.Gateway, key, body string) answer {
	t.Helper()
	return send(t, k.request(t, gw, key, body))
}

// key is one that the dialect takes, as it goes into the header.
func (k keyed) key() string {
	if k.dialect == ot.IETF {
		return `"` + uuid4 + `"`
	}
	return uuid4
}

func (k keyed) bodies() (first, other string) {
	if k.form {
		return form7, form8
	}
	return order7, order8
}

func (k keyed) config(faults ...ot.Fault) ot.Config {
	return ot.Config{Dialect: k.dialect, Script: faults}
}

func TestWhatPaymentAPIsAnswer(t *testing.T) {
	for _, k := range payments {
		t.Run(k.dialect.String(), func(t *testing.T) {
			key := k.key()
			body, other := k.bodies()

			gw := ot.NewGateway(t, k.config())
			k.made.check(t, "made", k.post(t, gw, key, body))
			k.again.check(t, "again", k.post(t, gw, key, body))
			k.otherBody.check(t, "other body", k.post(t, gw, key, other))
			assert.Equal(t, 1, gw.Charges(uuid4))
			assert.Equal(t, 1, gw.ChargesByOrder("order-7"))
			assert.Equal(t, 400, k.post(t, gw, key+"2", "what").status, "no payment")
			for _, bad := range k.badKeys {
				k.badKey.check(t, "bad key "+bad, k.post(t, gw, bad, body))
			}
			assert.Len(t, gw.Payments(), 1)

			gw = ot.NewGateway(t, k.config())
			k.noKey.check(t, "no key", k.post(t, gw, "", body))
			k.post(t, gw, "", body)
			needed := k.noKey.status == 400
			assert.Equal(t, needed, len(gw.DoubleCharged()) == 0, "without a key the repeat is another payment")

			gw = ot.NewGateway(t, k.config(ot.RateLimited, ot.Overloaded, ot.QuotaExhausted, ot.Busy(1), ot.ServerError))
			k.limited.check(t, "rate limited", k.post(t, gw, key, body))
			k.overload.check(t, "overloaded", k.post(t, gw, key, body))
			k.exhausted.check(t, "quota exhausted", k.post(t, gw, key, body))
			k.inUse.check(t, "busy", k.post(t, gw, key, body))
			k.failed.check(t, "failed", k.post(t, gw, key, body))
			assert.Empty(t, gw.Payments())
			k.afterFail.check(t, "after it failed", k.post(t, gw, key, body))
		})
	}
}

func TestKeyInUseInEveryDialect(t *testing.T) {
	for _, k := range payments {
		t.Run(k.dialect.String(), func(t *testing.T) {
			gw := ot.NewGateway(t, k.config(ot.LeaveWorking))
			release := gw.Hold()
			body, _ := k.bodies()
			left := answerTo(freshConns(t), k.request(t, gw, k.key(), body))
			require.Error(t, left.err)
			k.inUse.check(t, "in use", k.post(t, gw, k.key(), body))
			release()
			k.again.check(t, "again", k.post(t, gw, k.key(), body))
			assert.Equal(t, 1, gw.Charges(uuid4))
			assert.Equal(t, 200, get(t, gw, strings.TrimPrefix(gw.PaymentsURL(), gw.URL)+"?key="+uuid4).status)
		})
	}
}

// generations are the AI APIs: what they answer, with no key ever looked at.
var generations = []struct {
	dialect                                    ot.Dialect
	made, failed, limited, overload, exhausted want
}{
	{
		ot.OpenAI,
		want{200, "chat.completion", ""}, want{500, "server_error", ""}, want{429, "rate_limit_exceeded", "Retry-After-Ms: 1000"},
		want{503, "server_error", ""}, want{429, "insufficient_quota", ""},
	},
	{
		ot.Anthropic,
		want{200, "end_turn", ""}, want{500, "api_error", ""}, want{429, "rate_limit_error", "Retry-After: 1"},
		want{529, "overloaded_error", ""}, want{429, "enforced_spend_limit_reached", "Retry-After: "},
	},
	{
		ot.Mistral,
		want{200, "chat.completion", ""}, bare(500), want{429, "rate_limited", "Retry-After: 1"}, bare(503), bare(429),
	},
	{
		ot.Groq,
		want{200, "chat.completion", ""}, bare(500), want{429, "rate_limit_exceeded", "X-Ratelimit-Reset-Requests: 1s"}, bare(503), bare(429),
	},
	{
		ot.Gemini,
		want{200, "candidates", ""}, want{500, "INTERNAL", ""}, want{429, `"retryDelay":"1s"`, ""},
		want{503, "UNAVAILABLE", ""}, want{429, "GenerateRequestsPerDay", ""},
	},
	{
		ot.Cohere,
		want{200, "COMPLETE", ""}, want{500, "failed", ""}, want{429, "many", "X-RateLimit-Reset"}, bare(503), bare(429),
	},
}

func TestWhatAIAPIsAnswer(t *testing.T) {
	for _, g := range generations {
		t.Run(g.dialect.String(), func(t *testing.T) {
			gw := ot.NewGateway(t, ot.Config{Dialect: g.dialect, Script: ot.Script{
				ot.RateLimited, ot.Overloaded, ot.QuotaExhausted, ot.ServerError,
			}})
			g.limited.check(t, "rate limited", post(t, gw, "", order7))
			g.overload.check(t, "overloaded", post(t, gw, "", order7))
			g.exhausted.check(t, "quota exhausted", post(t, gw, "", order7))
			g.failed.check(t, "failed", post(t, gw, "k1", order7))
			assert.Empty(t, gw.Payments())
			for range 2 {
				g.made.check(t, "made", post(t, gw, "k1", order7))
			}
			assert.Equal(t, []string{"order-7"}, gw.DoubleCharged())
			assert.Equal(t, 400, post(t, gw, "k1", "what").status)
		})
	}
}

func TestEveryDialectIsTested(t *testing.T) {
	var all, answering, profiled []ot.Dialect
	for d := ot.Plain; !strings.HasPrefix(d.String(), "Dialect("); d++ {
		all = append(all, d)
	}
	for _, k := range payments {
		answering = append(answering, k.dialect)
	}
	for _, g := range generations {
		answering = append(answering, g.dialect)
	}
	for _, p := range profiles {
		profiled = append(profiled, p.dialect)
	}
	assert.Equal(t, all, answering)
	assert.Equal(t, all, profiled)
}

func TestHintsAreTimesToCome(t *testing.T) {
	for d, parse := range map[ot.Dialect]func(http.Header) (time.Time, error){
		ot.GoCardless: func(h http.Header) (time.Time, error) { return http.ParseTime(h.Get("RateLimit-Reset")) },
		ot.Anthropic: func(h http.Header) (time.Time, error) {
			return time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-Requests-Reset"))
		},
		ot.Cohere: func(h http.Header) (time.Time, error) {
			seconds, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64)
			return time.Unix(seconds, 0), err
		},
	} {
		gw := ot.NewGateway(t, ot.Config{Dialect: d, Script: ot.Script{ot.RateLimited}})
		began := time.Now()
		at, err := parse(post(t, gw, "k1", order7).header)
		require.NoError(t, err, d)
		assert.True(t, at.After(began), "%v: %v", d, at)
		assert.Less(t, at.Sub(began), soon, "%v", d)
	}
}

func TestEveryRouteOfADialect(t *testing.T) {
	for path, d := range map[string]ot.Dialect{
		"/v1/charges":                                     ot.Stripe,
		"/v72/payments":                                   ot.Adyen,
		"/v2/checkout/orders/5O/capture":                  ot.PayPal,
		"/payments/pay_9/captures":                        ot.CheckoutCom,
		"/v1/payments/9/refunds":                          ot.MercadoPago,
		"/platform/v2/evm/accounts/0x9/send/transaction":  ot.Coinbase,
		"/ordermanagement/v1/orders/9/refunds":            ot.Klarna,
		"/v1/payments/pay_29/refund":                      ot.RazorpayRefunds,
		"/v1beta/models/gemini-2.5-flash:generateContent": ot.Gemini,
	} {
		gw := ot.NewGateway(t, ot.Config{Dialect: d})
		body := order7
		if d == ot.Stripe {
			body = form7
		}
		req, err := http.NewRequest(http.MethodPost, gw.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("X-Idempotency-Key", uuid4)
		assert.Less(t, send(t, req).status, 300, path)
		assert.Equal(t, 1, gw.ChargesByOrder("order-7"), path)
		assert.Equal(t, 404, get(t, gw, "/payment").status, d)
	}
}

func TestModernTreasuryTakesAKeyForAnyRoute(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{Dialect: ot.ModernTreasury})
	first := do(freshConns(t), http.MethodPost, gw.PaymentsURL(), "k1", order7)
	second := do(freshConns(t), http.MethodPost, gw.URL+"/api/counterparties", "k1", `{"name":"Ann"}`)
	assert.Equal(t, 201, second.status)
	assert.Equal(t, first.body, second.body, "the payment order, for a counterparty")
	assert.Len(t, gw.Payments(), 1)
}

func TestWhereTheOrderStands(t *testing.T) {
	for body, d := range map[string]ot.Dialect{
		`{"amount":1234,"metadata":{"order":"order-7"}}`:              ot.OpenAI,
		`{"payments":{"amount":1234,"metadata":{"order":"order-7"}}}`: ot.GoCardless,
		`{"amount":1234,"order":"order-7","metadata":"none"}`:         ot.CheckoutCom,
		form7:                        ot.Stripe,
		"amount=1234&order=order-7&": ot.Stripe,
	} {
		gw := ot.NewGateway(t, ot.Config{Dialect: d})
		require.Less(t, post(t, gw, "k1", body).status, 300, body)
		assert.Equal(t, "order-7", gw.Payments()[0].Order, body)
		assert.EqualValues(t, 1234, gw.Payments()[0].Amount, body)
		assert.Equal(t, "order-7", gw.Requests()[0].Order, body)
	}
}

func TestStripeTakesFormsOnly(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{Dialect: ot.Stripe})
	for _, body := range []string{"", order7, "amount=", "%zz=1"} {
		assert.Equal(t, 400, post(t, gw, "k1", body).status, body)
	}
	assert.Empty(t, gw.Payments())
}

func TestIgnoreKeysInADialect(t *testing.T) {
	gw := ot.NewGateway(t, ot.Config{Dialect: ot.Xendit, IgnoreKeys: true})
	for _, key := range []string{"k1", "k1", ""} {
		assert.Equal(t, 200, post(t, gw, key, order7).status)
	}
	assert.Equal(t, []string{"order-7"}, gw.DoubleCharged())

	gw = ot.NewGateway(t, ot.Config{Dialect: ot.IETF, IgnoreKeys: true})
	post(t, gw, `"k1"`, order7)
	assert.Equal(t, 1, gw.Charges("k1"), "without its quotes")
}

func TestAnswerInTheDialectsWordsAfterTheWork(t *testing.T) {
	late := ot.Overloaded.After(time.Millisecond)
	late.Point = ot.AfterWork
	gw := ot.NewGateway(t, ot.Config{Dialect: ot.Anthropic, Script: ot.Script{late}})
	assert.Equal(t, 529, post(t, gw, "", order7).status)
	assert.Equal(t, 1, gw.ChargesByOrder("order-7"))
}
