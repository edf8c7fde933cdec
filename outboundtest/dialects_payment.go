package outboundtest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

// The tables of the payment APIs. What is documented and what is assumed is
// said at their constants.

var stripe = dialect{
	name:          "Stripe",
	path:          "/v1/payment_intents",
	routes:        []string{"/v1/charges", "/v1/refunds"},
	keys:          keys{header: "Idempotency-Key", max: 255},
	keepsFailures: true,
	read:          readForm,
	again:         marked("Idempotent-Replayed"),
	answers: answers{
		charged: shows(200, func(p Payment) members {
			return members{"id": p.ID, "object": "payment_intent", "amount": p.Amount, "currency": p.Currency, "status": "succeeded"}
		}),
		badBody:     says(400, `{"error":{"type":"invalid_request_error","message":"not a form"}}`),
		badKey:      says(400, `{"error":{"type":"idempotency_error","message":"the key is too long"}}`),
		otherBody:   says(400, `{"error":{"type":"idempotency_error","message":"the key came with another request"}}`),
		inUse:       says(409, `{"error":{"type":"idempotency_error","code":"idempotency_key_in_use","message":"the key is in use"}}`),
		failed:      says(500, `{"error":{"type":"api_error","message":"the work failed"}}`),
		rateLimited: says(429, `{"error":{"type":"invalid_request_error","code":"rate_limit","message":"too many requests"}}`),
	},
}

var adyen = dialect{
	name:          "Adyen",
	path:          "/v71/payments",
	routes:        []string{"/v*/payments", "/v*/payments/*/captures", "/v*/payments/*/refunds"},
	keys:          keys{header: "Idempotency-Key", max: 64},
	anyRequest:    true,
	keepsFailures: true,
	read:          readJSON,
	answers: answers{
		charged: echoing(shows(200, func(p Payment) members {
			return members{"pspReference": p.ID, "resultCode": "Authorised", "merchantReference": p.Order}
		})),
		badBody: says(400, `{"status":400,"errorType":"validation","message":"not a JSON object"}`),
		badKey:  says(422, `{"status":422,"errorType":"validation","message":"the key is too long"}`),
		inUse: echoing(says(422, `{"status":422,"errorCode":"704","errorType":"validation","message":"the key is in use"}`,
			"Transient-Error", "true")),
		failed: echoing(says(500, `{"status":500,"errorType":"internal","message":"the work failed"}`)),
		overloaded: says(503, `{"status":503,"errorCode":"703","errorType":"internal","message":"no store of keys"}`,
			"Transient-Error", "true"),
	},
}

// echoing puts the key on an answer, if there is one.
func echoing(words func(Payment) reply) func(Payment) reply {
	return func(p Payment) reply {
		if p.Key == "" {
			return words(p)
		}
		return words(p).with("Idempotency-Key", p.Key)
	}
}

var payPal = dialect{
	name:   "PayPal",
	path:   "/v2/checkout/orders",
	routes: []string{"/v2/checkout/orders/*/capture", "/v2/checkout/orders/*/authorize"},
	keys:   keys{header: "PayPal-Request-Id", max: 108},
	read:   readJSON,
	again:  func(_ reply, p Payment) reply { return jsonReply(200, payPalOrder(p)) },
	answers: answers{
		charged:     shows(201, payPalOrder),
		badBody:     says(400, `{"name":"INVALID_REQUEST","message":"not a JSON object"}`),
		badKey:      says(400, `{"name":"INVALID_REQUEST","message":"the request id is too long"}`),
		otherBody:   says(422, `{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"PAYPAL_REQUEST_ID_PREVIOUSLY_USED"}]}`),
		failed:      says(500, `{"name":"INTERNAL_SERVER_ERROR","message":"the work failed"}`),
		rateLimited: says(429, `{"name":"RATE_LIMIT_REACHED","message":"too many requests"}`),
	},
}

func payPalOrder(p Payment) members { return members{"id": p.ID, "status": "COMPLETED"} }

var checkoutCom = dialect{
	name: "CheckoutCom",
	path: "/payments",
	routes: []string{
		"/payment-contexts", "/transfers", "/payments/*/authorizations", "/payments/*/cancellations",
		"/payments/*/captures", "/payments/*/refunds", "/payments/*/voids",
	},
	keys:       keys{header: "Cko-Idempotency-Key"},
	anyRequest: true,
	read:       readJSON,
	answers: answers{
		charged: shows(201, func(p Payment) members {
			return members{"id": p.ID, "amount": p.Amount, "currency": p.Currency, "approved": true, "status": "Authorized"}
		}),
	},
}

