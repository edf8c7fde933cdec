package outboundtest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/outbound-go/outbound"
	ot "github.com/outbound-go/outbound/outboundtest"
	"github.com/outbound-go/outbound/provider"
)

// These tests put each profile of package provider in front of its dialect, and
// hold what outbound claims against the ledger.

// profiled is a profile and its dialect.
type profiled struct {
	dialect ot.Dialect
	profile outbound.Provider
}

const (
	unknown   = outbound.OutcomeUnknown
	rejected  = outbound.OutcomeRejected
	succeeded = outbound.OutcomeSucceeded
)

var profiles = []profiled{
	{ot.Plain, outbound.Provider{}},
	{ot.Stripe, provider.Stripe()},
	{ot.Adyen, provider.Adyen()},
	{ot.PayPal, provider.PayPal(6 * time.Hour)},
	{ot.CheckoutCom, provider.CheckoutCom()},
	{ot.MercadoPago, provider.MercadoPago()},
	{ot.GoCardless, provider.GoCardless()},
	{ot.Increase, provider.Increase()},
	{ot.ModernTreasury, provider.ModernTreasury()},
	{ot.Resend, provider.Resend()},
	{ot.Flutterwave, provider.Flutterwave()},
	{ot.Coinbase, provider.Coinbase()},
	{ot.YooKassa, provider.YooKassa()},
	{ot.Klarna, provider.Klarna()},
	{ot.Xendit, provider.Xendit()},
	{ot.RazorpayPayouts, provider.RazorpayPayouts()},
	{ot.RazorpayRefunds, provider.RazorpayRefunds()},
	{ot.IETF, provider.IETF()},
	{ot.OpenAI, provider.OpenAI()},
	{ot.Anthropic, provider.Anthropic()},
	{ot.Mistral, provider.Mistral()},
	{ot.Groq, provider.Groq()},
	{ot.Gemini, provider.Gemini()},
	{ot.Cohere, provider.Cohere()},
}

// atOnce tests all profiles at the same time: some wait for seconds, as they
// are told to. So do the parallel tests.
func atOnce(t *testing.T, test func(p profiled)) {
	t.Helper()
	var wg sync.WaitGroup
	for _, p := range profiles {
		wg.Go(func() { test(p) })
	}
	wg.Wait()
}

