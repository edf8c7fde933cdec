package provider_test

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/provider"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	unknown   = outbound.OutcomeUnknown
	rejected  = outbound.OutcomeRejected
	succeeded = outbound.OutcomeSucceeded
	notSent   = outbound.OutcomeNotSent

	day = 24 * time.Hour
)

// exchange is one way in which an API is documented to answer, and what must come of it.
type exchange struct {
	name    string
	replies []reply
	want    verdict
}

// profile is what the sources say of an API.
type profile struct {
	name              string
	make              func() outbound.Provider
	header            string // where the key goes; empty: nowhere
	quoted            bool
	window            time.Duration
	longest, shortest int

	keyed   []string // "POST /path" that take a key
	keyless []string // and that do not

	exchanges []exchange // by the first of keyed, or of keyless
}

func ok(body string) reply { return says(201, body) }

func replies(r ...reply) []reply { return r }

var done = ok(`{"id":"1"}`)

// usual are the answers that every API with keys is read alike for.
var usual = []exchange{
	{"done", replies(done), verdict{succeeded, 1, 0}},
	{"lost, then done", replies(lost, done), verdict{succeeded, 2, 0}},
	{"502, then done", replies(says(502, ""), done), verdict{succeeded, 2, 0}},
	{"limited, with a wait", replies(says(429, "{}", "Retry-After", "7"), done), verdict{succeeded, 2, 7 * time.Second}},
	{"refused", replies(says(400, "{}")), verdict{rejected, 1, 0}},
	{"declined after a lost one", replies(lost, says(402, "{}")), verdict{rejected, 2, 0}},
	{"refused after a lost one, by whatever layer", replies(lost, says(422, "{}")), verdict{unknown, 2, 0}},
	{"lost for good", replies(lost), verdict{unknown, 4, 0}},
}

