package peers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	restyv2 "github.com/go-resty/resty/v2"
	"github.com/gojek/heimdall/v7"
	"github.com/gojek/heimdall/v7/httpclient"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/outbound-go/outbound"
	resty "resty.dev/v3"
)

// What every peer is configured with, as far as it can be.
const (
	maxAttempts    = 3
	firstWait      = time.Nanosecond
	longestWait    = time.Millisecond
	attemptTimeout = 30 * time.Second
	failures       = 10
	openFor        = time.Hour
)

// Peer is one client under measurement.
type Peer struct {
	Name    string
	Retries bool
	Breaker bool
	Key     bool // it sends an idempotency key with a POST

	// transport puts the peer over base; nil where it is no RoundTripper.
	transport func(base http.RoundTripper, o options) http.RoundTripper
	// client makes whole calls over base by the peer's own API; nil where that is an http.Client over its transport.
	client func(base http.RoundTripper) sender
}

// options are what a case needs otherwise.
type options struct {
	noBudget bool // of outbound, the only peer that has one
	hosts    int  // how many targets outbound keeps
}

// sender makes one whole call. The body is nil, a []byte, or an io.Reader.
type sender func(ctx context.Context, method, url string, body any) (status int, size int64, err error)

// Names of the peers that the goals speak of.
const (
	Raw         = "net/http"
	RawTimeout  = "net/http, Client.Timeout"
	Failsafe    = "failsafe-go"
	Handwritten = "hand-written chain"
	Floor       = "the duties alone"
	Outbound    = "outbound"
)

// All are the peers, the floor first and outbound last.
func All() []Peer {
	return []Peer{
		{Name: Raw, transport: bare},
		{Name: RawTimeout, client: rawTimeout},
		{Name: "rehttp", Retries: true, transport: newRehttp},
		{Name: "go-retryablehttp", Retries: true, transport: newRetryable},
		{Name: "heimdall", Retries: true, client: newHeimdall},
		{Name: "resty v2", Retries: true, client: newRestyV2},
		{Name: "resty v3", Retries: true, Breaker: true, client: newRestyV3},
		{Name: Failsafe, Retries: true, Breaker: true, transport: newFailsafe},
		{Name: Handwritten, Retries: true, Breaker: true, Key: true, transport: func(base http.RoundTripper, _ options) http.RoundTripper { return newHandwritten(base) }},
		{Name: Floor, Retries: true, Breaker: true, Key: true, transport: newFloor},
		{Name: Outbound, Retries: true, Breaker: true, Key: true, transport: newOutbound},
	}
}

// send is how the peer makes whole calls over base.
func (p Peer) send(base http.RoundTripper, o options) sender {
	if p.client != nil {
		return p.client(base)
	}
	return over(&http.Client{Transport: p.transport(base, o)})
}

type doer interface {
	Do(*http.Request) (*http.Response, error)
}

// over makes whole calls with net/http's own API.
func over(client doer) sender {
	return func(ctx context.Context, method, url string, body any) (int, int64, error) {
		req, err := http.NewRequestWithContext(ctx, method, url, reader(body))
		if err != nil {
			return 0, 0, err
		}
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, 0, err
		}
		size, err := drain(resp.Body)
		return resp.StatusCode, size, err
	}
}

func reader(body any) io.Reader {
	switch b := body.(type) {
	case []byte:
		return bytes.NewReader(b)
	case io.Reader:
		return b
	}
	return nil
}

func drain(body io.ReadCloser) (int64, error) {
	size, err := io.Copy(io.Discard, body)
	return size, errors.Join(err, body.Close())
}

func bare(base http.RoundTripper, _ options) http.RoundTripper { return base }

func rawTimeout(base http.RoundTripper) sender {
	return over(&http.Client{Transport: base, Timeout: attemptTimeout})
}

func newRehttp(base http.RoundTripper, _ options) http.RoundTripper {
	retry := rehttp.RetryAll(
		rehttp.RetryMaxRetries(maxAttempts-1),
		rehttp.RetryAny(rehttp.RetryStatusInterval(500, 600), rehttp.RetryIsErr(func(err error) bool { return err != nil })))
	t := rehttp.NewTransport(base, retry, rehttp.ExpJitterDelay(firstWait, longestWait))
	t.PerAttemptTimeout = attemptTimeout
	return t
}