var mercadoPago = dialect{
	name:   "MercadoPago",
	path:   "/v1/payments",
	routes: []string{"/v1/payments/*/refunds"},
	keys:   keys{header: "X-Idempotency-Key", required: true},
	read:   readJSON,
	answers: answers{
		charged: shows(201, func(p Payment) members {
			id := json.Number(strings.TrimPrefix(p.ID, "pay_")) // which is a number there
			return members{"id": id, "transaction_amount": p.Amount, "currency_id": p.Currency, "external_reference": p.Order, "status": "approved"}
		}),
		noKey:       says(400, `{"status":400,"error":"bad_request","message":"no X-Idempotency-Key","cause":[{"code":4292}]}`),
		otherBody:   says(409, ""),
		inUse:       says(423, ""),
		rateLimited: says(429, "", "Retry-After", "1"),
	},
}

var goCardless = dialect{
	name:       "GoCardless",
	path:       "/payments",
	routes:     []string{"/refunds", "/outbound_payments"},
	keys:       keys{header: "Idempotency-Key"},
	anyRequest: true,
	read:       readEnvelope("payments"),
	again:      func(_ reply, p Payment) reply { return goCardlessConflict(p) },
	answers: answers{
		charged: shows(201, func(p Payment) members {
			return members{"payments": members{"id": p.ID, "amount": p.Amount, "currency": p.Currency, "status": "pending_submission"}}
		}),
		badBody: says(400, `{"error":{"type":"invalid_api_usage","code":400,"message":"not a JSON object"}}`),
		inUse:   says(409, `{"error":{"type":"invalid_state","code":409,"message":"the key is in use"}}`),
		failed:  says(500, `{"error":{"type":"gocardless","code":500,"message":"the work failed"}}`),
		rateLimited: with("RateLimit-Reset", func(Payment) string { return soon().UTC().Format(http.TimeFormat) },
			says(429, `{"error":{"type":"invalid_api_usage","code":429,"message":"too many requests"}}`, "RateLimit-Remaining", "0")),
	},
}

var goCardlessConflict = shows(409, func(p Payment) members {
	conflict := members{"reason": "idempotent_creation_conflict", "links": members{"conflicting_resource_id": p.ID}}
	return members{"error": members{"type": "invalid_state", "code": 409, "errors": []members{conflict}}}
})

var increase = dialect{
	name:   "Increase",
	path:   "/ach_transfers",
	routes: []string{"/account_transfers", "/wire_transfers"},
	keys:   keys{header: "Idempotency-Key", max: 200},
	read:   readJSON,
	again:  marked("Idempotent-Replayed"),
	answers: answers{
		charged: shows(200, func(p Payment) members {
			return members{"id": p.ID, "type": "ach_transfer", "amount": p.Amount, "currency": p.Currency, "status": "pending_submission"}
		}),
		badBody: says(400, `{"type":"malformed_request_error","status":400,"title":"not a JSON object"}`),
		badKey:  says(400, `{"type":"invalid_parameters_error","status":400,"title":"the key is too long"}`),
		otherBody: shows(409, func(p Payment) members {
			return members{"type": "idempotency_key_already_used_error", "status": 409, "title": "the key came with another request", "resource_id": p.ID}
		}),
		failed:      says(500, `{"type":"internal_server_error","status":500,"title":"the work failed"}`),
		rateLimited: says(429, `{"type":"rate_limited_error","status":429,"title":"too many requests"}`, "Retry-After", "1"),
	},
}

var modernTreasury = dialect{
	name:       "ModernTreasury",
	path:       "/api/payment_orders",
	routes:     []string{"/api/counterparties", "/api/returns"},
	keys:       keys{header: "Idempotency-Key"},
	anyRequest: true,
	read:       readJSON,
	answers: answers{
		charged: shows(201, func(p Payment) members {
			return members{"id": p.ID, "object": "payment_order", "amount": p.Amount, "currency": p.Currency, "status": "processing"}
		}),
		rateLimited: says(429, "", "Retry-After", "1"),
	},
}

