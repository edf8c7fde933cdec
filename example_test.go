package outbound_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/outboundtest"
)

// quickly keeps the examples short; the default backoff starts with up to half a second.
var quickly = outbound.RetryPolicy{Backoff: outbound.FullJitter{Base: time.Millisecond, Cap: 5 * time.Millisecond}}

func startGateway(faults ...outboundtest.Fault) *outboundtest.Gateway {
	gateway, err := outboundtest.Start(outboundtest.Config{Script: faults})
	if err != nil {
		panic(err)
	}
	return gateway
}

// A client is used like any other. The gateway is down twice and loses a reply after it has charged; the customer is
// charged once.
func ExampleNewClient() {
	gateway := startGateway(outboundtest.Answer(503), outboundtest.Answer(503), outboundtest.LoseReply)
	defer gateway.Close()

	client, err := outbound.NewClient(outbound.Config{Retry: quickly})
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := client.Post(gateway.PaymentsURL(), "application/json", strings.NewReader(`{"amount":4200,"currency":"EUR"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()

	report, _ := outbound.ReportOf(resp, err)
	fmt.Println(resp.StatusCode, report.Outcome, "after", len(report.Attempts), "attempts")
	fmt.Println("charges:", gateway.Charges(report.IdempotencyKey))
	// Output:
	// 201 succeeded after 4 attempts
	// charges: 1
}

// An SDK that takes an *http.Client or a RoundTripper takes ours. Turn its own retries off.
func ExampleNew() {
	transport, err := outbound.New(outbound.Config{TotalTimeout: 20 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport} // no Timeout: the transport has its own
	fmt.Println(client.Timeout)
	// Output: 0s
}

// A contradictory Config is refused with everything that is wrong in it.
func ExampleNew_refused() {
	_, err := outbound.New(outbound.Config{
		AttemptTimeout: time.Minute, TotalTimeout: 30 * time.Second,
		Retry: outbound.RetryPolicy{MaxAttempts: -1},
	})
	fmt.Println(err)
	// Output:
	// outbound: AttemptTimeout (1m0s) is above TotalTimeout (30s): the inner limit must fit into the outer one
	// outbound: Retry.MaxAttempts is -1: a count cannot be negative; leave it 0 for the default
}

// An action is stored before it is sent. After a crash the stored one goes out again, under the same key.
func ExampleWithAction() {
	gateway := startGateway(outboundtest.LoseReply)
	defer gateway.Close()
	pay := func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodPost, gateway.PaymentsURL(), strings.NewReader(`{"amount":4200}`))
	}

	// The first process charges, and dies before it learns of it.
	action := outbound.NewAction()
	req, _ := pay(outbound.WithAction(context.Background(), action))
	if err := action.Bind(req); err != nil { // so that a resume with another amount is refused
		fmt.Println(err)
		return
	}
	stored, _ := json.Marshal(action) // into the database, with the order
	first, _ := outbound.NewClient(outbound.Config{Retry: outbound.RetryPolicy{MaxAttempts: 1}})
	_, err := first.Do(req)
	fmt.Println("first process:", outbound.OutcomeOf(nil, err))

	// The next process resumes with what was stored.
	resumed := new(outbound.Action)
	if err := json.Unmarshal(stored, resumed); err != nil {
		fmt.Println(err)
		return
	}
	second, _ := outbound.NewClient(outbound.Config{Retry: quickly})
	req, _ = pay(outbound.WithAction(context.Background(), resumed))
	resp, err := second.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println("second process:", outbound.OutcomeOf(resp, err))
	fmt.Println("charges:", gateway.Charges(action.Key))
	// Output:
	// first process: unknown
	// second process: succeeded
	// charges: 1
}

// What to do with each outcome. An Unknown one is looked up at the server, by its key, later.
func ExampleOutcomeOf() {
	gateway := startGateway(outboundtest.OK, outboundtest.Answer(402), outboundtest.Hang)
	defer gateway.Close()
	client, _ := outbound.NewClient(outbound.Config{AttemptTimeout: 50 * time.Millisecond, Retry: outbound.RetryPolicy{MaxAttempts: 1}})

	for range 3 {
		resp, err := client.Post(gateway.PaymentsURL(), "application/json", strings.NewReader(`{"amount":4200}`))
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body) // a reply that breaks off proves no success: read first, then ask
			resp.Body.Close()
		}
		switch outbound.OutcomeOf(resp, err) {
		case outbound.OutcomeSucceeded:
			fmt.Println("paid")
		case outbound.OutcomeRejected, outbound.OutcomeNotSent:
			fmt.Println("not paid: tell the customer, who may try again")
		case outbound.OutcomeUnknown:
			report, _ := outbound.ReportOf(resp, err)
			fmt.Println("unknown: keep the key of", len(report.IdempotencyKey), "characters, and ask the gateway later")
		}
	}
	// Output:
	// paid
	// not paid: tell the customer, who may try again
	// unknown: keep the key of 36 characters, and ask the gateway later
}

// A response is never turned into an error; CheckResponse does that for those who like it, and leaves the body readable.
func ExampleCheckResponse() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPaymentRequired)
		fmt.Fprint(w, "card declined")
	}))
	defer server.Close()
	client, _ := outbound.NewClient(outbound.Config{})

	resp, err := client.Post(server.URL, "text/plain", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	if err := outbound.CheckResponse(resp); err != nil {
		reason, _ := io.ReadAll(resp.Body)
		var failed *outbound.Error
		if errors.As(err, &failed) {
			fmt.Printf("%v: %s\n", failed.Report.Outcome, reason)
		}
	}
	// Output: rejected: card declined
}

// SlogHooks logs attempts, retries and ends of calls, without headers, queries and bodies.
func ExampleSlogHooks() {
	gateway := startGateway(outboundtest.Answer(503))
	defer gateway.Close()
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key { // what differs from run to run
		case slog.TimeKey, "url", "elapsed", "wait", "key":
			return slog.Attr{}
		}
		return a
	}}))
	hooks := outbound.SlogHooks(logger)
	count := 0
	tell := hooks.Attempt
	hooks.Attempt = func(ctx context.Context, a outbound.Attempt) { // hooks are plain funcs: wrap them as you like
		count++
		tell(ctx, a)
	}
	client, _ := outbound.NewClient(outbound.Config{Retry: quickly, Hooks: hooks})

	resp, err := client.Post(gateway.PaymentsURL(), "application/json", strings.NewReader(`{"amount":4200}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println(count, "attempts")
	// Output:
	// level=WARN msg="outbound: retry" method=POST attempt=1 outcome=unknown status=503
	// level=INFO msg="outbound: done" method=POST outcome=succeeded attempts=2
	// 2 attempts
}

// One request may have other limits than the rest.
func ExampleWithOverride() {
	gateway := startGateway(outboundtest.Answer(503), outboundtest.OK)
	defer gateway.Close()
	client, _ := outbound.NewClient(outbound.Config{Retry: quickly})

	ctx := outbound.WithOverride(context.Background(), outbound.Override{MaxAttempts: 1, TotalTimeout: time.Second})
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, gateway.PaymentsURL(), strings.NewReader(`{"amount":4200}`))
	resp, err := client.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	report, _ := outbound.ReportOf(resp, err)
	fmt.Println(resp.StatusCode, report.Outcome, report.Stopped)
	// Output: 503 unknown outbound: no attempts left
}

// Server-sent events are handed over as they come. They may outlast the total timeout; IdleTimeout bounds their silence.
func ExampleConfig_streaming() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range []string{"never", "charge", "twice"} {
			fmt.Fprintf(w, "data: %s\n\n", word)
			w.(http.Flusher).Flush()
		}
	}))
	defer server.Close()
	client, _ := outbound.NewClient(outbound.Config{IdleTimeout: 30 * time.Second, Provider: outbound.Provider{NoKeys: true}})

	resp, err := client.Post(server.URL, "application/json", strings.NewReader(`{"stream":true}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	events, err := io.ReadAll(resp.Body)
	fmt.Println(strings.Fields(strings.ReplaceAll(string(events), "data:", "")), err, outbound.OutcomeOf(resp, err))
	// Output: [never charge twice] <nil> succeeded
}

// An API that ignores keys must be named as one: then a write goes out again only where it was not sent or was refused.
func ExampleProvider_noKeys() {
	gateway, err := outboundtest.Start(outboundtest.Config{IgnoreKeys: true, Script: outboundtest.Script{outboundtest.Answer(429), outboundtest.LoseReply}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gateway.Close()
	client, _ := outbound.NewClient(outbound.Config{Retry: quickly, Provider: outbound.Provider{NoKeys: true}})

	resp, err := client.Post(gateway.PaymentsURL(), "application/json", strings.NewReader(`{"amount":4200,"order":"o-1"}`))
	report, _ := outbound.ReportOf(resp, err)
	fmt.Println(report.Outcome, "after", len(report.Attempts), "attempts")
	fmt.Println("charges:", gateway.ChargesByOrder("o-1"))
	// Output:
	// unknown after 2 attempts
	// charges: 1
}

// Where the circuit is open, nothing was sent and nothing was waited for: another provider may take the order.
func Example_fallback() {
	down := startGateway()
	down.Stop()
	defer down.Close()
	other := startGateway()
	defer other.Close()
	first, _ := outbound.NewClient(outbound.Config{
		Retry: outbound.RetryPolicy{MaxAttempts: 1}, Breaker: outbound.BreakerPolicy{ConsecutiveFailures: 3, OpenFor: time.Minute},
	})
	second, _ := outbound.NewClient(outbound.Config{})
	const body = `{"amount":4200}`

	for order := 1; order <= 5; order++ {
		resp, err := first.Post(down.PaymentsURL(), "application/json", strings.NewReader(body))
		if outbound.OutcomeOf(resp, err) != outbound.OutcomeNotSent {
			fmt.Println("order", order, "may have been charged: no other provider may have it")
			continue
		}
		var open *outbound.CircuitOpenError
		fmt.Println("order", order, "not sent; circuit open:", errors.As(err, &open))
		resp, err = second.Post(other.PaymentsURL(), "application/json", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	fmt.Println("charged by the other:", len(other.Payments()))
	// Output:
	// order 1 not sent; circuit open: false
	// order 2 not sent; circuit open: false
	// order 3 not sent; circuit open: false
	// order 4 not sent; circuit open: true
	// order 5 not sent; circuit open: true
	// charged by the other: 5
}

// A provider with words of its own is read by a Judge, a table from its codes to verdicts.
func ExampleVerdict() {
	verdicts := map[string]outbound.Verdict{
		"in_progress":  {Next: outbound.NextRetry, Says: outbound.SaysUnknown, MinWait: time.Millisecond},
		"already_done": {Next: outbound.NextStop, Says: outbound.SaysSucceeded},
		"declined":     {Next: outbound.NextStop, Says: outbound.SaysRejected},
	}
	judge := func(_ *http.Response, body []byte) outbound.Verdict {
		var answer struct{ Code string }
		_ = json.Unmarshal(body, &answer) // an answer without a code gets the zero Verdict: the default rules
		return verdicts[answer.Code]
	}
	codes := []string{"in_progress", "already_done"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintf(w, `{"code":%q}`, codes[0])
		codes = codes[1:]
	}))
	defer server.Close()
	client, _ := outbound.NewClient(outbound.Config{Retry: quickly, Provider: outbound.Provider{Judge: judge}})

	resp, err := client.Post(server.URL, "application/json", strings.NewReader(`{}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	report, _ := outbound.ReportOf(resp, err)
	fmt.Println(resp.StatusCode, report.Outcome, "after", len(report.Attempts), "attempts")
	// Output: 409 succeeded after 2 attempts
}
