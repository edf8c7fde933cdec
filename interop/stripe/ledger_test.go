package stripe_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/interop/internal/mock"
	"github.com/outbound-go/outbound/outboundtest"
	"github.com/outbound-go/outbound/provider"
)

// ledger is stripe-go over outbound, before a gateway that speaks like Stripe and counts what it charged.
func ledger(t *testing.T, faults ...outboundtest.Fault) (*outboundtest.Gateway, *mock.Client, *stripe.Client) {
	t.Helper()
	gw := outboundtest.NewGateway(t, outboundtest.Config{Dialect: outboundtest.Stripe, Script: faults})
	client := mock.NewClient(t, mock.Quick(nil, provider.Stripe()))
	return gw, client, newSDK(backendConfig(gw.URL, client.Client))
}

func order(name string) *stripe.PaymentIntentCreateParams {
	params := payment()
	params.AddMetadata("order", name)
	return params
}

// Whatever befalls a payment that goes through in the end, the ledger has one charge.
func TestOneCharge(t *testing.T) {
	for _, faults := range []outboundtest.Script{
		{outboundtest.LoseReply},
		{outboundtest.LoseReply.By(outboundtest.RST), outboundtest.LoseReply},
		{outboundtest.LoseRequest, outboundtest.DropUnread},
		{outboundtest.CutHeaders},
		{outboundtest.CutBody, outboundtest.CutBody},
		{outboundtest.LeaveWorking},
		{outboundtest.Busy(2)},
		{outboundtest.Answer(503), outboundtest.LoseReply, outboundtest.RateLimited},
		{outboundtest.AnswerAfterWork(502), outboundtest.ResetOnAccept},
	} {
		t.Run(faults[0].String(), func(t *testing.T) {
			gw, client, sdk := ledger(t, faults...)
			intent, err := sdk.V1PaymentIntents.Create(t.Context(), order("order-7"))
			require.NoError(t, err)
			assert.NotEmpty(t, intent.ID)
			assert.EqualValues(t, 1234, intent.Amount)
			assert.Equal(t, 1, gw.ChargesByOrder("order-7"))
			report := client.Report(t)
			assert.Equal(t, outbound.OutcomeSucceeded, report.Outcome)
			assert.Equal(t, 1, gw.Charges(report.IdempotencyKey))
			assert.Greater(t, gw.Attempts(), 1)
		})
	}
}

// A payment whose fate stays open is called unknown, charged or not.
func TestUnknownIsNotClaimed(t *testing.T) {
	for name, row := range map[string]struct {
		fault   outboundtest.Fault
		charges int
	}{
		"done":     {outboundtest.LoseReply, 1},
		"not done": {outboundtest.LoseRequest, 0},
	} {
		t.Run(name, func(t *testing.T) {
			gw, _, sdk := ledger(t, row.fault, row.fault, row.fault, row.fault)
			_, err := sdk.V1PaymentIntents.Create(t.Context(), order("order-7"))
			require.ErrorIs(t, err, outbound.ErrAttemptsExhausted)
			assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(nil, err))
			assert.Equal(t, row.charges, gw.ChargesByOrder("order-7"))
		})
	}
}

// A stored 500 is asked for once more and no further: the replay will not change. stripe-go makes its error of it.
func TestStoredFailure(t *testing.T) {
	gw, client, sdk := ledger(t, outboundtest.ServerError)
	_, err := sdk.V1PaymentIntents.Create(t.Context(), order("order-7"))
	require.Error(t, err)
	assert.Equal(t, 2, gw.Attempts())
	assert.Zero(t, gw.ChargesByOrder("order-7"))
	report := client.Report(t)
	assert.True(t, report.Replayed)
	assert.Equal(t, outbound.OutcomeUnknown, report.Outcome)
}
