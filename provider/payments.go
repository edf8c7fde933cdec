package provider

import (
	"net/http"
	"time"

	"github.com/outbound-go/outbound"
)

const day = 24 * time.Hour

// Stripe is api.stripe.com, version 1 of the API. A POST takes a key; it may be forgotten after a day, and then acts anew. Every
// answer is stored once the work has begun, a 500 too, so a retry of a 5xx helps only while nothing was stored:
// Stripe-Should-Retry says which, and goes before the status. A stored answer is final.
//
// Assumed, not documented: a stored answer is marked with Idempotent-Replayed. Where it is not, a stored 500 is asked for until
// the attempts are used up, and stays unknown. Version 2 of the API remembers keys for 30 days.
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

// Adyen is Adyen's payment APIs. A failed answer without Transient-Error: true is stored as the key's final answer, whatever its
// status, and asking again only brings it back; with that header nothing was stored. Keys are not compared between regions: never
// repeat an action at another region's endpoint.
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

// PayPal is api-m.paypal.com. How long it remembers a PayPal-Request-Id differs by API, so say it: 6 hours for Orders v2, 3 hours
// for Vault v3, 45 days for Payments v2, 30 days for Payouts and Payments v1, 72 hours for Subscriptions and Catalog.
// Zero: 3 hours, the shortest of them. Negative: no limit.
//
// Keys count under the paths of these APIs only: not all of PayPal's take them. The longest key is 78 characters, which all of
// them take. 409 says that an earlier call is at work on the same resource, and is asked again.
//
// Assumed, not documented: of Orders, and under the paths that end in a slash, each POST takes a key. PayPal's specifications name
// the header operation by operation, and were read for Payments v2 and Vault v3 only, so narrow KeyRoutes to what you call.
//
// Sources, read in November 2026: developer.paypal.com/api/rest/reference/idempotency, and openapi/*.json of
// github.com/paypal/paypal-rest-api-specifications.
func PayPal(window time.Duration) outbound.Provider {
	if window == 0 {
		window = 3 * time.Hour
	}
	return outbound.Provider{
		Name:       "paypal",
		KeyHeader:  "PayPal-Request-Id",
		KeyMethods: []string{http.MethodPost},
		KeyRoutes: []string{
			"/v2/checkout/orders", "/v2/checkout/orders/",
			"/v2/payments/authorizations/{id}/capture",
			"/v2/payments/authorizations/{id}/reauthorize",
			"/v2/payments/authorizations/{id}/void",
			"/v2/payments/captures/{id}/refund",
			"/v3/vault/payment-tokens",
			"/v3/vault/setup-tokens",
			"/v1/payments/",
			"/v1/billing/",
			"/v1/catalogs/",
		},
		MaxKeyLength: 78,
		KeyWindow:    window,
	}
}

// CheckoutCom is api.checkout.com. It takes keys on the listed endpoints only, and stores successes only: after a 4xx or 5xx the
// same key has the payment tried again. A 5xx may come after the work, so it is not repeated here: it is unknown, and
// yours to look into. 409 says that the first request is at work, and Checkout.com asks to wait 30 seconds: with the default
// TotalTimeout of 30 seconds there is no time for that, and the 409 comes back, unknown. Give it two minutes.
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

// MercadoPago is api.mercadopago.com. 423 says that the key is locked by a request at work; 409 is a conflict over the key or the
// payment's state, and final.
//
// Assumed, not documented: every write takes the key, as the official library sends it on all of them, and remembers it for an hour
// at least.
//
// Sources, read in November 2026: mercadopago.com.br/developers/en/docs (idempotency), and pkg/mperror/typed_errors.go and
// pkg/internal/httpclient/helper.go of github.com/mercadopago/sdk-go.
func MercadoPago() outbound.Provider {
	return outbound.Provider{
		Name:       "mercadopago",
		KeyHeader:  "X-Idempotency-Key",
		KeyMethods: []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		KeyWindow:  undocumented,
		Judge: Rules(
			Rule{Status: 409, Then: stop},
			Rule{Status: 423, Then: atWork},
			Rule{Status: 424, Then: atWork},
		),
	}
}