var profiles = []profile{
	{
		name: "Stripe", make: provider.Stripe, header: "Idempotency-Key", window: day, longest: 255,
		keyed: []string{"POST /v1/payment_intents", "POST /v1/refunds"}, keyless: []string{"DELETE /v1/customers/c", "PATCH /v1/x"},
		exchanges: slices.Concat(usual, []exchange{
			{"in flight", replies(lost, says(409, `{"error":{"code":"idempotency_key_in_use"}}`), done), verdict{succeeded, 3, 0}},
			{"lock_timeout", replies(says(429, `{"error":{"code":"lock_timeout"}}`, "Stripe-Should-Retry", "true"), done), verdict{succeeded, 2, 0}},
			{"500 that is stored", replies(says(500, "{}", "Stripe-Should-Retry", "false")), verdict{unknown, 1, 0}},
			{"500, replayed", replies(lost, says(500, "{}", "Idempotent-Replayed", "true")), verdict{unknown, 2, 0}},
			{"decline, replayed", replies(lost, says(402, "{}", "Idempotent-Replayed", "true")), verdict{rejected, 2, 0}},
			{"400, replayed", replies(lost, says(400, "{}", "Idempotent-Replayed", "true")), verdict{rejected, 2, 0}},
			{"success, replayed", replies(lost, says(200, "{}", "Idempotent-Replayed", "true")), verdict{succeeded, 2, 0}},
			{"a conflict to be let be", replies(says(409, "{}", "Stripe-Should-Retry", "false")), verdict{unknown, 1, 0}},
			{"other parameters under a used key", replies(lost, says(400, `{"error":{"type":"idempotency_error"}}`)), verdict{unknown, 2, 0}},
		}),
	},
	{
		name: "Adyen", make: provider.Adyen, header: "Idempotency-Key", window: 7 * day, longest: 64,
		keyed: []string{"POST /v71/payments"}, keyless: []string{"PATCH /v3/companies/c"},
		exchanges: slices.Concat(without(usual, "502, then done"), []exchange{
			{"transient", replies(says(500, "{}", "transient-error", "true"), done), verdict{succeeded, 2, 0}},
			{"transient 422, then nothing", replies(says(422, `{"errorCode":"704"}`, "Transient-Error", "TRUE")), verdict{unknown, 4, 0}},
			{"transient 409", replies(says(409, `{"errorCode":"704"}`, "Transient-Error", " true "), done), verdict{succeeded, 2, 0}},
			{"key store down", replies(says(503, `{"errorCode":"703"}`, "Transient-Error", "true"), done), verdict{succeeded, 2, 0}},
			{"500 that is stored", replies(says(500, "{}")), verdict{unknown, 1, 0}},
			{"500 that says so", replies(says(500, "{}", "Transient-Error", "false")), verdict{unknown, 1, 0}},
			{"409 that is stored", replies(says(409, "{}")), verdict{unknown, 1, 0}},
			{"in use, without the header", replies(says(422, `{"errorCode":"704"}`)), verdict{unknown, 1, 0}},
			{"in use, as a number", replies(says(422, `{"errorCode":704}`)), verdict{unknown, 1, 0}},
			{"422 that says that it is final", replies(says(422, "{}", "Transient-Error", "false")), verdict{rejected, 1, 0}},
			{"another 422", replies(says(422, `{"errorCode":"905"}`)), verdict{rejected, 1, 0}},
			{"a success is no error, whatever its header", replies(says(200, "{}", "Transient-Error", "true")), verdict{succeeded, 1, 0}},
		}),
	},
	{
		name: "PayPal", make: func() outbound.Provider { return provider.PayPal(0) }, header: "PayPal-Request-Id", window: 3 * time.Hour, longest: 78,
		keyed: []string{
			"POST /v2/checkout/orders", "POST /v2/checkout/orders/o/authorize", "POST /v2/checkout/orders/o/capture",
			"POST /v2/payments/authorizations/a/capture", "POST /v2/payments/authorizations/a/void",
			"POST /v2/payments/authorizations/a/reauthorize", "POST /v2/payments/captures/c/refund",
			"POST /v3/vault/setup-tokens", "POST /v3/vault/payment-tokens",
			"POST /v1/payments/payment/p/execute", "POST /v1/payments/sale/s/refund", "POST /v1/payments/capture/c/refund",
			"POST /v1/payments/authorization/a/void", "POST /v1/payments/orders/o/do-void", "POST /v1/payments/payouts",
			"POST /v1/billing/plans", "POST /v1/billing/subscriptions", "POST /v1/billing/subscriptions/s/capture", "POST /v1/catalogs/products",
		},
		keyless: []string{
			"POST /v2/checkout/orders/o/confirm-payment-source", "POST /v2/checkout/orders/o/track", "PATCH /v2/checkout/orders/o",
			"POST /v1/payments/payment", "POST /v1/payments/authorization/a/capture", "POST /v1/payments/authorization/a/reauthorize",
			"POST /v1/payments/orders/o/capture", "POST /v1/payments/orders/o/authorize", "POST /v1/payments/payouts-item/i/cancel",
			"POST /v1/payments/billing-agreements/b/bill-balance", "POST /v1/billing/subscriptions/s/suspend", "POST /v1/billing/subscriptions/s/revise",
			"POST /v1/billing/plans/p/activate", "POST /v2/invoicing/invoices", "POST /v1/oauth2/token", "DELETE /v3/vault/payment-tokens/t",
		},
		exchanges: slices.Concat(usual, []exchange{
			{"at work", replies(lost, says(409, `{"details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}`), done), verdict{succeeded, 3, 0}},
			{"business rule after a lost one", replies(lost, says(422, `{"details":[{"issue":"DUPLICATE_INVOICE_ID"}]}`)), verdict{unknown, 2, 0}},
		}),
	},
	{
		name: "CheckoutCom", make: provider.CheckoutCom, header: "Cko-Idempotency-Key", window: day, longest: 255,
		keyed: []string{
			"POST /payments", "POST /payments/p/captures", "POST /payments/p/refunds", "POST /payments/p/voids", "POST /payments/p/authorizations",
			"POST /payments/p/cancellations", "POST /transfers", "POST /payment-contexts",
		},
		keyless: []string{"POST /tokens", "POST /payment-links", "POST /payments/p/other", "PATCH /payments"},
		exchanges: slices.Concat(without(usual, "502, then done"), []exchange{
			{"in flight", replies(lost, says(409, "{}"), done), verdict{succeeded, 3, 30 * time.Second}},
			{"in flight to the end", replies(lost, says(409, "{}")), verdict{unknown, 4, time.Minute}},
			{"5xx, which is not stored", replies(says(500, "{}"), done), verdict{unknown, 1, 0}},
			{"5xx after a lost one", replies(lost, says(503, "{}"), done), verdict{unknown, 2, 0}},
			{"accepted is not done", replies(says(202, "{}")), verdict{unknown, 1, 0}},
		}),
	},
	{
		name: "MercadoPago", make: provider.MercadoPago, header: "X-Idempotency-Key", window: time.Hour, longest: 128,
		keyed: []string{
			"POST /v1/payments", "POST /v1/payments/1/refunds", "POST /v1/advanced_payments",
			"POST /v1/orders", "POST /v1/orders/o/capture", "POST /v1/orders/o/process", "POST /v1/orders/o/refund",
		},
		keyless: []string{"POST /v1/orders/o/cancel", "POST /v1/customers", "POST /checkout/preferences", "PATCH /v1/payments/1", "PUT /v1/payments/1", "DELETE /v1/x"},
		exchanges: slices.Concat(usual, []exchange{
			{"locked", replies(lost, says(423, "{}"), done), verdict{succeeded, 3, 0}},
			{"locked to the end", replies(says(423, "{}")), verdict{unknown, 4, 0}},
			{"dependency failed", replies(says(424, "{}"), done), verdict{succeeded, 2, 0}},
			{"conflict", replies(says(409, "{}")), verdict{unknown, 1, 0}},
		}),
	},
	{
		name: "GoCardless", make: provider.GoCardless, header: "Idempotency-Key", window: time.Hour, longest: 255,
		keyed: []string{
			"POST /payments", "POST /refunds", "POST /subscriptions", "POST /instalment_schedules", "POST /outbound_payments", "POST /mandates",
			"POST /billing_requests", "POST /customers", "POST /customer_bank_accounts", "POST /creditors", "POST /creditor_bank_accounts",
			"POST /redirect_flows", "POST /payer_authorisations",
		},
		keyless: []string{
			"POST /payments/PM1/actions/cancel", "POST /outbound_payments/withdrawal", "POST /bank_details_lookups", "POST /mandate_pdfs",
			"POST /", "PATCH /payments", "PUT /payments/PM1",
		},
		exchanges: slices.Concat(usual, []exchange{
			{"created before", replies(lost, says(409, conflict)), verdict{succeeded, 2, 0}},
			{"created before, after a byte order mark", replies(lost, says(409, "\xef\xbb\xbf"+conflict)), verdict{succeeded, 2, 0}},
			{"created before, at once", replies(says(409, conflict)), verdict{succeeded, 1, 0}},
			{"another conflict", replies(says(409, `{"error":{"code":409,"type":"invalid_state","errors":[{"reason":"bank_account_exists"}]}}`)), verdict{unknown, 1, 0}},
			{"the reason elsewhere", replies(says(409, `{"error":{"reason":"idempotent_creation_conflict"}}`)), verdict{unknown, 1, 0}},
			{"the reason as text of an error", replies(says(409, `{"error":"idempotent_creation_conflict"}`)), verdict{unknown, 1, 0}},
			{"a conflict that is no JSON", replies(says(409, "<html>idempotent_creation_conflict")), verdict{unknown, 1, 0}},
			{"limited until a date", replies(says(429, "{}", "Date", "Mon, 30 Nov 2026 12:00:00 GMT", "RateLimit-Reset", "Mon, 30 Nov 2026 12:00:20 GMT"), done), verdict{succeeded, 2, 20 * time.Second}},
			{"limited until a date with a zone", replies(says(429, "{}", "Date", "Mon, 30 Nov 2026 12:00:00 GMT", "RateLimit-Reset", "Mon, 30 Nov 2026 13:00:20 +0100"), done), verdict{succeeded, 2, 20 * time.Second}},
			{"Retry-After goes before", replies(says(429, "{}", "Date", "Mon, 30 Nov 2026 12:00:00 GMT", "RateLimit-Reset", "Mon, 30 Nov 2026 12:00:20 GMT", "Retry-After", "2"), done), verdict{succeeded, 2, 2 * time.Second}},
			{"a date that is past", replies(says(429, "{}", "Date", "Mon, 30 Nov 2026 12:00:00 GMT", "RateLimit-Reset", "Mon, 30 Nov 2026 11:00:00 GMT"), done), verdict{succeeded, 2, 0}},
			{"no date", replies(says(429, "{}", "RateLimit-Reset", "60"), done), verdict{succeeded, 2, 0}},
		}),
	},
	{
		name: "Increase", make: provider.Increase, header: "Idempotency-Key", window: -1, longest: 200,
		keyed: []string{"POST /ach_transfers"}, keyless: []string{"POST /ach_transfers/a/approve", "PATCH /accounts/a", "DELETE /x"},
		exchanges: slices.Concat(usual, []exchange{
			{"replayed", replies(lost, says(200, "{}", "Idempotent-Replayed", "true")), verdict{succeeded, 2, 0}},
			{"the key has another object", replies(says(409, `{"type":"idempotency_key_already_used_error","resource_id":"r"}`)), verdict{unknown, 1, 0}},
			{"the object's state forbids it", replies(says(409, `{"type":"invalid_operation_error"}`)), verdict{unknown, 1, 0}},
			{"wait in milliseconds", replies(says(429, "{}", "Retry-After-Ms", "1500"), done), verdict{succeeded, 2, 1500 * time.Millisecond}},
		}),
	},
	{
		name: "ModernTreasury", make: provider.ModernTreasury, header: "Idempotency-Key", window: day, longest: 255,
		keyed: []string{"POST /api/payment_orders"}, keyless: []string{"PATCH /api/payment_orders/p"},
		exchanges: slices.Concat(without(usual, "502, then done"), []exchange{
			{"in flight", replies(lost, says(409, "{}"), done), verdict{succeeded, 3, 0}},
			{"5xx, which is not stored", replies(says(500, "{}"), done), verdict{unknown, 1, 0}},
			{"5xx after a lost one", replies(lost, says(503, "{}"), done), verdict{unknown, 2, 0}},
			{"told to retry a 5xx", replies(says(503, "{}", "X-Should-Retry", "true"), done), verdict{unknown, 1, 0}},
		}),
	},
	{
		name: "Resend", make: provider.Resend, header: "Idempotency-Key", window: day, longest: 256,
		keyed: []string{"POST /emails", "POST /emails/batch"}, keyless: []string{"POST /domains", "PATCH /emails", "POST /emails/e/cancel"},
		exchanges: slices.Concat(usual, []exchange{
			{"in flight", replies(lost, says(409, `{"name":"concurrent_idempotent_requests"}`), done), verdict{succeeded, 3, 0}},
			{"other content under a used key", replies(says(409, `{"name":"invalid_idempotent_request"}`)), verdict{unknown, 1, 0}},
			{"day's quota", replies(says(429, `{"name":"daily_quota_exceeded"}`)), verdict{rejected, 1, 0}},
			{"month's quota", replies(says(429, `{"name":"monthly_quota_exceeded"}`)), verdict{rejected, 1, 0}},
			{"too fast", replies(says(429, `{"name":"rate_limit_exceeded"}`), done), verdict{succeeded, 2, 0}},
		}),
	},
	{
		name: "Flutterwave", make: provider.Flutterwave, header: "X-Idempotency-Key", window: time.Hour, longest: 255,
		keyed: []string{"POST /charges"}, keyless: []string{"PATCH /x"},
		exchanges: slices.Concat(usual, []exchange{
			{"replayed", replies(lost, says(400, "{}", "X-Idempotency-Cache-Hit", "true")), verdict{rejected, 2, 0}},
			{"another API's marker", replies(lost, says(400, "{}", "Idempotent-Replayed", "true")), verdict{unknown, 2, 0}},
		}),
	},
	{
		name: "Coinbase", make: provider.Coinbase, header: "X-Idempotency-Key", window: day, longest: 36, shortest: 36,
		keyed: []string{
			"POST /platform/v2/evm/accounts/a/send/transaction", "POST /platform/v2/evm/accounts", "POST /platform/v2/evm/accounts/import",
			"POST /platform/v2/evm/accounts/a/export", "POST /platform/v2/evm/accounts/export/by-name/n", "POST /platform/v2/evm/accounts/a/sign",
			"POST /platform/v2/evm/accounts/a/sign/message", "POST /platform/v2/evm/accounts/a/sign/transaction",
			"POST /platform/v2/evm/accounts/a/sign/typed-data", "POST /platform/v2/evm/swaps", "POST /platform/v2/policy-engine/policies",
			"POST /platform/v2/solana/accounts", "POST /platform/v2/solana/accounts/send/transaction", "POST /platform/v2/solana/accounts/a/export",
			"POST /platform/v2/solana/accounts/export/by-name/n", "POST /platform/v2/solana/accounts/a/sign/message",
			"POST /platform/v2/solana/accounts/a/sign/transaction",
		},
		keyless: []string{
			"POST /platform/v2/evm/smart-accounts", "POST /platform/v2/evm/smart-accounts/a/user-operations",
			"POST /platform/v2/evm/smart-accounts/a/user-operations/h/send", "POST /platform/v2/evm/faucet", "POST /platform/v2/solana/faucet",
			"POST /platform/v2/payments/transfers", "POST /platform/v2/x402/settle", "PATCH /platform/v2/evm/x", "PUT /platform/v2/evm/accounts/a",
		},
		exchanges: slices.Concat(without(usual, "declined after a lost one"), []exchange{
			{"no payment method, after a lost one", replies(lost, says(402, `{"errorType":"payment_method_required"}`), done), verdict{unknown, 2, 0}},
			{"no payment method", replies(says(402, `{"errorType":"payment_method_required"}`), done), verdict{unknown, 1, 0}},
			{"in flight", replies(lost, says(409, `{"errorType":"already_exists"}`), done), verdict{succeeded, 3, 0}},
			{"exists", replies(says(409, `{"errorType":"already_exists"}`)), verdict{unknown, 4, 0}},
			{"other parameters under a used key", replies(lost, says(422, `{"errorType":"idempotency_error"}`)), verdict{unknown, 2, 0}},
			{"endpoint gone", replies(says(503, `{"errorType":"endpoint_unavailable"}`)), verdict{unknown, 1, 0}},
			{"service busy", replies(says(503, `{"errorType":"service_unavailable"}`), done), verdict{succeeded, 2, 0}},
		}),
	},
	{
		name: "YooKassa", make: provider.YooKassa, header: "Idempotence-Key", window: time.Hour, longest: 64,
		keyed: []string{
			"POST /v3/payments", "POST /v3/payments/p/capture", "POST /v3/payments/p/cancel", "POST /v3/refunds", "POST /v3/receipts", "POST /v3/webhooks",
		},
		keyless: []string{"POST /v3/payouts", "PATCH /v3/payments", "DELETE /v3/webhooks/w"},
		exchanges: slices.Concat(usual, []exchange{
			{"at work", replies(says(202, `{"type":"processing","retry_after":2500}`), done), verdict{succeeded, 2, 2500 * time.Millisecond}},
			{"at work, no wait named", replies(says(202, `{}`), done), verdict{succeeded, 2, 1800 * time.Millisecond}},
			{"at work, as text", replies(says(202, `{"retry_after":"4000"}`), done), verdict{succeeded, 2, 4 * time.Second}},
			{"at work to the end", replies(says(202, `{"retry_after":1000}`)), verdict{unknown, 4, 5400 * time.Millisecond}},
			{"at work for longer than is waited for", replies(says(202, `{"retry_after":600000}`)), verdict{unknown, 1, 0}},
			{"at work for ever", replies(says(202, `{"retry_after":1e300}`)), verdict{unknown, 1, 0}},
			{"unknown", replies(says(500, `{"retry_after":3000}`), done), verdict{succeeded, 2, 3 * time.Second}},
			{"nonsense to wait for", replies(says(500, `{"retry_after":-5}`), done), verdict{succeeded, 2, 1800 * time.Millisecond}},
		}),
	},
	{
		name: "Klarna", make: provider.Klarna, header: "Klarna-Idempotency-Key", window: day, longest: 255,
		keyed:     []string{"POST /ordermanagement/v1/orders/o/captures", "PATCH /ordermanagement/v1/orders/o/authorization"},
		keyless:   []string{"POST /payments/v1/sessions", "POST /checkout/v3/orders"},
		exchanges: usual,
	},
	{
		name: "Xendit", make: provider.Xendit, header: "Idempotency-Key", window: -1, longest: 255,
		keyed: []string{"POST /v2/payouts"}, keyless: []string{"POST /v2/invoices", "PATCH /v2/payouts", "POST /v2/payouts/p/cancel"},
		exchanges: slices.Concat(usual, []exchange{
			{"duplicate", replies(says(409, `{"error_code":"DUPLICATE_ERROR"}`)), verdict{unknown, 1, 0}},
			{"key", replies(lost, says(409, `{"error_code":"IDEMPOTENCY_ERROR"}`)), verdict{unknown, 2, 0}},
		}),
	},
	{
		name: "RazorpayPayouts", make: provider.RazorpayPayouts, header: "X-Payout-Idempotency", window: 7 * day, longest: 36, shortest: 4,
		keyed: []string{"POST /v1/payouts"}, keyless: []string{"POST /v1/payments/p/refund", "POST /v1/contacts", "PATCH /v1/payouts"},
		exchanges: slices.Concat(usual, []exchange{
			{"other payload under a used key", replies(lost, says(400, `{"error":{"code":"BAD_REQUEST_ERROR"}}`)), verdict{unknown, 2, 0}},
			{"a failed payout is an answer", replies(lost, says(200, `{"status":"failed"}`)), verdict{succeeded, 2, 0}},
		}),
	},
	{
		name: "RazorpayRefunds", make: provider.RazorpayRefunds, header: "X-Refund-Idempotency", window: time.Hour, longest: 255, shortest: 10,
		keyed: []string{"POST /v1/payments/p/refund"}, keyless: []string{"POST /v1/payouts", "POST /v1/payments/p/capture", "PATCH /v1/payments/p/refund"},
		exchanges: slices.Concat(usual, []exchange{
			{"in flight", replies(lost, says(409, "{}"), done), verdict{succeeded, 3, 0}},
		}),
	},
	{
		name: "IETF", make: provider.IETF, header: "Idempotency-Key", quoted: true, window: time.Hour, longest: 255,
		keyed: []string{"POST /x", "PATCH /x"}, keyless: []string{"DELETE /x"},
		exchanges: slices.Concat(usual, []exchange{
			{"in flight", replies(lost, says(409, "{}"), done), verdict{succeeded, 3, 0}},
			{"missing", replies(says(400, "{}")), verdict{rejected, 1, 0}},
			{"other payload", replies(lost, says(422, "{}")), verdict{unknown, 2, 0}},
		}),
	},
	{name: "Keyless", make: provider.Keyless, keyless: []string{"POST /x", "PATCH /x", "DELETE /x"}, exchanges: keyless},
	{
		name: "OpenAI", make: provider.OpenAI, keyless: []string{"POST /v1/responses"},
		exchanges: slices.Concat(keyless, []exchange{
			{"credit used up", replies(says(429, `{"error":{"type":"insufficient_quota","code":"credit_balance_exhausted"}}`)), verdict{rejected, 1, 0}},
			{"quota used up", replies(says(429, `{"error":{"code":"insufficient_quota"}}`)), verdict{rejected, 1, 0}},
			{"quota used up, no code", replies(says(429, `{"error":{"type":"insufficient_quota","code":null}}`)), verdict{rejected, 1, 0}},
			{"too fast", replies(says(429, `{"error":{"type":"tokens","code":"rate_limit_exceeded"}}`, "Retry-After-Ms", "250"), done), verdict{succeeded, 2, 250 * time.Millisecond}},
			{"the whole allowance is not waited for", replies(says(429, "{}", "Retry-After", "1", "X-Ratelimit-Reset-Tokens", "6m0s"), done), verdict{succeeded, 2, time.Second}},
			{"conflict", replies(says(409, "{}")), verdict{rejected, 1, 0}},
			{"timed out", replies(says(408, "{}")), verdict{unknown, 1, 0}},
			{"told to retry, but nothing protects it", replies(says(500, "{}", "X-Should-Retry", "true")), verdict{unknown, 1, 0}},
		}),
	},
	{
		name: "Anthropic", make: provider.Anthropic, keyless: []string{"POST /v1/messages"},
		exchanges: slices.Concat(keyless, []exchange{
			{"spend limit", replies(says(429, `{"error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}`)), verdict{rejected, 1, 0}},
			{"too fast", replies(says(429, `{"error":{"type":"rate_limit_error"}}`, "Retry-After", "12"), done), verdict{succeeded, 2, 12 * time.Second}},
			{"overloaded", replies(says(529, `{"error":{"type":"overloaded_error"}}`)), verdict{unknown, 1, 0}},
		}),
	},
	{name: "Mistral", make: provider.Mistral, keyless: []string{"POST /v1/chat/completions"}, exchanges: keyless},
	{name: "Groq", make: provider.Groq, keyless: []string{"POST /openai/v1/chat/completions"}, exchanges: keyless},
	{
		name: "Gemini", make: provider.Gemini, keyless: []string{"POST /v1beta/models/m:generateContent"},
		exchanges: slices.Concat(keyless, []exchange{
			{"too fast", replies(says(429, geminiLimit("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "37s")), done), verdict{succeeded, 2, 37 * time.Second}},
			{"too fast, of a stream", replies(says(429, "["+geminiLimit("x", "9s")+"]"), done), verdict{succeeded, 2, 9 * time.Second}},
			{"a day's quota, of a stream", replies(says(429, "["+geminiLimit("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "1s")+"]")), verdict{rejected, 1, 0}},
			{"a fraction", replies(says(429, geminiLimit("x", "1.5s")), done), verdict{succeeded, 2, 1500 * time.Millisecond}},
			{"a day's quota", replies(says(429, geminiLimit("GenerateRequestsPerDayPerProjectPerModel-FreeTier", "1s"))), verdict{rejected, 1, 0}},
			{"for longer than is waited for", replies(says(429, geminiLimit("x", "36000s"))), verdict{rejected, 1, 0}},
			{"nonsense to wait for", replies(says(429, geminiLimit("x", "soon")), done), verdict{succeeded, 2, 0}},
			{"no unit", replies(says(429, geminiLimit("x", "37")), done), verdict{succeeded, 2, 0}},
			{"before now", replies(says(429, geminiLimit("x", "-3s")), done), verdict{succeeded, 2, 0}},
		}),
	},
	{
		name: "Cohere", make: provider.Cohere, keyless: []string{"POST /v2/chat"},
		exchanges: slices.Concat(keyless, []exchange{
			{"too fast", replies(says(429, "{}", "Date", "Thu, 01 Jan 1970 00:01:40 GMT", "X-RateLimit-Reset", "109"), done), verdict{succeeded, 2, 9 * time.Second}},
			{"Retry-After goes before", replies(says(429, "{}", "Date", "Thu, 01 Jan 1970 00:01:40 GMT", "X-RateLimit-Reset", "109", "Retry-After", "3"), done), verdict{succeeded, 2, 3 * time.Second}},
			{"no number", replies(says(429, "{}", "X-RateLimit-Reset", "1m"), done), verdict{succeeded, 2, 0}},
			{"cancelled", replies(says(499, "{}")), verdict{unknown, 1, 0}},
		}),
	},
}

const conflict = `{"error":{"code":409,"type":"invalid_state","message":"A resource has already been created with this idempotency key",
	"errors":[{"reason":"other"},{"reason":"idempotent_creation_conflict","links":{"conflicting_resource_id":"PM00001078ZJJN"}}]}}`

func geminiLimit(quota, wait string) string {
	return `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[
		{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"` + quota + `"}]},
		{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"` + wait + `"}]}}`
}

// keyless are the answers that every API without keys is read alike for.
var keyless = []exchange{
	{"done", replies(done), verdict{succeeded, 1, 0}},
	{"lost", replies(lost, done), verdict{unknown, 1, 0}},
	{"500", replies(says(500, "{}"), done), verdict{unknown, 1, 0}},
	{"limited, with a wait", replies(says(429, "{}", "Retry-After", "5"), done), verdict{succeeded, 2, 5 * time.Second}},
	{"refused", replies(says(400, "{}")), verdict{rejected, 1, 0}},
}

func without(all []exchange, name string) []exchange {
	return slices.DeleteFunc(slices.Clone(all), func(e exchange) bool { return e.name == name })
}

func endpoint(s string) (method, url string) {
	method, path, _ := strings.Cut(s, " ")
	return method, "https://api.test" + path
}

func TestProfiles(t *testing.T) {
	for _, p := range profiles {
		method, url := endpoint(slices.Concat(p.keyed, p.keyless)[0])
		for _, e := range p.exchanges {
			t.Run(p.name+"/"+e.name, func(t *testing.T) {
				e.want.check(t, call(t, p.make(), nil, method, url, `{"amount":42}`, e.replies...))
			})
		}
	}
}

// TestWhereTheKeyGoes: the same key, in the documented header and form, in every attempt, where the API takes one, and no
// key anywhere else.
func TestWhereTheKeyGoes(t *testing.T) {
	for _, p := range profiles {
		for _, e := range p.keyed {
			method, url := endpoint(e)
			got := call(t, p.make(), nil, method, url, "{}", lost, done)
			assert.Equal(t, succeeded, got.Outcome, "%s, %s", p.name, e)
			assert.NoError(t, provider.UUIDv4(got.IdempotencyKey), "%s, %s", p.name, e)
			wire := got.IdempotencyKey
			if p.quoted {
				wire = `"` + wire + `"`
			}
			for n := range got.api.headers {
				assert.Equal(t, []string{wire}, got.api.keys(n, p.header), "%s, %s", p.name, e)
				assert.Len(t, got.api.headers[n], 1, "%s, %s: no other header", p.name, e)
			}
		}
		for _, e := range p.keyless {
			method, url := endpoint(e)
			got := call(t, p.make(), nil, method, url, "{}", lost, done)
			assert.Empty(t, got.IdempotencyKey, "%s, %s", p.name, e)
			assert.Empty(t, got.api.headers[0], "%s, %s", p.name, e)
			if method != http.MethodPut && method != http.MethodDelete {
				assert.Equal(t, unknown, got.Outcome, "%s, %s", p.name, e)
				assert.Len(t, got.Attempts, 1, "%s, %s", p.name, e)
			}
		}
	}
}

// TestKeyForms: keys at the documented limits are sent, and those beyond are refused before anything is.
func TestKeyForms(t *testing.T) {
	for _, p := range profiles {
		if p.header == "" {
			continue
		}
		method, url := endpoint(p.keyed[0])
		for _, n := range []int{p.longest, p.longest + 1, max(p.shortest, 1), p.shortest - 1} {
			key := keyOf(n)
			if n <= 0 || p.name == "Coinbase" && n == 36 {
				continue
			}
			got := call(t, p.make(), func(r *http.Request) { r.Header.Set(p.header, key) }, method, url, "{}", done)
			if n <= p.longest && n >= p.shortest {
				assert.Equal(t, succeeded, got.Outcome, "%s, %d characters", p.name, n)
				assert.Equal(t, key, got.IdempotencyKey)
				continue
			}
			assert.ErrorIs(t, got.Stopped, outbound.ErrInvalidKey, "%s, %d characters", p.name, n)
			assert.Empty(t, got.api.headers, "%s, %d characters", p.name, n)
		}
	}
}

func keyOf(n int) string { return strings.Repeat("k", max(n, 0)) }

func TestKeyCharacters(t *testing.T) {
	for name, row := range map[string]struct {
		provider outbound.Provider
		endpoint string
		header   string
		accepted []string
		refused  []string
	}{
		"RazorpayPayouts": {provider.RazorpayPayouts(), "POST /v1/payouts", "X-Payout-Idempotency", []string{"order_42-a"}, []string{"order.42", "order/42", "order 42"}},
		"RazorpayRefunds": {provider.RazorpayRefunds(), "POST /v1/payments/p/refund", "X-Refund-Idempotency", []string{"order_42-refund"}, []string{"order.42.refund", "order#42#refund"}},
		"Coinbase": {
			provider.Coinbase(), "POST /platform/v2/evm/accounts", "X-Idempotency-Key", []string{"8e03978e-40d5-43e8-bc93-6894a57f9324"},
			[]string{"order-42", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "8e03978e40d543e8bc936894a57f9324"},
		},
	} {
		method, url := endpoint(row.endpoint)
		for _, key := range slices.Concat(row.accepted, row.refused) {
			got := call(t, row.provider, func(r *http.Request) { r.Header.Set(row.header, key) }, method, url, "{}", done)
			if slices.Contains(row.accepted, key) {
				assert.Equal(t, succeeded, got.Outcome, "%s, %s", name, key)
				continue
			}
			assert.ErrorIs(t, got.Stopped, outbound.ErrInvalidKey, "%s, %s", name, key)
			assert.Empty(t, got.api.headers, "%s, %s", name, key)
		}
	}
}

// TestWindows: an action is resumed within the window, less the attempt's own minute, and not after it.
func TestWindows(t *testing.T) {
	for _, p := range profiles {
		if p.header == "" {
			continue
		}
		method, url := endpoint(p.keyed[0])
		resumed := func(age time.Duration) (got result) {
			synctest.Test(t, func(t *testing.T) {
				action := &outbound.Action{Key: outbound.NewIdempotencyKey(), Started: time.Now().Add(-age)}
				got = callNow(t, outbound.WithAction(t.Context(), action), p.make(), nil, method, url, "{}", done)
			})
			return got
		}
		within := p.window - 2*time.Minute
		if p.window < 0 {
			within = 10 * 365 * day
		}
		assert.Equal(t, succeeded, resumed(within).Outcome, "%s, within", p.name)
		if p.window < 0 {
			continue
		}
		late := resumed(p.window)
		assert.ErrorIs(t, late.Stopped, outbound.ErrKeyExpired, "%s, after", p.name)
		assert.Equal(t, unknown, late.Outcome, "%s, after", p.name)
		assert.Empty(t, late.api.headers, "%s, after", p.name)
	}
}

// TestPayPalsWindow: keys count only where they are remembered for as long as was asked for.
func TestPayPalsWindow(t *testing.T) {
	const vault, orders, catalog, payouts, payments = "/v3/vault/setup-tokens", "/v2/checkout/orders/o/capture", "/v1/catalogs/products", "/v1/payments/payouts", "/v2/payments/captures/c/refund"
	all := []string{vault, orders, catalog, payouts, payments}
	for _, row := range []struct {
		given, window time.Duration
		keyed         []string
	}{
		{0, 3 * time.Hour, all},
		{-1, 3 * time.Hour, all},
		{time.Minute, time.Minute, all},
		{3 * time.Hour, 3 * time.Hour, all},
		{3*time.Hour + 1, 3*time.Hour + 1, all[1:]},
		{6 * time.Hour, 6 * time.Hour, all[1:]},
		{7 * time.Hour, 7 * time.Hour, all[2:]},
		{72 * time.Hour, 72 * time.Hour, all[2:]},
		{30 * day, 30 * day, all[3:]},
		{31 * day, 31 * day, all[4:]},
		{45 * day, 45 * day, all[4:]},
		{46 * day, 45 * day, all[4:]},
		{1 << 62, 45 * day, all[4:]},
	} {
		p := provider.PayPal(row.given)
		assert.Equal(t, row.window, p.KeyWindow)
		for _, path := range all {
			got := post(t, p, path, lost, done)
			assert.Equal(t, slices.Contains(row.keyed, path), got.Outcome == succeeded, "%v, %s", row.given, path)
		}
	}
}

// TestPayPalsRoutesAreEachTransportsOwn: one that is changed leaves the next alone.
func TestPayPalsRoutesAreEachTransportsOwn(t *testing.T) {
	for _, window := range []time.Duration{0, 45 * day} {
		clear(provider.PayPal(window).KeyRoutes)
		assert.NotContains(t, provider.PayPal(window).KeyRoutes, "")
	}
}

// TestAllowDuplicates: what the caller accepts to pay twice is repeated, as the APIs' own libraries do.
func TestAllowDuplicates(t *testing.T) {
	for name, row := range map[string]struct {
		make     func() outbound.Provider
		path     string
		failures []reply
		wait     time.Duration
	}{
		"OpenAI":       {provider.OpenAI, "/v1/responses", replies(lost, says(408, ""), says(409, ""), says(500, "")), 0},
		"Anthropic":    {provider.Anthropic, "/v1/messages", replies(lost, says(408, ""), says(409, ""), says(529, "")), 0},
		"Groq":         {provider.Groq, "/openai/v1/chat/completions", replies(lost, says(408, ""), says(409, ""), says(503, "")), 0},
		"Mistral":      {provider.Mistral, "/v1/chat/completions", replies(says(502, "")), 30 * time.Second},
		"Gemini":       {provider.Gemini, "/v1beta/models/m:generateContent", replies(lost, says(408, ""), says(504, "")), 0},
		"Gemini, busy": {provider.Gemini, "/v1beta/models/m:generateContent", replies(says(503, geminiLimit("x", "3s"))), 3 * time.Second},
		"Cohere":       {provider.Cohere, "/v2/chat", replies(lost, says(408, ""), says(500, "")), 0},
		"Keyless":      {provider.Keyless, "/x", replies(lost, says(500, "")), 0},
	} {
		for _, failure := range row.failures {
			p := row.make()
			p.AllowDuplicates = true
			got := call(t, p, nil, http.MethodPost, "https://api.test"+row.path, "{}", failure, done)
			verdict{succeeded, 2, row.wait}.check(t, got)
			if t.Failed() {
				t.Fatalf("%s after %d", name, failure.status)
			}
			assert.Empty(t, got.api.headers[1], name)
		}
	}
	p := provider.OpenAI()
	p.AllowDuplicates = true
	got := call(t, p, nil, http.MethodPost, "https://api.test/v1/responses", "{}", says(429, `{"error":{"code":"insufficient_quota"}}`))
	verdict{rejected, 1, 0}.check(t, got)
}

// TestToldNotToRetry: X-Should-Retry: false goes before the status, even for those who accept to pay twice, and for reads.
func TestToldNotToRetry(t *testing.T) {
	for _, p := range profiles {
		if p.header != "" {
			continue
		}
		profile := p.make()
		profile.AllowDuplicates = true
		_, url := endpoint(p.keyless[0])
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			for _, status := range []int{408, 409, 429, 500} {
				got := call(t, profile, nil, method, url, "", says(status, "{}", "X-Should-Retry", "false"), done)
				assert.Len(t, got.Attempts, 1, "%s, %s, %d", p.name, method, status)
			}
		}
	}
	p := provider.OpenAI()
	p.AllowDuplicates = true
	got := post(t, p, "/v1/responses", says(409, "{}", "X-Should-Retry", "true"), done)
	verdict{succeeded, 2, 0}.check(t, got)
}

// TestKeylessProfilesSendNoKey, not even one that somebody set: net/http would repeat the request for its sake.
func TestKeylessProfilesSendNoKey(t *testing.T) {
	for _, p := range profiles {
		if p.header != "" {
			continue
		}
		method, url := endpoint(p.keyless[0])
		got := call(t, p.make(), func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }, method, url, "{}", done)
		assert.Empty(t, got.api.headers[0], p.name)
	}
}

// TestOpenAIsBillingCodes are final one by one, and only in a 429.
func TestOpenAIsBillingCodes(t *testing.T) {
	for _, code := range []string{
		"insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded", "organization_usage_limit_exceeded", "project_spend_limit_exceeded",
	} {
		got := call(t, provider.OpenAI(), nil, http.MethodPost, "https://api.test/v1/responses", "{}", says(429, `{"error":{"code":"`+code+`"}}`))
		verdict{rejected, 1, 0}.check(t, got)
		got = call(t, provider.OpenAI(), nil, http.MethodGet, "https://api.test/v1/responses/r", "", says(500, `{"error":{"code":"`+code+`"}}`), done)
		verdict{succeeded, 2, 0}.check(t, got)
	}
}

// TestAConflictWhereKeysDoNotCountProvesNothing: it may be over a key that the caller set, and that has done the work before.
func TestAConflictWhereKeysDoNotCountProvesNothing(t *testing.T) {
	for path, p := range map[string]outbound.Provider{
		"/outbound_payments/withdrawal": provider.GoCardless(),
		"/ach_transfers/a/approve":      provider.Increase(),
		"/v1/customers":                 provider.MercadoPago(),
		"/v2/invoices":                  provider.Xendit(),
	} {
		got := call(t, p, func(r *http.Request) { r.Header.Set(cmp.Or(p.KeyHeader, "Idempotency-Key"), "k-42") }, http.MethodPost, "https://api.test"+path, "{}", says(409, "{}"))
		verdict{unknown, 1, 0}.check(t, got)
	}
}

// TestFinalAnswersThatBreakOff: what a status alone makes final is final without its body, too.
func TestFinalAnswersThatBreakOff(t *testing.T) {
	for _, row := range []struct {
		provider outbound.Provider
		path     string
		status   int
	}{
		{provider.Adyen(), "/v71/payments", 500},
		{provider.CheckoutCom(), "/payments", 500},
		{provider.ModernTreasury(), "/api/payment_orders", 503},
		{provider.Increase(), "/ach_transfers", 409},
		{provider.MercadoPago(), "/v1/payments", 409},
		{provider.Xendit(), "/v2/payouts", 409},
	} {
		t.Run(row.provider.Name, func(t *testing.T) {
			verdict{unknown, 1, 0}.check(t, post(t, row.provider, row.path, breakingOff(row.status), done))
		})
	}
}

// TestAnAnswerWhoseBodyDecidesIsAskedForAgain where it broke off: GoCardless says in it whether the payment was made.
func TestAnAnswerWhoseBodyDecidesIsAskedForAgain(t *testing.T) {
	conflict := says(409, `{"error":{"errors":[{"reason":"idempotent_creation_conflict"}]}}`)
	verdict{succeeded, 3, 0}.check(t, post(t, provider.GoCardless(), "/payments", lost, breakingOff(409), conflict))
}

// TestReadsAreLeftAlone: what a table says of writes does not keep a read from being repeated.
func TestReadsAreLeftAlone(t *testing.T) {
	for _, p := range profiles {
		got := call(t, p.make(), nil, http.MethodGet, "https://api.test/", "", says(502, "{}"), says(200, "{}"))
		assert.Equal(t, succeeded, got.Outcome, p.name)
		assert.Len(t, got.Attempts, 2, p.name)
	}
}

// TestGoCardlessCreatesByPost: where nothing is created, the same answer is no success. A key that created a payment may have
// come with an action, too.
func TestGoCardlessCreatesByPost(t *testing.T) {
	for _, e := range []string{"PUT /payments/PM1", "PUT /payments", "POST /payments/PM1/actions/cancel", "POST /outbound_payments/withdrawal"} {
		method, url := endpoint(e)
		got := call(t, provider.GoCardless(), func(r *http.Request) { r.Header.Set("Idempotency-Key", "payment-42") }, method, url, "{}", says(409, conflict))
		assert.NotEqual(t, succeeded, got.Outcome, e)
		assert.Len(t, got.Attempts, 1, e)
	}
}

// TestProfilesAreSafeForConcurrentUse, over a real socket.
func TestProfilesAreSafeForConcurrentUse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(409)
		_, _ = io.WriteString(w, conflict)
	}))
	defer server.Close()
	for _, p := range profiles {
		tr, err := outbound.New(outbound.Config{Provider: p.make(), Retry: outbound.RetryPolicy{MaxAttempts: 1}})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				method, url := endpoint(slices.Concat(p.keyed, p.keyless)[0])
				req, err := http.NewRequest(method, strings.Replace(url, "https://api.test", server.URL, 1), strings.NewReader("{}"))
				assert.NoError(t, err)
				resp, err := tr.RoundTrip(req)
				if assert.NoError(t, err) {
					_ = resp.Body.Close()
				}
			})
		}
		wg.Wait()
		tr.CloseIdleConnections()
	}
}
