package outboundtest

import (
	"fmt"
	"net/http"
	"path"
)

// Dialect is the API that a gateway stands in for: its paths, the header of
// its keys and what it accepts as one, and the words of its answers. The zero
// value is Plain.
//
// A dialect does what the API documents about keys, repeats and limits, as of
// November 2026; the comments in package provider name the sources. What is
// assumed instead is said at each dialect. Where no source shows the body of an
// answer, it has none. Common to all but Plain:
//
//   - A payment without a key is made, and made again when it is repeated,
//     unless the dialect is said to insist on a key.
//   - A key is never forgotten, however soon the API forgets it.
//   - Only POST charges. A body is checked for its form alone, and nobody has
//     to log in.
//   - The order is the body's "order", or the "order" in its "metadata". The
//     amount and the currency are its "amount" and "currency".
//   - The answers to a malformed key and a malformed body are in the API's form
//     of an error, but for the rest assumed.
type Dialect int

// The dialects of payment APIs.
const (
	// Plain is no API in particular: what the package comment describes.
	Plain Dialect = iota

	// Stripe is the API v1: payment intents, charges and refunds, sent as
	// forms, in which the order is "order" or "metadata[order]". A 500 is
	// stored and replayed. Assumed: the statuses 400 for another body and 409
	// for a key in use, the types beside the codes of errors, and
	// Idempotent-Replayed. Not done: Stripe-Should-Retry.
	Stripe

	// Adyen is Checkout, which puts the key on every answer to a request with
	// one, and takes a repeat with another body for the first request. A 500
	// is stored as the final result; Overloaded is a 503 that says
	// transient-error: true and is not. Assumed: the 422 with errorCode 704
	// for a key in use, and the body of Overloaded.
	Adyen

	// PayPal is Orders v2, which answers a repeat with 200 and the order as it
	// is now. Assumed: 409 for a key in use, where PayPal promises nothing; that
	// a 500 did nothing; and that another body is answered as by the vault.
	PayPal

	// CheckoutCom is the payments API, which stores 2xx only. It asks clients
	// to wait half a minute when a key is in use. Assumed: that a repeat with
	// another body gets the first answer.
	CheckoutCom

	// MercadoPago is the payments API, which insists on a key and answers 423
	// while one is in use. Assumed: that a 500 did nothing.
	MercadoPago

	// GoCardless answers a repeat with 409 and the payment that it has made,
	// whatever the body. Its rate limit says in RateLimit-Reset, as a date,
	// when it ends. Assumed: a 409 that names no payment while a key is in
	// use.
	GoCardless

	// Increase has one object for a key, for ever. A 409 for another body
	// names it. Assumed: 409 without a body for a key in use, Retry-After with
	// 429, and that a 500 did nothing.
	Increase

	// ModernTreasury stores 2xx only, and does not look at the path or the
	// body: the key of a payment order answers for a counterparty, too.
	// Assumed: Retry-After with 429.
	ModernTreasury

	// Resend sends mails: a payment is a mail. Its 409 for another body and the
	// one for a key in use differ by their bodies only. Assumed: Retry-After with 429, and that a
	// 500 did nothing.
	Resend

	// Flutterwave is v4, which marks a repeat by X-Idempotency-Cache-Hit.
	// Assumed: 409 for a key in use, and that a 500 did nothing.
	Flutterwave

	// Coinbase is sending transactions on the Developer Platform. A key must
	// be a UUID of version 4. While it is in use the answer is already_exists,
	// which elsewhere means that there is such an object. Assumed: that a 500
	// did nothing.
	Coinbase

	// YooKassa answers 202 while a key is in use, with the wait in
	// milliseconds in the body; after a 500 the same key does the work.
	// Assumed: that it insists on a key, of at most 64 characters, and that a
	// repeat with another body gets the first answer.
	YooKassa

	// Klarna is the captures and refunds of Order Management. Assumed: that
	// they are answered by headers alone, 409 for a key in use, that a repeat with another body
	// gets the first answer, and that a 500 did nothing.
	Klarna

	// Xendit is payouts, which insist on a key. Assumed: that 409 with
	// IDEMPOTENCY_ERROR is for another body, 409 without a body for a key in
	// use, and that a 500 did nothing.
	Xendit

	// RazorpayPayouts insists on a key of 4 to 36 characters, and answers a
	// repeat with the payout as it is now: processing at first, then
	// processed. Assumed: 409 for a key in use, and that a 500 did nothing.
	RazorpayPayouts

	// RazorpayRefunds takes a key of at least 10 characters. Assumed: that a
	// 500 did nothing.
	RazorpayRefunds

	// IETF is the draft of the Idempotency-Key header, with its quoted keys
	// and problem details. Ledger and lookups hold the key unquoted. What the
	// draft leaves to the server is assumed: that it insists on a key, that a
	// repeat is not marked, and that a 500 did nothing.
	IETF
)