// GoCardless is api.gocardless.com. Keys are for the endpoints that create something, which have a path of one part. A key that
// created something before is answered with 409 and the reason idempotent_creation_conflict: it is done, and the body's
// links.conflicting_resource_id names it. Other 409s are final, and prove nothing. RateLimit-Reset is a date.
//
// Assumed, not documented: keys are remembered for an hour at least.
//
// Sources, read in November 2026: gocardless.com/blog/idempotency-keys, retries.go of github.com/gocardless/gocardless-pro-go,
// and lib/gocardless_pro/error/invalid_state_error.rb and the services of github.com/gocardless/gocardless-pro-ruby.
func GoCardless() outbound.Provider {
	done := outbound.Verdict{Next: outbound.NextStop, Says: outbound.SaysSucceeded}
	return outbound.Provider{
		Name:       "gocardless",
		KeyMethods: []string{http.MethodPost},
		KeyRoutes:  []string{"/{resource}"},
		KeyWindow:  undocumented,
		Judge: Rules(
			Rule{Method: http.MethodPost, Status: 409, Field: "/error/errors/*/reason", Codes: []string{"idempotent_creation_conflict"}, Then: done},
			Rule{Status: 409, Then: stop},
			Rule{Status: 429, Wait: resetAt("RateLimit-Reset", httpDate)},
		),
	}
}

// Increase is api.increase.com. A POST takes a key, which belongs to one object for ever: the same request with it is answered
// with that object and Idempotent-Replayed. Any 409 is final: another request has used the key, or the object's state
// does not allow it. Objects can be listed by their idempotency_key.
//
// Sources, read in November 2026: increase.com/documentation/idempotency-keys, and internal/apierror of
// github.com/Increase/increase-go.
func Increase() outbound.Provider {
	return outbound.Provider{
		Name:         "increase",
		KeyMethods:   []string{http.MethodPost},
		MaxKeyLength: 200,
		KeyWindow:    -1,
		Judge:        Rules(Rule{Status: 409, Then: stop}),
	}
}

// ModernTreasury is app.moderntreasury.com. A POST takes a key for a day. Only successes are stored. 409 says that the first
// request is at work. A key does not know its route: sent to another endpoint it brings back the first one's answer as a
// success, so use each action for one request, as everywhere here, and one API key for all its attempts.
//
// Source, read in November 2026: docs.moderntreasury.com/reference/idempotent-requests.
func ModernTreasury() outbound.Provider {
	return outbound.Provider{
		Name:       "moderntreasury",
		KeyMethods: []string{http.MethodPost},
		KeyWindow:  day,
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

// Coinbase is api.cdp.coinbase.com, version 2, its EVM and Solana APIs. A key is a UUID of version 4 and remembered for a day. 409,
// already_exists, says that the first request with the key is at work, or that something of that name exists: it is asked
// again, and proves nothing. endpoint_unavailable is no passing trouble.
//
// Assumed, not documented: each POST under these two paths takes a key. The specification names the header operation by
// operation, and others, such as x402, are keyless here.
//
// Sources, read in November 2026: docs.cdp.coinbase.com/api-reference/v2/idempotency, and openapi.yaml of
// github.com/coinbase/cdp-sdk.
func Coinbase() outbound.Provider {
	return outbound.Provider{
		Name:       "coinbase",
		KeyHeader:  "X-Idempotency-Key",
		KeyMethods: []string{http.MethodPost},
		KeyRoutes:  []string{"/platform/v2/evm/", "/platform/v2/solana/"},
		CheckKey:   UUIDv4,
		KeyWindow:  day,
		Judge: Rules(
			Rule{Status: 503, Field: "/errorType", Codes: []string{"endpoint_unavailable"}, Then: stop},
		),
	}
}

// YooKassa is api.yookassa.ru/v3. 202 says that the request is at work, and is asked again with the same key; a 500 is unknown,
// and likewise. Both say in the body how long to wait, in milliseconds; 1.8 s where they do not.
//
// Assumed, not documented: keys have at most 64 characters and are remembered for an hour at least.
//
// Sources, read in November 2026: yookassa.ru/developers/using-api/response-handling/http-codes and /recommendations, and
// lib/Client/BaseClient.php of github.com/yoomoney/yookassa-sdk-php.
func YooKassa() outbound.Provider {
	const usual = 1800 * time.Millisecond
	return outbound.Provider{
		Name:         "yookassa",
		KeyHeader:    "Idempotence-Key",
		KeyMethods:   []string{http.MethodPost},
		MaxKeyLength: 64,
		KeyWindow:    undocumented,
		Judge: Rules(
			Rule{Status: 202, Then: outbound.Verdict{Next: outbound.NextRetry, MinWait: usual}, Wait: fieldIn("/retry_after", milliseconds)},
			Rule{Status: 500, Then: outbound.Verdict{MinWait: usual}, Wait: fieldIn("/retry_after", milliseconds)},
		),
	}
}

// Klarna is Klarna's Order Management API; its other APIs take no keys. POST and PATCH take one for a day.
//
// Assumed, not documented: any unique key will do. Klarna advises UUIDs of version 5; those made here are of version 4.
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
