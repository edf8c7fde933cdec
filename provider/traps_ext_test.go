package provider_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/provider"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTraps: the ways in which "repeat a 409 and a 5xx with the same key" is wrong, and that each is survived.
func TestTraps(t *testing.T) {
	for _, trap := range []struct {
		name string
		test func(*testing.T)
	}{
		{"01 a 409 that means done", func(t *testing.T) {
			verdict{succeeded, 1, 0}.check(t, post(t, provider.GoCardless(), "/payments", says(409, conflict)))
		}},
		{"02 a 409 that means a wrong key", func(t *testing.T) {
			verdict{unknown, 1, 0}.check(t, post(t, provider.Resend(), "/emails", says(409, `{"name":"invalid_idempotent_request"}`)))
			verdict{unknown, 1, 0}.check(t, post(t, provider.Increase(), "/x", says(409, `{"type":"idempotency_key_already_used_error"}`)))
			verdict{unknown, 1, 0}.check(t, post(t, provider.MercadoPago(), "/v1/payments", says(409, "{}")))
			verdict{unknown, 1, 0}.check(t, post(t, provider.Xendit(), "/v2/payouts", says(409, "{}")))
		}},
		{"03 at work, and no 409", func(t *testing.T) {
			verdict{unknown, 4, 0}.check(t, post(t, provider.MercadoPago(), "/v1/payments", says(423, "{}")))
			verdict{unknown, 4, 0}.check(t, post(t, provider.Adyen(), "/x", says(422, `{"errorCode":"704"}`, "Transient-Error", "true")))
			verdict{succeeded, 2, time.Second}.check(t, post(t, provider.Stripe(), "/v1/x", says(429, "{}", "Retry-After", "1"), done))
			verdict{unknown, 4, 5400 * time.Millisecond}.check(t, post(t, provider.YooKassa(), "/v3/payments", says(202, "{}")))
		}},
		{"04 a stored 500, for which a new key is no help either", func(t *testing.T) {
			got := post(t, provider.Stripe(), "/v1/charges", lost, says(500, "{}", "Idempotent-Replayed", "true"))
			verdict{unknown, 2, 0}.check(t, got)
			assert.Equal(t, got.api.keys(0, "Idempotency-Key"), got.api.keys(1, "Idempotency-Key"))
			verdict{unknown, 1, 0}.check(t, post(t, provider.Stripe(), "/v1/charges", says(500, "{}", "Stripe-Should-Retry", "false")))
		}},
		{"05 a 5xx that is final unless it says that it is not", func(t *testing.T) {
			verdict{unknown, 1, 0}.check(t, post(t, provider.Adyen(), "/x", says(503, "{}")))
			verdict{succeeded, 2, 0}.check(t, post(t, provider.Adyen(), "/x", says(503, "{}", "Transient-Error", "true"), done))
		}},
		{"06 a failed first run that poisons the key", func(t *testing.T) {
			verdict{succeeded, 1, 0}.check(t, post(t, provider.RazorpayPayouts(), "/v1/payouts", says(200, `{"status":"failed"}`), done))
			replayFailed := outbound.Provider{Judge: provider.Rules(
				provider.Rule{Status: 422, Field: "/message", Codes: []string{"Idempotent replay failed: first execution was not successful"}, Then: outbound.Verdict{Next: outbound.NextStop, Says: outbound.SaysRejected}},
			)}
			verdict{rejected, 2, 0}.check(t, post(t, replayFailed, "/x", lost, says(422, `{"message":"Idempotent replay failed: first execution was not successful"}`), done))
		}},
		{"07 a new key is needed, and none is made silently", func(t *testing.T) {
			needsNewKey := outbound.Provider{Judge: provider.Rules(
				provider.Rule{Status: 409, Field: "/code", Codes: []string{"EC_QLDB_OCC_ERROR_RETRY"}, Then: outbound.Verdict{Next: outbound.NextStop}},
			)}
			verdict{unknown, 1, 0}.check(t, post(t, needsNewKey, "/x", says(409, `{"code":"EC_QLDB_OCC_ERROR_RETRY"}`), done))
		}},
		{"08 a forgotten key acts again", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := postAs(t, &outbound.Action{Key: "order-42", Started: time.Now().Add(-3 * time.Hour)}, provider.PayPal(0), "/v3/vault/setup-tokens", "{}", done)
				require.ErrorIs(t, got.Stopped, outbound.ErrKeyExpired)
				assert.Equal(t, unknown, got.Outcome)
				assert.Empty(t, got.api.headers)
			})
		}},
		{"09 a key at another route brings back the first one's answer", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				action := outbound.NewAction()
				verdict{succeeded, 1, 0}.check(t, postAs(t, action, provider.ModernTreasury(), "/api/payment_orders", "{}", done))
				got := postAs(t, action, provider.ModernTreasury(), "/api/counterparties", "{}", done)
				require.ErrorIs(t, got.Stopped, outbound.ErrActionMismatch)
				assert.Empty(t, got.api.headers)
			})
		}},
		{"10 a key that this route ignores", func(t *testing.T) {
			verdict{unknown, 1, 0}.check(t, post(t, provider.CheckoutCom(), "/tokens", lost, done))
			verdict{unknown, 1, 0}.check(t, post(t, provider.RazorpayPayouts(), "/v1/payments/p/refund", lost, done))
			verdict{unknown, 1, 0}.check(t, post(t, provider.Resend(), "/domains", lost, done))
		}},
		{"11 a body that drifts", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				action := outbound.NewAction()
				got := postAs(t, action, provider.Stripe(), "/v1/charges", `{"amount":42}`, lost, says(503, ""), done)
				assert.Equal(t, []string{`{"amount":42}`, `{"amount":42}`, `{"amount":42}`}, got.api.bodies)
				got = postAs(t, action, provider.Stripe(), "/v1/charges", `{"amount": 42}`, done)
				require.ErrorIs(t, got.Stopped, outbound.ErrActionMismatch)
				assert.Empty(t, got.api.headers)
			})
		}},
		{"12 another region, which has not seen the key", func(t *testing.T) {
			redirect := says(307, "", "Location", "https://other-region.test/x")
			synctest.Test(t, func(t *testing.T) {
				base := &api{replies: replies(lost, redirect, done)}
				tr, err := outbound.New(config(provider.Adyen(), base))
				require.NoError(t, err)
				resp, err := (&http.Client{Transport: tr}).Post("https://region.test/x", "application/json", strings.NewReader("{}"))
				require.Error(t, err)
				assert.Equal(t, unknown, outbound.OutcomeOf(resp, err))
				assert.Len(t, base.headers, 2)
			})
		}},
		{"13 a key header makes net/http repeat what the API does not protect", func(t *testing.T) {
			for _, p := range []outbound.Provider{provider.OpenAI(), provider.Anthropic(), provider.Keyless()} {
				got := call(t, p, func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }, http.MethodPost, "https://api.test/v1/x", "{}", done)
				assert.Empty(t, got.api.headers[0], p.Name)
			}
		}},
		{"14 a 429 is not one thing", func(t *testing.T) {
			verdict{succeeded, 2, 0}.check(t, post(t, provider.Stripe(), "/v1/charges", says(429, `{"error":{"code":"lock_timeout"}}`), done))
			verdict{rejected, 1, 0}.check(t, post(t, provider.OpenAI(), "/v1/x", says(429, `{"error":{"code":"insufficient_quota"}}`), done))
			verdict{rejected, 1, 0}.check(t, post(t, provider.Resend(), "/emails", says(429, `{"name":"daily_quota_exceeded"}`), done))
		}},
		{"15 a layer before the keys answers for itself", func(t *testing.T) {
			for _, status := range []int{401, 403, 404, 413, 422, 429} {
				got := post(t, provider.Stripe(), "/v1/charges", lost, says(status, "{}"))
				assert.Equal(t, unknown, got.Outcome, "%d", status)
			}
		}},
		{"16 resets in every form", func(t *testing.T) {
			verdict{succeeded, 2, 9 * time.Second}.check(t, post(t, provider.GoCardless(), "/payments",
				says(429, "", "Date", "Mon, 30 Nov 2026 12:00:00 GMT", "RateLimit-Reset", "Mon, 30 Nov 2026 12:00:09 GMT"), done))
			verdict{succeeded, 2, 9 * time.Second}.check(t, post(t, provider.Cohere(), "/v2/chat",
				says(429, "", "Date", "Thu, 01 Jan 1970 00:01:40 GMT", "X-RateLimit-Reset", "109"), done))
			verdict{succeeded, 2, 9 * time.Second}.check(t, post(t, provider.YooKassa(), "/v3/payments", says(202, `{"retry_after":9000}`), done))
			verdict{succeeded, 2, 9 * time.Second}.check(t, post(t, provider.Gemini(), "/v1beta/x", says(429, geminiLimit("x", "9s")), done))
			verdict{succeeded, 2, 0}.check(t, post(t, provider.OpenAI(), "/v1/x", says(429, "", "X-Ratelimit-Reset-Requests", "6m0s"), done))
			verdict{succeeded, 2, 0}.check(t, post(t, provider.OpenAI(), "/v1/x", says(429, "", "Retry-After", "-1"), done))
			verdict{succeeded, 2, 0}.check(t, post(t, provider.OpenAI(), "/v1/x", says(429, "", "Retry-After", "0"), done))
		}},
		{"17 a wait beyond what is waited for", func(t *testing.T) {
			got := post(t, provider.Anthropic(), "/v1/messages", says(429, "{}", "Retry-After", "3600"), done)
			verdict{rejected, 1, 0}.check(t, got)
			assert.Equal(t, time.Hour, got.RetryAfter)
		}},
		{"18 a 200 with a failure inside", func(t *testing.T) {
			graphQL := outbound.Provider{Judge: provider.Rules(
				provider.Rule{Status: 200, Field: "/errors/*/extensions/code", Codes: []string{"IDEMPOTENCY_CONCURRENT_REQUEST"}, Then: outbound.Verdict{Next: outbound.NextRetry, Says: outbound.SaysUnknown}},
				provider.Rule{Status: 200, Field: "/errors/*/extensions/code", Then: outbound.Verdict{Next: outbound.NextStop, Says: outbound.SaysUnknown}},
			)}
			const concurrent = `{"errors":[{"extensions":{"code":"IDEMPOTENCY_CONCURRENT_REQUEST"}}]}`
			verdict{succeeded, 2, 0}.check(t, post(t, graphQL, "/graphql", says(200, concurrent), says(200, `{"data":{}}`)))
			verdict{unknown, 1, 0}.check(t, post(t, graphQL, "/graphql", says(200, `{"errors":[{"extensions":{"code":"OTHER"}}]}`)))
		}},
		{"19 quoted is another key than raw", func(t *testing.T) {
			for _, p := range profiles {
				if p.header == "" {
					continue
				}
				method, url := endpoint(p.keyed[0])
				got := call(t, p.make(), nil, method, url, "{}", done)
				assert.Equal(t, p.name == "IETF", strings.HasPrefix(got.api.keys(0, p.header)[0], `"`), p.name)
			}
		}},
		{"20 a client's timeout around all attempts", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told outbound.Report
				base := &api{replies: replies(hangs)}
				cfg := config(provider.Stripe(), base)
				cfg.Hooks.Done = func(_ context.Context, r outbound.Report) { told = r }
				tr, err := outbound.New(cfg)
				require.NoError(t, err)
				_, err = (&http.Client{Transport: tr, Timeout: time.Second}).Post("https://api.test/v1/charges", "application/json", strings.NewReader("{}"))
				require.Error(t, err)
				assert.Equal(t, unknown, told.Outcome)
				assert.Equal(t, base.keys(0, "Idempotency-Key"), []string{told.IdempotencyKey})
			})
		}},
	} {
		t.Run(trap.name, trap.test)
	}
}

// post sends a POST.
func post(t *testing.T, p outbound.Provider, path string, replies ...reply) result {
	t.Helper()
	return call(t, p, nil, http.MethodPost, "https://api.test"+path, "{}", replies...)
}

// postAs sends a POST as an action. The action's clock is that of the bubble it was made in.
func postAs(t *testing.T, a *outbound.Action, p outbound.Provider, path, body string, replies ...reply) result {
	t.Helper()
	return callNow(t, outbound.WithAction(t.Context(), a), p, nil, http.MethodPost, "https://api.test"+path, body, replies...)
}
