package provider_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/provider"
)

// A ready profile goes into the Config as it is.
func Example() {
	transport, err := outbound.New(outbound.Config{Provider: provider.CheckoutCom(), TotalTimeout: 2 * time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	fmt.Println(client.Timeout)
	// Output: 0s
}

// Whether a generation may be paid for twice is the caller's choice.
func ExampleOpenAI() {
	p := provider.OpenAI()
	p.AllowDuplicates = true
	_, err := outbound.New(outbound.Config{Provider: p})
	fmt.Println(err)
	// Output: <nil>
}

// A profile of an API that none is ready for: the first row that speaks of an answer decides.
func ExampleRules() {
	p := outbound.Provider{
		Name:       "acme",
		KeyHeader:  "Acme-Idempotency-Key",
		KeyMethods: []string{http.MethodPost},
		KeyRoutes:  []string{"/payments", "/payments/{id}/refunds"},
		KeyWindow:  6 * time.Hour,
		Judge: provider.Rules(
			provider.Rule{Status: 409, Field: "/error/code", Codes: []string{"in_progress"}, Then: outbound.Verdict{MinWait: 5 * time.Second}},
			provider.Rule{Status: 409, Field: "/error/code", Codes: []string{"already_paid"}, Then: outbound.Verdict{Next: outbound.NextStop, Says: outbound.SaysSucceeded}},
			provider.Rule{Status: 409, Then: outbound.Verdict{Next: outbound.NextStop}},
		),
	}
	for _, body := range []string{`{"error":{"code":"in_progress"}}`, `{"error":{"code":"already_paid"}}`, "a proxy's page"} {
		v := p.Judge(&http.Response{StatusCode: http.StatusConflict}, []byte(body))
		fmt.Println(v.Next == outbound.NextStop, v.Says == outbound.SaysSucceeded, v.MinWait)
	}
	// Output:
	// false false 5s
	// true true 0s
	// true false 0s
}

// Square takes the key in the body.
func ExampleJSONKey() {
	p := outbound.Provider{Name: "square", KeyOf: provider.JSONKey("/idempotency_key"), MaxKeyLength: 45}
	_, err := outbound.New(outbound.Config{Provider: p})
	fmt.Println(err)
	// Output: <nil>
}
