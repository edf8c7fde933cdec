// Package stripe_test puts outbound under stripe-go, before stripe-mock and before a gateway that keeps a ledger.
package stripe_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/interop/internal/mock"
	"github.com/outbound-go/outbound/provider"
)

// stripe-go makes a key for each write. It is adopted, and stays the same whatever the attempts meet.
func TestKeyOfTheSDKIsAdopted(t *testing.T) {
	for proto, serve := range map[string]mock.Listen{"HTTP/1.1": mock.Loopback, "HTTP/2.0": mock.OverHTTP2} {
		t.Run(proto, func(t *testing.T) {
			r := rigOf(t, serve(t, realMock(t), mock.LoseReply, mock.Answer(503, `{}`), mock.CutReply))
			intent, err := r.sdk.V1PaymentIntents.Create(t.Context(), payment())
			require.NoError(t, err)
			assert.NotEmpty(t, intent.ID)
			require.Len(t, r.Requests(), 4)
			key := sameOnAll(t, r.Requests())
			assert.Equal(t, proto, r.Requests()[0].Proto)
			assert.Equal(t, key, intent.LastResponse.IdempotencyKey)
			report := r.client.Report(t)
			assert.Equal(t, key, report.IdempotencyKey)
			assert.Equal(t, outbound.OutcomeSucceeded, report.Outcome)
			assert.Len(t, report.Attempts, 4)
		})
	}
}

// A key that the application gave goes out as it is. Two calls are two actions, unless they are given the same key.
func TestOneKeyPerCall(t *testing.T) {
	r := newRig(t, realMock(t))
	given := payment()
	given.SetIdempotencyKey("order-42")
	for _, params := range []*stripe.PaymentIntentCreateParams{payment(), payment(), given} {
		_, err := r.sdk.V1PaymentIntents.Create(t.Context(), params)
		require.NoError(t, err)
	}
	requests := r.Requests()
	require.Len(t, requests, 3)
	assert.NotEqual(t, requests[0].Key(), requests[1].Key())
	assert.Equal(t, "order-42", requests[2].Key())
}

// A read carries no key, and is retried all the same.
func TestRead(t *testing.T) {
	r := newRig(t, realMock(t), mock.LoseReply, mock.Answer(503, `{}`))
	_, err := r.sdk.V1PaymentIntents.Retrieve(t.Context(), "pi_123", nil)
	require.NoError(t, err)
	require.Len(t, r.Requests(), 3)
	for _, req := range r.Requests() {
		assert.Empty(t, req.Header.Values("Idempotency-Key"))
	}
}

// stripe-go gives a DELETE a key, too, of which Stripe's first API takes no notice. A DELETE is repeated for what it is.
func TestDelete(t *testing.T) {
	r := newRig(t, realMock(t), mock.LoseReply)
	customer, err := r.sdk.V1Customers.Delete(t.Context(), "cus_123", nil)
	require.NoError(t, err)
	assert.True(t, customer.Deleted)
	assert.Len(t, r.Requests(), 2)
	sameOnAll(t, r.Requests())
}

// A stored action's key reaches stripe-go by its params. Left to itself stripe-go makes another one, and nothing is sent.
func TestAction(t *testing.T) {
	r := newRig(t, realMock(t), mock.LoseReply)
	action := outbound.NewAction()
	ctx := outbound.WithAction(t.Context(), action)

	_, err := r.sdk.V1PaymentIntents.Create(ctx, payment())
	require.ErrorIs(t, err, outbound.ErrInvalidKey)
	require.Empty(t, r.Requests())

	params := payment()
	params.SetIdempotencyKey(action.Key)
	_, err = r.sdk.V1PaymentIntents.Create(ctx, params)
	require.NoError(t, err)
	require.Len(t, r.Requests(), 2)
	assert.Equal(t, action.Key, sameOnAll(t, r.Requests()))
}

