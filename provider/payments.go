package provider

import (
	"net/http"
	"slices"
	"time"

	"github.com/outbound-go/outbound"
)

const day = 24 * time.Hour

// Stripe is api.stripe.com, version 1 of the API. A POST takes a key; it may be forgotten after a day, and then acts anew. Every
// answer is stored once the work has begun, a 500 too, so a retry of a 5xx helps only while nothing was stored:
// Stripe-Should-Retry says which, and goes before the status. A stored answer is final.
//
// Assumed, not documented: a stored answer is marked with Idempotent-Replayed. Where it is not, a stored 400 proves nothing
// after a lost reply, and a stored 500 is asked for until the attempts are used up. Version 2 of the API remembers keys for 30
// days.
//
// Sources, read in November 2026: docs.stripe.com/api/idempotent_requests, docs.stripe.com/error-low-level, and stripe.go of
// github.com/stripe/stripe-go.
func Stripe() outbound.Provider {
	return outbound.Provider{
		Name:       "stripe",
		KeyMethods: []string{http.MethodPost},
		KeyWindow:  day,
	}
}

// Adyen is Adyen's payment APIs. A failed answer without Transient-Error: true is stored as the key's final answer,
// whatever its status, and asking again only brings it back; with that header nothing was stored. A 429 is asked again as
// everywhere. Keys are not compared between regions: never repeat an action at another region's endpoint.
//
// The window is a week, the shortest that is quoted; the page that was read says 31 days. Assumed, not documented: error code
// 704, the key is in use, says nothing of the work, and comes with Transient-Error where it is worth a retry.
//
// Sources, read in November 2026: docs.adyen.com/development-resources/api-idempotency, and json/CheckoutService-v37.json and
// -v71.json of github.com/Adyen/adyen-openapi.
func Adyen() outbound.Provider {
	inUse := outbound.Verdict{Next: outbound.NextStop, Says: outbound.SaysUnknown}
	return outbound.Provider{
		Name:         "adyen",
		KeyMethods:   []string{http.MethodPost},
		MaxKeyLength: 64,
		KeyWindow:    7 * day,
		Judge: Rules(
			Rule{Status: 4, Header: "Transient-Error", Value: "true", Then: atWork},
			Rule{Status: 5, Header: "Transient-Error", Value: "true", Then: atWork},
			Rule{Status: 422, Field: "/errorCode", Codes: []string{"704"}, Then: inUse},
			Rule{Status: 409, Then: stop},
			Rule{Method: http.MethodPost, Status: 5, Then: stop},
		),
	}
}

// payPalRoutes are the operations that take a PayPal-Request-Id, by how long it is remembered there, the shortest first.
var payPalRoutes = []struct {
	remembered time.Duration
	routes     []string
}{
	{3 * time.Hour, []string{
		"/v3/vault/payment-tokens",
		"/v3/vault/setup-tokens",
	}},
	{6 * time.Hour, []string{
		"/v2/checkout/orders",
		"/v2/checkout/orders/{id}/authorize",
		"/v2/checkout/orders/{id}/capture",
	}},
	{3 * day, []string{
		"/v1/billing/plans",
		"/v1/billing/subscriptions",
		"/v1/billing/subscriptions/{id}/capture",
		"/v1/catalogs/products",
	}},
	{30 * day, []string{
		"/v1/payments/authorization/{id}/void",
		"/v1/payments/capture/{id}/refund",
		"/v1/payments/orders/{id}/do-void",
		"/v1/payments/payment/{id}/execute",
		"/v1/payments/payouts",
		"/v1/payments/sale/{id}/refund",
	}},
	{45 * day, []string{
		"/v2/payments/authorizations/{id}/capture",
		"/v2/payments/authorizations/{id}/reauthorize",
		"/v2/payments/authorizations/{id}/void",
		"/v2/payments/captures/{id}/refund",
	}},
}

