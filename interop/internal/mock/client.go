package mock

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
)

// Quick is what retries over real sockets need: hardly a wait, and neither a budget nor a circuit in the way.
func Quick(base http.RoundTripper, provider outbound.Provider) outbound.Config {
	return outbound.Config{
		Base:     base,
		Provider: provider,
		Retry: outbound.RetryPolicy{
			Backoff: outbound.FullJitter{Base: time.Millisecond, Cap: time.Millisecond},
			Budget:  outbound.BudgetPolicy{Disabled: true},
		},
		Breaker: outbound.BreakerPolicy{Disabled: true},
	}
}

// Client is an *http.Client of outbound's that remembers its reports. Safe for concurrent use.
type Client struct {
	*http.Client

	mu      sync.Mutex
	reports []outbound.Report
}

// NewClient makes a client. It takes the place of the config's Hooks.Done.
func NewClient(t testing.TB, cfg outbound.Config) *Client {
	t.Helper()
	c := new(Client)
	cfg.Hooks.Done = func(_ context.Context, r outbound.Report) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reports = append(c.reports, r)
	}
	client, err := outbound.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.Client = client
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// Reports are all that Hooks.Done was told so far, in order.
func (c *Client) Reports() []outbound.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reports)
}

// Report is the only one.
func (c *Client) Report(t testing.TB) outbound.Report {
	t.Helper()
	all := c.Reports()
	if len(all) != 1 {
		t.Fatalf("%d reports, not one: %+v", len(all), all)
	}
	return all[0]
}
