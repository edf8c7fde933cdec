package fleet

import (
	"net/http"
	"time"

	"github.com/outbound-go/outbound"
)

// Policy is how a process calls.
type Policy struct {
	Name   string
	Config outbound.Config
	// ToTheLetter waits for a Retry-After exactly as long as it says, as most clients do. The product can't be told to, so
	// a plain loop above it makes the attempts.
	ToTheLetter bool
	// Product is one that the goals are for.
	Product bool
}

// The limits that all policies share but Untouched.
const (
	attemptTimeout = time.Second
	totalTimeout   = 10 * time.Second
	attempts       = 4
)

var (
	off       = outbound.BudgetPolicy{Disabled: true}
	noCircuit = outbound.BreakerPolicy{Disabled: true}
)

// plain is the product with neither budget nor circuit.
func plain(b outbound.Backoff) outbound.Config {
	return outbound.Config{
		AttemptTimeout: attemptTimeout, TotalTimeout: totalTimeout,
		Retry: outbound.RetryPolicy{Backoff: b, Budget: off}, Breaker: noCircuit,
	}
}

// The policies, from no retry at all to the product's defaults.
var (
	NoRetry     = Policy{Name: "no retry", Config: once()}
	Fixed       = Policy{Name: "fixed delay", Config: plain(fixed(500 * time.Millisecond)), ToTheLetter: true}
	Exponential = Policy{Name: "exponential, no jitter", Config: plain(exponential{500 * time.Millisecond, 8 * time.Second}), ToTheLetter: true}
	Letter      = Policy{Name: "full jitter", Config: plain(outbound.FullJitter{}), ToTheLetter: true}
	Jitter      = Policy{Name: "full jitter, hints spread", Config: plain(nil)}
	Budget      = Policy{Name: "full jitter + budget", Config: withBudget()}
	Breaker     = Policy{Name: "full jitter + breaker", Config: withBreaker()}
	Defaults    = Policy{Name: "defaults: jitter, budget, breaker", Config: limited(), Product: true}
	Untouched   = Policy{Name: "Config{}: attempts of 10 s", Product: true}
)

// Policies are all of them, side by side.
var Policies = []Policy{NoRetry, Fixed, Exponential, Letter, Jitter, Budget, Breaker, Defaults, Untouched}

func once() outbound.Config {
	cfg := plain(nil)
	cfg.Retry.MaxAttempts = 1
	return cfg
}

// limited is the product's defaults but for the timeouts.
func limited() outbound.Config {
	return outbound.Config{AttemptTimeout: attemptTimeout, TotalTimeout: totalTimeout}
}

func withBudget() outbound.Config {
	cfg := plain(nil)
	cfg.Retry.Budget = outbound.BudgetPolicy{}
	return cfg
}

func withBreaker() outbound.Config {
	cfg := plain(nil)
	cfg.Breaker = outbound.BreakerPolicy{}
	return cfg
}

type fixed time.Duration

func (f fixed) Delay(int) time.Duration { return time.Duration(f) }

type exponential struct{ base, limit time.Duration }

func (e exponential) Delay(retry int) time.Duration { return min(e.base<<min(retry, 30), e.limit) }

// client is one process.
func (p Policy) client(base http.RoundTripper) (http.RoundTripper, error) {
	cfg := p.Config
	cfg.Base = base
	if !p.ToTheLetter {
		return outbound.New(cfg)
	}
	cfg.Retry.MaxAttempts = 1
	t, err := outbound.New(cfg)
	return &literal{base: t, backoff: p.Config.Retry.Backoff}, err
}

// literal is the retry loop that most clients have: it waits as long as it was told, not a moment longer.
type literal struct {
	base    http.RoundTripper
	backoff outbound.Backoff
}

func (l *literal) RoundTrip(req *http.Request) (*http.Response, error) {
	deadline := time.Now().Add(totalTimeout)
	for retry := 0; ; retry++ {
		resp, err := l.base.RoundTrip(req)
		if err == nil && resp.StatusCode < 500 || retry == attempts-1 {
			return resp, err
		}
		wait := l.wait(resp, retry)
		if !time.Now().Add(wait).Before(deadline) {
			return resp, err
		}
		time.Sleep(wait)
	}
}

func (l *literal) wait(resp *http.Response, retry int) time.Duration {
	if resp != nil {
		if hint, err := time.ParseDuration(resp.Header.Get("Retry-After") + "s"); err == nil {
			return hint
		}
	}
	return l.backoff.Delay(retry)
}
