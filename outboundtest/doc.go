// Package outboundtest is a payment gateway to test HTTP clients against.
//
// It does for the far side of a call what httptest does for a handler: it
// speaks real HTTP/1.1 over a real TCP connection on loopback. What it adds
// is the ways in which such a call fails. A connection breaks at a chosen
// point, before or after the money has moved, with a FIN, with an RST, or by
// going silent. And it keeps a ledger, so that a test can ask the one
// question that matters: was anybody charged twice?
//
// # In a test and in a program
//
// [NewGateway] takes a *testing.T and closes the gateway when the test ends.
// [Start] needs no test, so a program can use it as well:
//
//	gw := outboundtest.NewGateway(t, outboundtest.Config{
//		Script: outboundtest.Script{outboundtest.LoseReply},
//	})
//	// ... pay through gw.PaymentsURL() ...
//	if gw.ChargesByOrder("order-7") != 1 { ... }
//
// # What it serves
//
// Without a dialect:
//
//	POST /v1/payments          charge: 201, {"id":"pay_1","amount":1234,...}
//	GET  /v1/payments?key=K    look a payment up by its key: 200 or 404
//	GET  /v1/payments?order=O  look a payment up by its order: 200 or 404
//	GET  /v1/payments          every payment: 200
//	GET  /healthz              200
//
// A POST carries a JSON object: {"amount":1234,"currency":"EUR",
// "order":"order-7"}. Every field is optional; what is not JSON gets 400.
//
// # Keys
//
// A POST names its work in the header Idempotency-Key, and the gateway does
// the work of a key once. A repeat gets the stored answer with
// Idempotent-Replayed: true. Without a key, or with several, the answer is
// 400. The same key with another body gets 422. A repeat that comes while the
// first is at work gets 409. Answers that did no work (400, 409, 422) are not
// stored. A lookup sees a payment once it is made: while the work goes on it
// answers 404, and that 404 is no promise that nothing will be charged.
//
// [Config].IgnoreKeys makes a gateway that knows nothing of keys and charges
// at every POST.
//
// # Dialects
//
// APIs differ in how they take keys, and more in what they answer: a repeat is
// a 201 with a header at one, a 200 at the next, and a 409 that means success at
// a third. [Config].Dialect has the gateway speak like one of them:
//
//	outboundtest.Config{Dialect: outboundtest.GoCardless}
//
// The ledger, the faults and the lookups are the same with each. What the
// dialect decides is where payments are posted, what is taken for a key and
// whether one is needed, and the status, headers and body of every answer that
// the server itself gives: to a payment, to a repeat, to the same key with
// another body, to a key that is in use, to work that failed.
// [Gateway.PaymentsURL] has the path; the body is that of above, or a form with
// Stripe.
//
// A dialect is not the API. It says what the documentation says about repeating
// a request, and the comment of each [Dialect] names what is assumed. Test with
// it that your client gets by, and in the API's sandbox that the API is so.
//
// # Faults
//
// A [Fault] names the [Point] at which a request fails and the [End] its
// connection comes to, or an answer given in place of the server's own. A
// [Script] is a list of them, a [Mix] draws them at random from a seed:
//
//	outboundtest.Script{
//		outboundtest.LoseReply,                      // charged, then EOF
//		outboundtest.Answer(429, "Retry-After", "1"), // not charged
//		outboundtest.LoseReply.By(outboundtest.RST),
//		outboundtest.RateLimited,                    // in the words of the dialect
//		outboundtest.OK,
//	}
//
// Faults strike writes only. Each takes the next fault when its first byte
// arrives, which is before the gateway knows its key or its path; a lookup
// takes none. [BeforeAccept] is the exception: when it is next, the next new
// connection takes it, whatever it was opened for. After the last fault of a
// script everything works.
//
// # Time
//
// The gateway waits only where it is told to: [Config].Work and
// [Fault].Delay. A test that needs work to be under way needs no timing:
// [Gateway.Hold] keeps work from ending until the test releases it.
package outboundtest