var resend = dialect{
	name:   "Resend",
	path:   "/emails",
	routes: []string{"/emails/batch"},
	keys:   keys{header: "Idempotency-Key", max: 256},
	read:   readJSON,
	answers: answers{
		charged:     shows(200, func(p Payment) members { return members{"id": p.ID} }),
		badBody:     says(400, `{"statusCode":400,"name":"validation_error","message":"not a JSON object"}`),
		badKey:      says(400, `{"statusCode":400,"name":"invalid_idempotency_key","message":"the key is too long"}`),
		otherBody:   says(409, `{"statusCode":409,"name":"invalid_idempotent_request","message":"the key came with another request"}`),
		inUse:       says(409, `{"statusCode":409,"name":"concurrent_idempotent_requests","message":"the key is in use"}`),
		failed:      says(500, `{"statusCode":500,"name":"internal_server_error","message":"the work failed"}`),
		rateLimited: says(429, `{"statusCode":429,"name":"rate_limit_exceeded","message":"too many requests"}`, "Retry-After", "1"),
		exhausted:   says(429, `{"statusCode":429,"name":"daily_quota_exceeded","message":"no mails left today"}`),
	},
}

var flutterwave = dialect{
	name:       "Flutterwave",
	path:       "/charges",
	routes:     []string{"/transfers", "/refunds"},
	keys:       keys{header: "X-Idempotency-Key"},
	anyRequest: true,
	read:       readJSON,
	again:      marked("X-Idempotency-Cache-Hit"),
	answers: answers{
		charged: shows(201, func(p Payment) members {
			return members{"status": "success", "data": members{"id": p.ID, "amount": p.Amount, "currency": p.Currency, "status": "succeeded"}}
		}),
	},
}