// Nothing is known of the past of a key that stripe-go made, so that nothing can be proven of it. An action's key is fresh.
func TestRefusedDial(t *testing.T) {
	action := outbound.NewAction()
	params := payment()
	params.SetIdempotencyKey(action.Key)
	for name, row := range map[string]struct {
		ctx    context.Context
		params *stripe.PaymentIntentCreateParams
		want   outbound.Outcome
	}{
		"the SDK's key": {t.Context(), payment(), outbound.OutcomeUnknown},
		"an action's":   {outbound.WithAction(t.Context(), action), params, outbound.OutcomeNotSent},
	} {
		t.Run(name, func(t *testing.T) {
			client := mock.NewClient(t, mock.Quick(nil, provider.Stripe()))
			_, err := newSDK(backendConfig(mock.Nowhere, client.Client)).V1PaymentIntents.Create(row.ctx, row.params)
			assert.Equal(t, row.want, outbound.OutcomeOf(nil, err))
			assert.Equal(t, row.want, client.Report(t).Outcome)
		})
	}
}

const (
	declined = `{"error":{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds","message":"No."}}`
	invalid  = `{"error":{"type":"invalid_request_error","code":"parameter_missing","param":"amount","message":"No."}}`
	limited  = `{"error":{"type":"invalid_request_error","code":"rate_limit","message":"No."}}`
	reused   = `{"error":{"type":"idempotency_error","message":"No."}}`
	down     = `{"error":{"type":"api_error","message":"No."}}`
)

// A final answer reaches stripe-go as a response, whatever its status, and becomes its own error. stripe-go keeps no *http.Response, so
// that Hooks.Done says how the action ended.
func TestTypedErrors(t *testing.T) {
	for name, row := range map[string]struct {
		status   int
		body     string
		want     stripe.Error
		requests int
		outcome  outbound.Outcome
	}{
		"declined": {402, declined, stripe.Error{
			Type: stripe.ErrorTypeCard, Code: stripe.ErrorCodeCardDeclined, DeclineCode: stripe.DeclineCodeInsufficientFunds,
		}, 1, outbound.OutcomeRejected},
		"invalid":     {422, invalid, stripe.Error{Type: stripe.ErrorTypeInvalidRequest, Code: stripe.ErrorCodeParameterMissing, Param: "amount"}, 1, outbound.OutcomeRejected},
		"key reused":  {400, reused, stripe.Error{Type: stripe.ErrorTypeIdempotency}, 1, outbound.OutcomeRejected},
		"rate limit":  {429, limited, stripe.Error{Type: stripe.ErrorTypeInvalidRequest, Code: stripe.ErrorCodeRateLimit}, 4, outbound.OutcomeRejected},
		"unavailable": {503, down, stripe.Error{Type: stripe.ErrorTypeAPI}, 4, outbound.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, mock.Always(row.status, row.body, "Request-Id", "req_7"))
			action := outbound.NewAction()
			params := payment()
			params.SetIdempotencyKey(action.Key)
			_, err := r.sdk.V1PaymentIntents.Create(outbound.WithAction(t.Context(), action), params)

			var got *stripe.Error
			require.ErrorAs(t, err, &got)
			assert.Equal(t, row.status, got.HTTPStatusCode)
			assert.Equal(t, "req_7", got.RequestID)
			assert.Equal(t, "No.", got.Msg)
			assert.Equal(t, row.want.Type, got.Type)
			assert.Equal(t, row.want.Code, got.Code)
			assert.Equal(t, row.want.DeclineCode, got.DeclineCode)
			assert.Equal(t, row.want.Param, got.Param)
			assert.JSONEq(t, row.body, string(got.LastResponse.RawJSON))

			assert.Len(t, r.Requests(), row.requests)
			assert.Equal(t, row.outcome, r.client.Report(t).Outcome)
		})
	}
}

// Of a key that stripe-go made, a 429 proves nothing about what came before. A declined card does.
func TestAdoptedKeyIsNotFresh(t *testing.T) {
	for status, want := range map[int]outbound.Outcome{429: outbound.OutcomeUnknown, 402: outbound.OutcomeRejected} {
		r := newRig(t, mock.Always(status, declined))
		_, err := r.sdk.V1PaymentIntents.Create(t.Context(), payment())
		require.Error(t, err)
		assert.Equal(t, want, r.client.Report(t).Outcome)
	}
}

// Stripe says by a header whether to retry; both sides know it.
func TestShouldRetry(t *testing.T) {
	for advice, requests := range map[string]int{"false": 1, "true": 2} {
		status := map[string]int{"false": 500, "true": 400}[advice]
		r := newRig(t, realMock(t), mock.Answer(status, down, "Stripe-Should-Retry", advice))
		_, err := r.sdk.V1PaymentIntents.Create(t.Context(), payment())
		assert.Equal(t, advice == "false", err != nil)
		assert.Len(t, r.Requests(), requests)
	}
}