// PayPal is api-m.paypal.com. How long it remembers a PayPal-Request-Id differs by API: 3 hours in Vault v3, 6 hours in Orders
// v2, 72 hours in Subscriptions and Catalog, 30 days in Payouts and Payments v1, 45 days in Payments v2. The window is the
// KeyWindow, and keys count only where they are remembered at least that long: PayPal(6*time.Hour) leaves Vault out, and
// PayPal(45*24*time.Hour) takes Payments v2 alone. Zero and negative: 3 hours, everywhere. More than 45 days: 45 days.
//
// Keys count only at the operations whose specification names the header. Not all do: Payments v1 takes none when a payment is
// created, nor for a capture or a reauthorization; Orders takes none for confirm-payment-source and track. The longest key is 78
// characters, which all of them take. 409 says that an earlier call is at work on the same resource, and is asked again.
//
// Sources, read in November 2026: developer.paypal.com/api/rest/reference/idempotency, and checkout_orders_v2, payments_payment_v1,
// payments_payment_v2, payments_payouts_batch_v1, vault_payment_tokens_v3, billing_subscriptions_v1 and catalogs_products_v1 in
// openapi/ of github.com/paypal/paypal-rest-api-specifications.
func PayPal(window time.Duration) outbound.Provider {
	shortest, longest := payPalRoutes[0].remembered, payPalRoutes[len(payPalRoutes)-1].remembered
	if window <= 0 {
		window = shortest
	}
	window = min(window, longest) // no routes would mean every path
	var routes []string
	for _, api := range payPalRoutes {
		if api.remembered >= window {
			routes = append(routes, api.routes...)
		}
	}
	return outbound.Provider{
		Name:         "paypal",
		KeyHeader:    "PayPal-Request-Id",
		KeyMethods:   []string{http.MethodPost},
		KeyRoutes:    routes,
		MaxKeyLength: 78,
		KeyWindow:    window,
	}
}

// CheckoutCom is api.checkout.com. It takes keys on the listed endpoints only, and stores successes only: after a 4xx or 5xx the
// same key has the payment tried again. A 5xx may come after the work, so it is not repeated here: it is unknown, and
// yours to look into. A lost reply is repeated all the same: if it was a success, that is stored and comes back, and
// Checkout.com asks for the retry. 409 says that the first request is at work, and Checkout.com asks to wait 30 seconds: with
// the default TotalTimeout of 30 seconds there is no time for that, and the 409 comes back, unknown. Give it two minutes.
//
// Captures, refunds and voids are answered with 202, which is unknown until you ask or hear how it went.
//
// Sources, read in November 2026: checkout.com/docs/payments/manage-payments/idempotency and /retry-a-payment (January 2026),
// support.checkout.com article 24570669653010, and client/client.go of github.com/checkout/checkout-sdk-go.
func CheckoutCom() outbound.Provider {
	return outbound.Provider{
		Name:       "checkout.com",
		KeyHeader:  "Cko-Idempotency-Key",
		KeyMethods: []string{http.MethodPost},
		KeyRoutes: []string{
			"/payment-contexts",
			"/payments",
			"/payments/{id}/authorizations",
			"/payments/{id}/cancellations",
			"/payments/{id}/captures",
			"/payments/{id}/refunds",
			"/payments/{id}/voids",
			"/transfers",
		},
		KeyWindow: day,
		Judge: Rules(
			Rule{Status: 409, Then: outbound.Verdict{MinWait: 30 * time.Second}},
			Rule{Method: http.MethodPost, Status: 5, Then: stop},
		),
	}
}

// MercadoPago is the payments, refunds and orders of api.mercadopago.com, where the reference has a POST take the key, of at most
// 128 characters. Its other writes are keyless here, although the official library sends a key with all of them. 423 says that
// the key is locked by a request at work, and is asked again, as is 424; 409 is a conflict over the key or the payment's state,
// and final.
//
// Assumed, not documented: the key is remembered for an hour at least.
//
// Sources, read in November 2026: mercadopago.com.br/developers/en/news/2023/01/04 (the key becomes mandatory), /en/docs
// (idempotency of wallet-connect, integration errors of checkout-pro-orders), /en/reference (payments, refunds, orders), and
// pkg/mperror/typed_errors.go and pkg/internal/httpclient/helper.go of github.com/mercadopago/sdk-go.
func MercadoPago() outbound.Provider {
	return outbound.Provider{
		Name:       "mercadopago",
		KeyHeader:  "X-Idempotency-Key",
		KeyMethods: []string{http.MethodPost},
		KeyRoutes: []string{
			"/v1/advanced_payments",
			"/v1/orders",
			"/v1/orders/{id}/capture",
			"/v1/orders/{id}/process",
			"/v1/orders/{id}/refund",
			"/v1/payments",
			"/v1/payments/{id}/refunds",
		},
		MaxKeyLength: 128,
		KeyWindow:    undocumented,
		Judge: Rules(
			Rule{Status: 409, Then: stop},
			Rule{Status: 423, Then: atWork},
			Rule{Status: 424, Then: atWork},
		),
	}
}

