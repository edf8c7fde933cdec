package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// naive is the client that many a tutorial ends with: a timeout, a loop, exponential backoff, and an idempotency key,
// because the gateway asks for one. It reads well, it passes its tests, and it has one mistake: each try makes a new key,
// so a retry is a new payment to the gateway.
type naive struct {
	client *http.Client
	url    string
}

func newNaive(url string) *naive {
	return &naive{client: &http.Client{Timeout: attemptTimeout}, url: url}
}

// pay charges the order. It returns nil if that succeeded, and an error if it failed.
func (n *naive) pay(o order) error {
	var lastErr error
	backoff := firstBackoff
	for try := range tries {
		if try > 0 {
			time.Sleep(backoff)
			backoff *= 2
		}
		retry, err := n.try(o)
		if err == nil {
			return nil
		}
		lastErr = err
		if !retry {
			break
		}
	}
	return fmt.Errorf("paying %s: %w", o.ID, lastErr)
}

// try sends the payment once, and tells whether an error is worth another try.
func (n *naive) try(o order) (retry bool, err error) {
	req, err := http.NewRequest(http.MethodPost, n.url, bytes.NewReader(o.body()))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", uuid.NewString())
	resp, err := n.client.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return isTemporary(resp.StatusCode), fmt.Errorf("the gateway answered %s", resp.Status)
	}
	var payment struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&payment); err != nil {
		return true, fmt.Errorf("reading the gateway's answer: %w", err)
	}
	return false, nil
}

// isTemporary reports whether a status says that it may work later.
func isTemporary(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusConflict
}
