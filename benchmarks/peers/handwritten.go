package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/sony/gobreaker/v2"
)

// handwritten is the chain that blog posts lead to: the body in memory, cenkalti/backoff around gobreaker around a timeout,
// and a UUID as the idempotency key of a POST. Of all peers it does the most of what outbound does.
type handwritten struct {
	base    http.RoundTripper
	breaker *gobreaker.CircuitBreaker[*http.Response]
}

func newHandwritten(base http.RoundTripper) http.RoundTripper {
	return &handwritten{base: base, breaker: newGobreaker("handwritten")}
}

func newGobreaker(name string) *gobreaker.CircuitBreaker[*http.Response] {
	return gobreaker.NewCircuitBreaker[*http.Response](gobreaker.Settings{
		Name:        name,
		Timeout:     openFor,
		ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= failures },
	})
}

func (h *handwritten) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	key := ""
	if req.Method == http.MethodPost {
		key = uuid.NewString()
	}
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = firstWait, longestWait
	return backoff.Retry(req.Context(), func() (*http.Response, error) {
		resp, err := h.breaker.Execute(func() (*http.Response, error) { return h.attempt(req, body, key) })
		if errors.Is(err, gobreaker.ErrOpenState) {
			return nil, backoff.Permanent(err)
		}
		return resp, err
	}, backoff.WithBackOff(waits), backoff.WithMaxTries(maxAttempts))
}

func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	return body, errors.Join(err, req.Body.Close())
}

func (h *handwritten) attempt(req *http.Request, body []byte, key string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), attemptTimeout)
	own := req.Clone(ctx)
	if body != nil {
		own.Body = io.NopCloser(bytes.NewReader(body))
	}
	if key != "" {
		own.Header.Set("Idempotency-Key", key)
	}
	resp, err := h.send(own)
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &cancelBody{resp.Body, cancel}
	return resp, nil
}

func (h *handwritten) send(req *http.Request) (*http.Response, error) {
	resp, err := h.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 500 {
		return resp, nil
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return nil, fmt.Errorf("status %d", resp.StatusCode)
}

// cancelBody ends the attempt's context when the reply is done with.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