// GoCardless is api.gocardless.com. Keys are for the endpoints that create something; here for those where the official
// library repeats the request and, told of a conflict, fetches what was created. Actions, such as cancelling a payment, are
// keyless. RateLimit-Reset is a date.
//
// A key that created something before is answered with 409 and the reason idempotent_creation_conflict. That is done, and
// [outbound.OutcomeSucceeded]: the body's links.conflicting_resource_id names what was created. It says that something was
// created with this key, not that it was made of this body, so a key of your own must name one thing for ever. And it stays a
// 409: [outbound.CheckResponse] makes an error of it, so ask [outbound.OutcomeOf] first. Other 409s are final, and prove nothing.
//
// Assumed, not documented: keys are remembered for an hour at least.
//
// Sources, read in November 2026: gocardless.com/blog/idempotency-keys, retries.go of github.com/gocardless/gocardless-pro-go,
// lib/gocardless_pro/error/invalid_state_error.rb of github.com/gocardless/gocardless-pro-ruby, and the services of
// github.com/gocardless/gocardless-pro-python.
func GoCardless() outbound.Provider {
	creations := []string{
		"/billing_requests",
		"/creditor_bank_accounts",
		"/creditors",
		"/customer_bank_accounts",
		"/customers",
		"/instalment_schedules",
		"/mandates",
		"/outbound_payments",
		"/payer_authorisations",
		"/payments",
		"/redirect_flows",
		"/refunds",
		"/subscriptions",
	}
	rules := Rules(
		Rule{Method: http.MethodPost, Status: 409, Field: "/error/errors/*/reason", Codes: []string{"idempotent_creation_conflict"}, Then: done},
		Rule{Status: 409, Then: stop},
		Rule{Status: 429, Wait: resetAt("RateLimit-Reset", httpDate)},
	)
	return outbound.Provider{
		Name:       "gocardless",
		KeyMethods: []string{http.MethodPost},
		KeyRoutes:  slices.Clone(creations),
		KeyWindow:  undocumented,
		Judge: func(resp *http.Response, body []byte) outbound.Verdict {
			if !isAt(resp.Request, creations) {
				body = []byte{} // a conflict over something else: this is no creation
			}
			return rules(resp, body)
		},
	}
}

// isAt reports whether a request was sent to one of these paths.
func isAt(req *http.Request, paths []string) bool {
	return req != nil && req.URL != nil && slices.Contains(paths, req.URL.Path)
}

// Increase is api.increase.com. A POST that creates an object takes a key, which belongs to that object for ever: the same request
// with it is answered with that object and Idempotent-Replayed. Other POSTs, such as an approval, are keyless here: what is
// promised is one object a key. Any 409 is final: another request has used the key, or the object's state does not allow
// it. Objects can be listed by their idempotency_key.
//
// Sources, read in November 2026: increase.com/documentation/idempotency-keys, and internal/apierror of
// github.com/Increase/increase-go.
func Increase() outbound.Provider {
	return outbound.Provider{
		Name:         "increase",
		KeyMethods:   []string{http.MethodPost},
		KeyRoutes:    []string{"/{objects}"},
		MaxKeyLength: 200,
		KeyWindow:    -1,
		Judge:        Rules(Rule{Status: 409, Then: stop}),
	}
}