// When no reply comes, stripe-go returns our error as http.Client wrapped it.
func TestErrorOfOursIsFound(t *testing.T) {
	lost := []mock.Fault{mock.LoseReply, mock.LoseReply, mock.LoseReply, mock.LoseReply}
	r := newRig(t, realMock(t), lost...)
	_, err := r.sdk.V1PaymentIntents.Create(t.Context(), payment())
	require.ErrorIs(t, err, outbound.ErrAttemptsExhausted)
	report, ok := outbound.ReportOf(nil, err)
	require.True(t, ok)
	assert.Equal(t, outbound.OutcomeUnknown, report.Outcome)
	assert.Equal(t, sameOnAll(t, r.Requests()), report.IdempotencyKey)
}

// The caller's cancel ends a wait for a retry, and stripe-go lets our error through.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mock.InMemory(t, mock.Always(503, down, "Retry-After", "20"))
		client := mock.NewClient(t, outbound.Config{Base: s.Base, Provider: provider.Stripe()})
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(time.Second, cancel).Stop()
		_, err := newSDK(backendConfig(s.URL, client.Client)).V1PaymentIntents.Create(ctx, payment())
		require.ErrorIs(t, err, context.Canceled)
		report, ok := outbound.ReportOf(nil, err)
		require.True(t, ok)
		assert.Equal(t, outbound.OutcomeUnknown, report.Outcome)
		assert.Equal(t, sameOnAll(t, s.Requests()), report.IdempotencyKey)
		assert.Len(t, s.Requests(), 1)
	})
}

// Left on, stripe-go's own retries multiply with ours: three times our four attempts of a reply that is lost or a lock that times out,
// under the one key of the call. An answer with an error of Stripe's in it, a 503 say, it leaves to us in any case.
func TestRetriesOfTheSDK(t *testing.T) {
	for name, row := range map[string]struct {
		fault   mock.Fault
		on, off int
	}{
		"lost replies": {mock.LoseRequest, 12, 4},
		"lock timeout": {mock.Answer(429, `{"error":{"type":"invalid_request_error","code":"lock_timeout"}}`), 12, 4},
		"unavailable":  {mock.Answer(503, down), 4, 4},
	} {
		for _, retries := range []*int64{nil, stripe.Int64(0)} {
			t.Run(fmt.Sprintf("%s, turned off: %v", name, retries != nil), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := mock.InMemory(t, nil, slices.Repeat([]mock.Fault{row.fault}, row.on)...)
					client := mock.NewClient(t, mock.Quick(s.Base, provider.Stripe()))
					config := backendConfig(s.URL, client.Client)
					config.MaxNetworkRetries = retries
					_, err := newSDK(config).V1PaymentIntents.Create(t.Context(), payment())
					require.Error(t, err)
					want := row.off
					if retries == nil {
						want = row.on
					}
					assert.Len(t, s.Requests(), want)
					assert.Len(t, client.Reports(), want/4)
					sameOnAll(t, s.Requests())
				})
			})
		}
	}
}

// A download that outlasts the total timeout is a stream by the word of its caller only: Stripe sends it as application/pdf.
func TestDownload(t *testing.T) {
	for _, streaming := range []bool{true, false} {
		t.Run(fmt.Sprintf("streaming %v", streaming), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mock.InMemory(t, mock.Drip("application/pdf", "%PDF", 10, 10*time.Second))
				client := mock.NewClient(t, outbound.Config{Base: s.Base, Provider: provider.Stripe()})
				ctx := outbound.WithOverride(t.Context(), outbound.Override{Streaming: streaming})
				file, err := newSDK(backendConfig(s.URL, client.Client)).V1Quotes.PDF(ctx, "qt_123", nil)
				require.NoError(t, err)
				defer func() { _ = file.LastResponse.Body.Close() }()
				body, err := io.ReadAll(file.LastResponse.Body)
				if !streaming {
					require.ErrorIs(t, err, outbound.ErrTotalTimeout)
					return
				}
				require.NoError(t, err)
				assert.Equal(t, strings.Repeat("%PDF", 10), string(body))
			})
		})
	}
}