var uuid4 = regexp.MustCompile(`(?i)^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

var coinbase = dialect{
	name:   "Coinbase",
	path:   "/platform/v2/evm/accounts/0x1/send/transaction",
	routes: []string{"/platform/v2/evm/accounts/*/send/transaction"},
	keys:   keys{header: "X-Idempotency-Key", form: uuid4},
	read:   readJSON,
	answers: answers{
		charged:     shows(200, func(p Payment) members { return members{"transactionHash": p.ID} }),
		badBody:     says(400, `{"errorType":"invalid_request","errorMessage":"not a JSON object"}`),
		badKey:      says(400, `{"errorType":"invalid_request","errorMessage":"the key is no UUID of version 4"}`),
		otherBody:   says(422, `{"errorType":"idempotency_error","errorMessage":"the key came with another request"}`),
		inUse:       says(409, `{"errorType":"already_exists","errorMessage":"the key is in use"}`),
		failed:      says(500, `{"errorType":"internal_server_error","errorMessage":"the work failed"}`),
		rateLimited: says(429, `{"errorType":"rate_limit_exceeded","errorMessage":"too many requests"}`),
		overloaded:  says(503, `{"errorType":"service_unavailable","errorMessage":"overloaded"}`),
	},
}

var yooKassa = dialect{
	name:       "YooKassa",
	path:       "/v3/payments",
	routes:     []string{"/v3/refunds", "/v3/payments/*/capture", "/v3/payments/*/cancel"},
	keys:       keys{header: "Idempotence-Key", required: true, max: 64},
	anyRequest: true,
	read:       readJSON,
	answers: answers{
		charged: shows(200, func(p Payment) members {
			return members{"id": p.ID, "status": "succeeded", "paid": true}
		}),
		badBody:     says(400, `{"type":"error","code":"invalid_request","description":"not a JSON object"}`),
		noKey:       says(400, `{"type":"error","code":"invalid_request","parameter":"Idempotence-Key"}`),
		badKey:      says(400, `{"type":"error","code":"invalid_request","parameter":"Idempotence-Key"}`),
		inUse:       says(202, `{"type":"processing","description":"the key is in use","retry_after":200}`),
		failed:      says(500, `{"type":"error","code":"internal_server_error","description":"the work failed"}`),
		rateLimited: says(429, `{"type":"error","code":"too_many_requests","description":"too many requests"}`),
	},
}

var klarna = dialect{
	name:       "Klarna",
	path:       "/ordermanagement/v1/orders/1/captures",
	routes:     []string{"/ordermanagement/v1/orders/*/captures", "/ordermanagement/v1/orders/*/refunds"},
	keys:       keys{header: "Klarna-Idempotency-Key"},
	anyRequest: true,
	read:       readJSON,
	answers: answers{
		charged: with("Capture-Id", func(p Payment) string { return p.ID }, says(201, "")),
	},
}

var xendit = dialect{
	name: "Xendit",
	path: "/v2/payouts",
	keys: keys{header: "Idempotency-Key", required: true},
	read: readJSON,
	answers: answers{
		charged: shows(200, func(p Payment) members {
			return members{"id": p.ID, "amount": p.Amount, "currency": p.Currency, "reference_id": p.Order, "status": "ACCEPTED"}
		}),
		badBody:     says(400, `{"error_code":"API_VALIDATION_ERROR","message":"not a JSON object"}`),
		noKey:       says(400, `{"error_code":"API_VALIDATION_ERROR","message":"no idempotency-key"}`),
		otherBody:   says(409, `{"error_code":"IDEMPOTENCY_ERROR","message":"the key came with another request"}`),
		failed:      says(500, `{"error_code":"SERVER_ERROR","message":"the work failed"}`),
		rateLimited: says(429, `{"error_code":"RATE_LIMIT_EXCEEDED","message":"too many requests"}`),
	},
}

var razorpayPayouts = dialect{
	name: "RazorpayPayouts",
	path: "/v1/payouts",
	keys: keys{header: "X-Payout-Idempotency", required: true, min: 4, max: 36, form: regexp.MustCompile(`^[A-Za-z0-9_ -]*$`)},
	read: readJSON,
	again: func(_ reply, p Payment) reply {
		return jsonReply(200, razorpayEntity(p, "payout", "processed"))
	},
	answers: answers{
		charged:   shows(200, func(p Payment) members { return razorpayEntity(p, "payout", "processing") }),
		badBody:   razorpayError("not a JSON object", ""),
		noKey:     razorpayError("no idempotency key", "X-Payout-Idempotency"),
		badKey:    razorpayError("not an idempotency key", "X-Payout-Idempotency"),
		otherBody: razorpayError("the key came with another request", ""),
		failed:    says(500, `{"error":{"code":"SERVER_ERROR","description":"the work failed"}}`),
	},
}

var razorpayRefunds = dialect{
	name:   "RazorpayRefunds",
	path:   "/v1/payments/pay_1/refund",
	routes: []string{"/v1/payments/*/refund"},
	keys:   keys{header: "X-Refund-Idempotency", min: 10, form: regexp.MustCompile(`^[A-Za-z0-9_-]*$`)},
	read:   readJSON,
	answers: answers{
		charged:   shows(200, func(p Payment) members { return razorpayEntity(p, "refund", "processed") }),
		badBody:   razorpayError("not a JSON object", ""),
		badKey:    razorpayError("not an idempotency key", "X-Refund-Idempotency"),
		otherBody: razorpayError("the key came with another request", ""),
		failed:    says(500, `{"error":{"code":"SERVER_ERROR","description":"the work failed"}}`),
	},
}

func razorpayEntity(p Payment, kind, status string) members {
	return members{"id": p.ID, "entity": kind, "amount": p.Amount, "currency": p.Currency, "status": status}
}

func razorpayError(description, field string) func(Payment) reply {
	return shows(400, func(Payment) members {
		return members{"error": members{"code": "BAD_REQUEST_ERROR", "description": description, "field": field}}
	})
}

var ietf = dialect{
	name: "IETF",
	path: "/payments",
	keys: keys{header: "Idempotency-Key", required: true, quoted: true, min: 1},
	read: readJSON,
	answers: answers{
		charged:     func(p Payment) reply { return jsonReply(201, p) },
		badBody:     problem(400, "not a JSON object"),
		noKey:       problem(400, "no Idempotency-Key"),
		badKey:      problem(400, "the Idempotency-Key is no string in quotes"),
		otherBody:   problem(422, "the Idempotency-Key came with another request"),
		inUse:       problem(409, "the Idempotency-Key is in use"),
		failed:      problem(500, "the work failed"),
		rateLimited: with("Retry-After", func(Payment) string { return "1" }, problem(429, "too many requests")),
		overloaded:  problem(503, "overloaded"),
		exhausted:   problem(429, "the quota is exhausted"),
	},
}

// problem is an answer of RFC 9457.
func problem(status int, title string) func(Payment) reply {
	r := jsonReply(status, members{"title": title, "status": status}).with("Content-Type", "application/problem+json")
	return func(Payment) reply { return r }
}
