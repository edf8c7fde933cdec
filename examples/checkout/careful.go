package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/outbound-go/outbound"
)

// careful pays with outbound. There is no loop and no key in it: it makes one action per order, stores it before the
// first byte leaves, and says what outbound can prove.
type careful struct {
	client *http.Client
	url    string
	store  store
}

func newCareful(url string) (*careful, error) {
	client, err := outbound.NewClient(config())
	if err != nil {
		return nil, err
	}
	return &careful{client: client, url: url}, nil
}

func config() outbound.Config {
	return outbound.Config{
		AttemptTimeout: attemptTimeout,
		// Room for every try to time out, and for waiting a second where the gateway asks for it with Retry-After.
		TotalTimeout: 5 * time.Second,
		Retry: outbound.RetryPolicy{
			MaxAttempts: tries,
			Backoff:     outbound.FullJitter{Base: firstBackoff, Cap: 8 * firstBackoff},
			// The budget spares a provider that is down the retries of a whole fleet: a tenth of the calls. Here a third of
			// the requests fail on purpose, and each retry is wanted.
			Budget: outbound.BudgetPolicy{Disabled: true},
		},
		// A circuit is for a server that is down. This one is up: it answers within milliseconds, and a third of the
		// answers fail by design. With the default settings (10 failures in a row, or half of at least 20 attempts) bad
		// luck alone opens the circuit in some runs, and in the two seconds that it stays open all the other payments of
		// the demo are refused: "not sent" by the hundred. That is true, but it shows the circuit and not the keys. With
		// these settings it opens only for a gateway that hardly ever answers, and soon tries again; what it refuses is
		// not sent, or unknown and reconciled later.
		Breaker: outbound.BreakerPolicy{
			ConsecutiveFailures: 50,
			FailureRatio:        0.9,
			MinRequests:         50,
			OpenFor:             200 * time.Millisecond,
		},
		Provider: outbound.Provider{Judge: judge},
	}
}

// judge is what this gateway documents and outbound cannot know: a 500 that is replayed is the stored result of work that
// has failed, nothing was charged, and this key never will be. By default a 500 proves nothing, and stays unknown.
func judge(resp *http.Response, _ []byte) outbound.Verdict {
	if resp.StatusCode == http.StatusInternalServerError && resp.Header.Get("Idempotent-Replayed") == "true" {
		return outbound.Verdict{Next: outbound.NextStop, Says: outbound.SaysRejected}
	}
	return outbound.Verdict{}
}

// pay charges the order as one action, and says how that ended.
func (c *careful) pay(o order) outbound.Outcome {
	action := outbound.NewAction()
	req, err := c.newRequest(context.Background(), o)
	if err != nil {
		return outbound.OutcomeNotSent
	}
	// What is not stored is not sent: after a crash nobody could ask for it.
	if err := action.Bind(req); err != nil {
		return outbound.OutcomeNotSent
	}
	if err := c.store.save(o.ID, action); err != nil {
		return outbound.OutcomeNotSent
	}
	return c.send(o, action)
}

// send sends the order under its action, for the first time or once more.
func (c *careful) send(o order, action *outbound.Action) outbound.Outcome {
	req, err := c.newRequest(outbound.WithAction(context.Background(), action), o)
	if err != nil {
		return outbound.OutcomeUnknown
	}
	resp, err := c.client.Do(req)
	if err == nil {
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body) // a body that breaks off is in the outcome
	}
	return outbound.OutcomeOf(resp, err)
}

func (c *careful) newRequest(ctx context.Context, o order) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(o.body()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// store keeps the action of each order. A real one is a table in the shop's database, next to the order. The zero store is
// empty; it is safe for concurrent use.
type store struct {
	mu      sync.Mutex
	actions map[string][]byte // as JSON, so that reading one back is what it would be after a restart
}

func (s *store) save(orderID string, action *outbound.Action) error {
	data, err := json.Marshal(action)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.actions == nil {
		s.actions = map[string][]byte{}
	}
	s.actions[orderID] = data
	return nil
}

func (s *store) load(orderID string) (*outbound.Action, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var action outbound.Action
	if err := json.Unmarshal(s.actions[orderID], &action); err != nil {
		return nil, err
	}
	return &action, nil
}