// ModernTreasury is app.moderntreasury.com. A POST takes a key for a day. Only successes are stored: after an error the same key has
// the work tried again. A 5xx may come after the work, so it is not repeated here: it is unknown, and yours to look into. A
// lost reply is repeated all the same: if it was a success, that is stored and comes back, and Modern Treasury asks for the
// retry. 409 says that the first request is at work. A key does not know its route: sent to another endpoint it brings back the
// first one's answer as a success, so use each action for one request, as everywhere here, and one API key for all its attempts.
//
// Source, read in November 2026: docs.moderntreasury.com/reference/idempotent-requests.
func ModernTreasury() outbound.Provider {
	return outbound.Provider{
		Name:       "moderntreasury",
		KeyMethods: []string{http.MethodPost},
		KeyWindow:  day,
		Judge:      Rules(Rule{Method: http.MethodPost, Status: 5, Then: stop}),
	}
}

// Flutterwave is version 4 of Flutterwave's API. Every POST takes a key. A stored answer is marked with X-Idempotency-Cache-Hit.
//
// Assumed, not documented: keys are remembered for an hour at least.
//
// Source, read in November 2026: developer.flutterwave.com/docs/idempotency.
func Flutterwave() outbound.Provider {
	return outbound.Provider{
		Name:         "flutterwave",
		KeyHeader:    "X-Idempotency-Key",
		KeyMethods:   []string{http.MethodPost},
		KeyWindow:    undocumented,
		ReplayHeader: "X-Idempotency-Cache-Hit",
	}
}

// Coinbase is api.cdp.coinbase.com, version 2. A key is a UUID of version 4 and remembered for a day. It counts only at the
// operations whose specification names the header: creating, preparing and sending with smart accounts, faucets, transfers and
// x402 are keyless. 409, already_exists, says that the first request with the key is at work, or that something of that name
// exists: it is asked again, and proves nothing. 402, payment_method_required, is about your bill with Coinbase, not about the
// work: where others decline a payment with it, here it is unknown. endpoint_unavailable is no passing trouble.
//
// Sources, read in November 2026: docs.cdp.coinbase.com/api-reference/v2/idempotency and
// /rest-api/solana-accounts/send-solana-transaction, and openapi.yaml of github.com/coinbase/cdp-sdk.
func Coinbase() outbound.Provider {
	return outbound.Provider{
		Name:       "coinbase",
		KeyHeader:  "X-Idempotency-Key",
		KeyMethods: []string{http.MethodPost},
		KeyRoutes: []string{
			"/platform/v2/evm/accounts",
			"/platform/v2/evm/accounts/export/by-name/{name}",
			"/platform/v2/evm/accounts/import",
			"/platform/v2/evm/accounts/{address}/export",
			"/platform/v2/evm/accounts/{address}/send/transaction",
			"/platform/v2/evm/accounts/{address}/sign",
			"/platform/v2/evm/accounts/{address}/sign/message",
			"/platform/v2/evm/accounts/{address}/sign/transaction",
			"/platform/v2/evm/accounts/{address}/sign/typed-data",
			"/platform/v2/evm/swaps",
			"/platform/v2/policy-engine/policies",
			"/platform/v2/solana/accounts",
			"/platform/v2/solana/accounts/export/by-name/{name}",
			"/platform/v2/solana/accounts/send/transaction",
			"/platform/v2/solana/accounts/{address}/export",
			"/platform/v2/solana/accounts/{address}/sign/message",
			"/platform/v2/solana/accounts/{address}/sign/transaction",
		},
		CheckKey:  UUIDv4,
		KeyWindow: day,
		Judge: Rules(
			Rule{Method: http.MethodPost, Status: 402, Then: outbound.Verdict{Says: outbound.SaysUnknown}},
			Rule{Status: 503, Field: "/errorType", Codes: []string{"endpoint_unavailable"}, Then: stop},
		),
	}
}