// The dialects of AI APIs. They know nothing of keys: every POST is a charge,
// which is a generation that is billed. Nothing is streamed. The words of their
// errors and the headers of their limits are as others have seen them; what is
// assumed beyond that is said.
const (
	// OpenAI is Chat Completions and Responses, with retry-after-ms and resets
	// such as "1s". Assumed: the body of the 503.
	OpenAI Dialect = iota + IETF + 1

	// Anthropic is Messages. Overloaded is a 529, and QuotaExhausted a 429
	// that differs from a rate limit by its body, and has no retry-after.
	Anthropic

	// Mistral is Chat Completions. Assumed: a bare 503 and a bare 429 for
	// Overloaded and QuotaExhausted.
	Mistral

	// Groq is Chat Completions. Assumed: as with Mistral.
	Groq

	// Gemini is generateContent, whose waits stand in the body.
	// QuotaExhausted is a 429 that names a quota per day.
	Gemini

	// Cohere is Chat, v2, which says in X-RateLimit-Reset, in seconds of Unix
	// time, when its rate limit ends. Assumed: as with Mistral.
	Cohere
)

// dialects is the table of them all.
var dialects = [...]dialect{
	Plain:           plain("Idempotency-Key"),
	Stripe:          stripe,
	Adyen:           adyen,
	PayPal:          payPal,
	CheckoutCom:     checkoutCom,
	MercadoPago:     mercadoPago,
	GoCardless:      goCardless,
	Increase:        increase,
	ModernTreasury:  modernTreasury,
	Resend:          resend,
	Flutterwave:     flutterwave,
	Coinbase:        coinbase,
	YooKassa:        yooKassa,
	Klarna:          klarna,
	Xendit:          xendit,
	RazorpayPayouts: razorpayPayouts,
	RazorpayRefunds: razorpayRefunds,
	IETF:            ietf,
	OpenAI:          openAI,
	Anthropic:       anthropic,
	Mistral:         mistral,
	Groq:            groq,
	Gemini:          gemini,
	Cohere:          cohere,
}

// String returns the dialect's name as it stands here, such as "Stripe".
func (d Dialect) String() string {
	if !d.valid() {
		return fmt.Sprintf("Dialect(%d)", int(d))
	}
	return dialects[d].name
}

func (d Dialect) valid() bool { return d >= 0 && int(d) < len(dialects) }

// dialect is one row of the table. It says what is answered, the ledger when.
type dialect struct {
	name   string
	path   string   // of PaymentsURL
	routes []string // more paths that charge, as patterns of path.Match

	keys          keys
	anyRequest    bool // a repeat may have another path and body
	keepsFailures bool // the answer of work that failed is stored like any other

	read    func(body []byte) (Payment, error) // what a body asks for
	again   func(first reply, p Payment) reply // the answer to a repeat; nil is the first one
	answers answers                            // those missing are bare
}

// occasion is what a dialect has a word for.
type occasion int

const (
	charged     occasion = iota + 1 // the work is done
	badBody                         // the body asks for no payment
	noKey                           // there is no key, and the API insists on one
	badKey                          // the key is not one that the API takes
	otherBody                       // the key has come with another request
	inUse                           // the key's work is not done yet
	failed                          // the work failed
	rateLimited                     // too many requests
	overloaded                      // no room for the request
	exhausted                       // no money or no quota left
)

// occasions are their names, and the statuses of answers without words.
var occasions = [...]struct {
	name   string
	status int
}{
	charged:     {"charged", http.StatusOK},
	badBody:     {"bad body", http.StatusBadRequest},
	noKey:       {"no key", http.StatusBadRequest},
	badKey:      {"bad key", http.StatusBadRequest},
	otherBody:   {"other body", http.StatusUnprocessableEntity},
	inUse:       {"in use", http.StatusConflict},
	failed:      {"failed", http.StatusInternalServerError},
	rateLimited: {"rate limited", http.StatusTooManyRequests},
	overloaded:  {"overloaded", http.StatusServiceUnavailable},
	exhausted:   {"quota exhausted", http.StatusTooManyRequests},
}

func (o occasion) String() string { return occasions[o].name }

// answer is the dialect's answer on the occasion, about a payment.
func (d *dialect) answer(o occasion, p Payment) reply {
	if words, ok := d.answers[o]; ok {
		return words(p)
	}
	return reply{status: occasions[o].status, header: http.Header{}}
}

// repeat is the answer to a repeat of what the first answer is stored for.
func (d *dialect) repeat(first reply, p Payment) reply {
	if d.again == nil {
		return first
	}
	return d.again(first, p)
}

// charges tells whether a POST to the path is a payment.
func (d *dialect) charges(p string) bool {
	if p == d.path {
		return true
	}
	for _, pattern := range d.routes {
		if ok, _ := path.Match(pattern, p); ok {
			return true
		}
	}
	return false
}