// newRetryable turns the logger off, which by default writes a line for each call.
func newRetryable(base http.RoundTripper, _ options) http.RoundTripper {
	c := retryablehttp.NewClient()
	c.HTTPClient = &http.Client{Transport: base, Timeout: attemptTimeout}
	c.Logger = nil
	c.RetryMax, c.RetryWaitMin, c.RetryWaitMax = maxAttempts-1, firstWait, longestWait
	return &retryablehttp.RoundTripper{Client: c}
}

// newHeimdall counts its waits in whole milliseconds, so that they are zero here.
func newHeimdall(base http.RoundTripper) sender {
	return over(httpclient.NewClient(
		httpclient.WithHTTPClient(&http.Client{Transport: base, Timeout: attemptTimeout}),
		httpclient.WithRetryCount(maxAttempts-1),
		httpclient.WithRetrier(heimdall.NewRetrier(heimdall.NewExponentialBackoff(firstWait, longestWait, 2, 0)))))
}

// newRestyV2 always reads the reply into memory.
func newRestyV2(base http.RoundTripper) sender {
	c := restyv2.New().SetTransport(base).SetTimeout(attemptTimeout).
		SetRetryCount(maxAttempts - 1).SetRetryWaitTime(firstWait).SetRetryMaxWaitTime(longestWait).
		AddRetryCondition(func(r *restyv2.Response, err error) bool { return err != nil || r.StatusCode() >= 500 })
	return func(ctx context.Context, method, url string, body any) (int, int64, error) {
		r := c.R().SetContext(ctx)
		if body != nil {
			r.SetBody(body).SetHeader("Content-Type", "application/json")
		}
		resp, err := r.Execute(method, url)
		if err != nil {
			return 0, 0, err
		}
		return resp.StatusCode(), int64(len(resp.Body())), nil
	}
}

// newRestyV3 opens its breaker by a ratio only: 90 % of at least 10.
func newRestyV3(base http.RoundTripper) sender {
	c := resty.New().SetTransport(base).SetTimeout(attemptTimeout).SetResponseDoNotParse(true).
		SetRetryCount(maxAttempts - 1).SetRetryWaitTime(firstWait).SetRetryMaxWaitTime(longestWait).
		SetRetryAllowNonIdempotent(true).AddRetryConditions(resty.RetryConditionStatus5XX).
		SetCircuitBreaker(resty.NewCircuitBreakerRatio(0.9, failures, openFor))
	return func(ctx context.Context, method, url string, body any) (int, int64, error) {
		r := c.R().SetContext(ctx)
		if body != nil {
			r.SetBody(body).SetHeader("Content-Type", "application/json")
		}
		resp, err := r.Execute(method, url)
		if err != nil {
			return 0, 0, err
		}
		size, err := drain(resp.Body)
		return resp.StatusCode(), size, err
	}
}

func newFailsafe(base http.RoundTripper, _ options) http.RoundTripper {
	retry := failsafehttp.NewRetryPolicyBuilder().
		WithMaxAttempts(maxAttempts).WithBackoff(firstWait, longestWait).
		AbortOnErrors(circuitbreaker.ErrOpen).Build()
	return failsafehttp.NewRoundTripper(base, retry, newFailsafeBreaker(), timeout.New[*http.Response](attemptTimeout))
}

func newFailsafeBreaker() circuitbreaker.CircuitBreaker[*http.Response] {
	return circuitbreaker.NewBuilder[*http.Response]().
		HandleIf(func(r *http.Response, err error) bool { return err != nil || r != nil && r.StatusCode >= 500 }).
		WithFailureThreshold(failures).WithDelay(openFor).Build()
}

// newOutbound leaves all on. A ratio of 1 makes 10 failures in a row the only reason to open, as with the others, while the
// rolling window is kept up all the same.
func newOutbound(base http.RoundTripper, o options) http.RoundTripper {
	t, err := outbound.New(outbound.Config{
		Base:           base,
		AttemptTimeout: attemptTimeout,
		Retry: outbound.RetryPolicy{
			MaxAttempts: maxAttempts,
			Backoff:     outbound.FullJitter{Base: firstWait, Cap: longestWait},
			Budget:      outbound.BudgetPolicy{Disabled: o.noBudget},
		},
		Breaker: outbound.BreakerPolicy{ConsecutiveFailures: failures, FailureRatio: 1, OpenFor: openFor, MaxCircuits: o.hosts},
	})
	if err != nil {
		panic(err) // the configuration is the constant above
	}
	return t
}