// client has no patience but for what the API asks for.
func (p profiled) client(t *testing.T) *http.Client {
	client, err := outbound.NewClient(outbound.Config{
		AttemptTimeout: 8 * time.Second,
		TotalTimeout:   25 * time.Second, // Checkout.com asks for 30 s when a key is in use, which is then not waited for
		Provider:       p.profile,
		Retry: outbound.RetryPolicy{
			Backoff: outbound.FullJitter{Base: time.Millisecond, Cap: time.Millisecond},
			Budget:  outbound.BudgetPolicy{Disabled: true},
		},
		Breaker: outbound.BreakerPolicy{Disabled: true},
	})
	if err != nil {
		panic(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// pay posts an order. The action is for profiles with keys.
func (p profiled) pay(t *testing.T, client *http.Client, gw *ot.Gateway, action *outbound.Action, order string) outbound.Report {
	body := `{"amount":1234,"currency":"EUR","order":"` + order + `"}`
	if p.dialect == ot.Stripe {
		body = "amount=1234&currency=eur&order=" + order
	}
	ctx := t.Context()
	if !p.profile.NoKeys {
		ctx = outbound.WithAction(ctx, action)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, gw.PaymentsURL(), strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		defer resp.Body.Close()
	}
	report, ok := outbound.ReportOf(resp, err)
	assert.True(t, ok, "%v: %v", p.dialect, err)
	p.claimsTrue(t, gw, order, report)
	return report
}

// claimsTrue holds what is claimed of an order against the ledger.
func (p profiled) claimsTrue(t *testing.T, gw *ot.Gateway, order string, r outbound.Report) {
	switch charges := gw.ChargesByOrder(order); r.Outcome {
	case succeeded:
		assert.Positive(t, charges, "%v %s: %+v", p.dialect, order, r)
	case rejected, outbound.OutcomeNotSent:
		assert.Zero(t, charges, "%v %s: %+v", p.dialect, order, r)
	}
	if !p.profile.AllowDuplicates {
		assert.Empty(t, gw.DoubleCharged(), "%v: %+v", p.dialect, r)
	}
}

// Some of these calls a profile may give up, so how they end is tested beside it.
func TestProfiles(t *testing.T) {
	t.Parallel()
	atOnce(t, func(p profiled) {
		lost := succeeded
		if p.profile.NoKeys {
			lost = unknown
		}
		var wg sync.WaitGroup
		for _, tt := range []struct {
			fault ot.Fault
			want  []outbound.Outcome
		}{
			{ot.OK, []outbound.Outcome{succeeded}},
			{ot.LoseRequest, []outbound.Outcome{lost}},
			{ot.LoseReply, []outbound.Outcome{lost}},
			{ot.CutHeaders, []outbound.Outcome{lost}},
			{ot.RateLimited, []outbound.Outcome{succeeded}},
			{ot.Overloaded, []outbound.Outcome{succeeded, unknown}},
			{ot.ServerError, []outbound.Outcome{succeeded, unknown}},
			{ot.AnswerAfterWork(502), []outbound.Outcome{succeeded, unknown}},
			{ot.Busy(1), []outbound.Outcome{succeeded, unknown}},
		} {
			wg.Go(func() {
				gw := ot.NewGateway(t, ot.Config{Dialect: p.dialect, Script: ot.Script{tt.fault}})
				r := p.pay(t, p.client(t), gw, outbound.NewAction(), "order-7")
				assert.Contains(t, tt.want, r.Outcome, "%v, %v: %+v", p.dialect, tt.fault, r)
			})
		}
		wg.Wait()
	})
}

// What is left at work, and may be found in use, is never claimed but with
// proof, and the same action settles it when the work is done.
func TestProfilesWhileTheKeyIsInUse(t *testing.T) {
	t.Parallel()
	atOnce(t, func(p profiled) {
		if p.profile.NoKeys {
			return
		}
		gw := ot.NewGateway(t, ot.Config{Dialect: p.dialect, Script: ot.Script{ot.LeaveWorking}})
		client, action := p.client(t), outbound.NewAction()
		release := gw.Hold()
		r := p.pay(t, client, gw, action, "order-7")
		assert.Equal(t, unknown, r.Outcome, "%v: %+v", p.dialect, r)
		assert.Greater(t, len(r.Attempts), 1, p.dialect)
		release()
		r = p.pay(t, client, gw, action, "order-7")
		assert.Equal(t, succeeded, r.Outcome, "%v: %+v", p.dialect, r)
	})
}

func TestProfilesThatKnowAnExhaustedQuotaDoNotRepeat(t *testing.T) {
	known := []ot.Dialect{ot.Resend, ot.OpenAI, ot.Anthropic, ot.Gemini}
	atOnce(t, func(p profiled) {
		if !slices.Contains(known, p.dialect) {
			return
		}
		gw := ot.NewGateway(t, ot.Config{Dialect: p.dialect, Script: ot.Script{ot.QuotaExhausted}})
		r := p.pay(t, p.client(t), gw, outbound.NewAction(), "order-7")
		assert.Len(t, r.Attempts, 1, p.dialect)
		assert.Equal(t, rejected, r.Outcome, "%v: %+v", p.dialect, r)
	})
}

func TestADuplicateGenerationIsBilledWhereItIsAllowed(t *testing.T) {
	p := profiled{dialect: ot.OpenAI, profile: provider.OpenAI()}
	p.profile.AllowDuplicates = true
	gw := ot.NewGateway(t, ot.Config{Dialect: p.dialect, Script: ot.Script{ot.LoseReply}})
	r := p.pay(t, p.client(t), gw, nil, "order-7")
	assert.Equal(t, succeeded, r.Outcome)
	assert.Equal(t, 2, gw.ChargesByOrder("order-7"))
	assert.Empty(t, gw.Requests()[0].Keys)
}

func TestProfilesOnABadDay(t *testing.T) {
	t.Parallel()
	atOnce(t, func(p profiled) {
		gw := ot.NewGateway(t, ot.Config{Dialect: p.dialect, Mix: badDay(uint64(p.dialect))})
		client := p.client(t)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() { p.pay(t, client, gw, outbound.NewAction(), fmt.Sprint("order-", i)) })
		}
		wg.Wait()
		assert.NotEmpty(t, gw.Payments(), p.dialect)
	})
}

// badDay is every way to fail that takes no time.
func badDay(seed uint64) ot.Mix {
	m := ot.Mix{Seed: seed}
	for _, f := range []ot.Fault{
		ot.DropUnread, ot.LoseRequest.By(ot.RST), ot.LeaveWorking, ot.LoseReply, ot.LoseReply.By(ot.RST), ot.CutHeaders, ot.CutBody,
		ot.Answer(503), ot.AnswerAfterWork(502), ot.Overloaded, ot.ServerError,
	} {
		m.Rates = append(m.Rates, ot.FaultRate{Fault: f, Rate: 0.05})
	}
	return m
}
