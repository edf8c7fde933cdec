package outboundtest_test

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/outboundtest"
	"github.com/outbound-go/outbound/provider"
)

// A client loses the reply to a payment, pays again with the same key, and is
// charged once.
func Example() {
	gw, err := outboundtest.Start(outboundtest.Config{
		Script: outboundtest.Script{outboundtest.LoseReply, outboundtest.OK},
	})
	if err != nil {
		panic(err)
	}
	defer gw.Close()

	pay := func() (*http.Response, error) {
		body := strings.NewReader(`{"amount":1234,"currency":"EUR","order":"order-7"}`)
		req, err := http.NewRequest(http.MethodPost, gw.PaymentsURL(), body)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Idempotency-Key", "key-1")
		return http.DefaultClient.Do(req)
	}

	_, err = pay()
	fmt.Println("lost:", err != nil, "charged:", gw.Charges("key-1"))

	resp, err := pay()
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, "replayed:", resp.Header.Get("Idempotent-Replayed"))
	fmt.Println("charged:", gw.ChargesByOrder("order-7"), "twice:", gw.DoubleCharged())

	// Output:
	// lost: true charged: 1
	// 201 Created replayed: true
	// charged: 1 twice: []
}

// GoCardless answers a repeat with 409, which a client must not take for a
// failure: the payment was made.
func ExampleDialect() {
	gw, err := outboundtest.Start(outboundtest.Config{
		Dialect: outboundtest.GoCardless,
		Script:  outboundtest.Script{outboundtest.LoseReply, outboundtest.OK},
	})
	if err != nil {
		panic(err)
	}
	defer gw.Close()
	client, err := outbound.NewClient(outbound.Config{Provider: provider.GoCardless()})
	if err != nil {
		panic(err)
	}
	defer client.CloseIdleConnections()

	payment := strings.NewReader(`{"payments":{"amount":1234,"currency":"EUR","metadata":{"order":"order-7"}}}`)
	resp, err := client.Post(gw.PaymentsURL(), "application/json", payment)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status, outbound.OutcomeOf(resp, err))
	fmt.Println("charged:", gw.ChargesByOrder("order-7"))

	// Output:
	// 409 Conflict succeeded
	// charged: 1
}
