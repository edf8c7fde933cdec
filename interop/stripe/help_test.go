package stripe_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-mock/embedded"
	"github.com/stripe/stripe-mock/server"

	"github.com/outbound-go/outbound/interop/internal/mock"
	"github.com/outbound-go/outbound/provider"
)

// backendConfig is how stripe-go is given a client of ours, and how its own retries are turned off.
func backendConfig(url string, client *http.Client) *stripe.BackendConfig {
	return &stripe.BackendConfig{
		URL:               stripe.String(url),
		HTTPClient:        client,
		MaxNetworkRetries: stripe.Int64(0),
		LeveledLogger:     &stripe.LeveledLogger{Level: stripe.LevelNull},
	}
}

func newSDK(config *stripe.BackendConfig) *stripe.Client {
	return stripe.NewClient("sk_test_123", stripe.WithBackends(stripe.NewBackendsWithConfig(config)))
}

// rig is stripe-go over outbound, before a server.
type rig struct {
	*mock.Server
	client *mock.Client
	sdk    *stripe.Client
}

func newRig(t *testing.T, next http.Handler, faults ...mock.Fault) rig {
	t.Helper()
	return rigOf(t, mock.Loopback(t, next, faults...))
}

func rigOf(t *testing.T, s *mock.Server) rig {
	t.Helper()
	client := mock.NewClient(t, mock.Quick(s.Base, provider.Stripe()))
	return rig{Server: s, client: client, sdk: newSDK(backendConfig(s.URL, client.Client))}
}

func payment() *stripe.PaymentIntentCreateParams {
	return &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(1234), Currency: stripe.String("eur")}
}

// stripeMock is the handler of the real stripe-mock. It checks requests against Stripe's specification and keeps nothing.
var stripeMock = sync.OnceValues(func() (http.Handler, error) {
	spec, err := server.LoadSpec(embedded.OpenAPISpec, "")
	if err != nil {
		return nil, err
	}
	fixtures, err := server.LoadFixtures(embedded.OpenAPIFixtures, "")
	if err != nil {
		return nil, err
	}
	stub, err := server.NewStubServer(fixtures, spec, false, false)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(stub.HandleRequest), nil
})

func realMock(t *testing.T) http.Handler {
	t.Helper()
	h, err := stripeMock()
	require.NoError(t, err)
	return h
}

// sameOnAll checks that every attempt was the same request under the same key, and returns the key.
func sameOnAll(t *testing.T, requests []mock.Request) string {
	t.Helper()
	require.NotEmpty(t, requests)
	first := requests[0]
	require.NotEmpty(t, first.Key())
	for _, r := range requests {
		require.Equal(t, []string{first.Key()}, r.Header.Values("Idempotency-Key"))
		require.Equal(t, first.Method+" "+first.Path, r.Method+" "+r.Path)
		require.Equal(t, first.Body, r.Body)
		require.Equal(t, "Bearer sk_test_123", r.Header.Get("Authorization"))
	}
	return first.Key()
}