// YooKassa is api.yookassa.ru/v3. 202 says that the request is at work, and is asked again with the same key; a 500 is unknown,
// and likewise. Both say in the body how long to wait, in milliseconds; 1.8 s where they do not.
//
// Keys count where the official library was seen to send one. YooKassa asks for one elsewhere too, such as at payouts: add what
// you call to KeyRoutes.
//
// Assumed, not documented: keys have at most 64 characters and are remembered for an hour at least.
//
// Sources, read in November 2026: yookassa.ru/developers/using-api/response-handling/http-codes and /recommendations, and
// lib/Client.php and lib/Client/BaseClient.php of github.com/yoomoney/yookassa-sdk-php.
func YooKassa() outbound.Provider {
	const usual = 1800 * time.Millisecond
	return outbound.Provider{
		Name:       "yookassa",
		KeyHeader:  "Idempotence-Key",
		KeyMethods: []string{http.MethodPost},
		KeyRoutes: []string{
			"/v3/payments",
			"/v3/payments/{id}/cancel",
			"/v3/payments/{id}/capture",
			"/v3/receipts",
			"/v3/refunds",
			"/v3/webhooks",
		},
		MaxKeyLength: 64,
		KeyWindow:    undocumented,
		Judge: Rules(
			Rule{Status: 202, Then: outbound.Verdict{Next: outbound.NextRetry, MinWait: usual}, Wait: waitIn(milliseconds, "/retry_after")},
			Rule{Status: 500, Then: outbound.Verdict{MinWait: usual}, Wait: waitIn(milliseconds, "/retry_after")},
		),
	}
}

// Klarna is Klarna's Order Management API; its other APIs are keyless here. All POSTs and PATCHes take a key for a day. Klarna
// advises UUIDs of version 5; its own example is one of version 4, as those made here are.
//
// Source, read in November 2026: docs.klarna.com/api/escalation-and-retry-policy.
func Klarna() outbound.Provider {
	return outbound.Provider{
		Name:       "klarna",
		KeyHeader:  "Klarna-Idempotency-Key",
		KeyMethods: []string{http.MethodPost, http.MethodPatch},
		KeyRoutes:  []string{"/ordermanagement/"},
		KeyWindow:  day,
	}
}

// Xendit is the payouts of api.xendit.co, which take a key that never expires. A 409 is final, for a key (IDEMPOTENCY_ERROR) as for
// a duplicate (DUPLICATE_ERROR), and proves nothing. Xendit's other endpoints are keyless here.
//
// Sources, read in November 2026: payout/api_payout.go of github.com/xendit/xendit-go, and CreatePaymentMethod409Response.ts
// of github.com/xendit/xendit-node.
func Xendit() outbound.Provider {
	return outbound.Provider{
		Name:       "xendit",
		KeyMethods: []string{http.MethodPost},
		KeyRoutes:  []string{"/v2/payouts"},
		KeyWindow:  -1,
		Judge:      Rules(Rule{Status: 409, Then: stop}),
	}
}

// RazorpayPayouts is api.razorpay.com/v1/payouts, plain and composite. A key has 4 to 36 letters, digits, hyphens and
// underscores, and is remembered for a week. The same key brings back the payout's latest state: one that failed stays failed, and
// only you can decide on a new action. Refunds have a header of their own, so give them a Transport of their own.
//
// Sources, read in November 2026: razorpay.com/docs/api/x/payout-idempotency and /make-request.
func RazorpayPayouts() outbound.Provider {
	return outbound.Provider{
		Name:         "razorpay-payouts",
		KeyHeader:    "X-Payout-Idempotency",
		KeyMethods:   []string{http.MethodPost},
		KeyRoutes:    []string{"/v1/payouts"},
		MinKeyLength: 4,
		MaxKeyLength: 36,
		CheckKey:     Word,
		KeyWindow:    7 * day,
	}
}

// RazorpayRefunds is the refunds of api.razorpay.com, normal and instant. A key has at least 10 letters, digits, hyphens and
// underscores. 409 says that the first request is at work. See [RazorpayPayouts].
//
// Assumed, not documented: keys are remembered for an hour at least.
//
// Sources, read in November 2026: razorpay.com/docs/api/refunds/normal-refunds-idempotent and /instant-refunds-idempotent.
func RazorpayRefunds() outbound.Provider {
	return outbound.Provider{
		Name:         "razorpay-refunds",
		KeyHeader:    "X-Refund-Idempotency",
		KeyMethods:   []string{http.MethodPost},
		KeyRoutes:    []string{"/v1/payments/{id}/refund"},
		MinKeyLength: 10,
		CheckKey:     Word,
		KeyWindow:    undocumented,
	}
}
