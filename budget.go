package outbound

import (
	"math"
	"sync/atomic"
	"time"
)

// BudgetPolicy bounds how many retries a target gets, over all calls: a share of the calls, plus one every 10 s, saved up to
// Burst. One polite client is easy; a whole fleet that repeats its calls after an outage is what keeps a provider down. An
// empty budget stops a call at once, with its last answer or error and ErrBudgetExhausted in the report.
//
// A retry of a failure that is proven not to have reached the server is free. A retry that brings a final answer gives its
// token back, so that single failures that heal cost nothing.
type BudgetPolicy struct {
	// Disabled turns the budget off: only RetryPolicy.MaxAttempts bounds the retries.
	Disabled bool
	// Ratio is how many retries each call adds. Default: 0.1, one for ten calls. Negative, or NaN: refused by New.
	Ratio float64
	// Burst is how many retries can be saved up, and what a target starts with. Default: 10. Negative: refused by New.
	Burst int
}

const (
	token       = int64(1_000_000)                  // one retry, in millionths
	maxTokens   = math.MaxInt64 / token / 2         // no more is counted
	tokenEvery  = 10 * time.Second                  // the time that adds one
	tokenMoment = tokenEvery / time.Duration(token) // the time that adds a millionth
)

// budgetRate is what all budgets of a Transport have in common.
type budgetRate struct {
	share int64 // what a call adds
	limit int64 // 0: no budget
}

func (p BudgetPolicy) rate() *budgetRate {
	if p.Disabled {
		return &budgetRate{}
	}
	limit := min(int64(p.Burst), maxTokens) * token
	return &budgetRate{share: int64(min(p.Ratio*float64(token), float64(limit))), limit: limit}
}

// budget is a token bucket without a lock. A full one, the usual case, is only read.
type budget struct {
	*budgetRate
	tokens atomic.Int64
	filled atomic.Int64 // up to when time has been credited, in nanoseconds since the epoch
	epoch  time.Time    // when the target was first called
}

func (b *budget) init(rate *budgetRate, now time.Time) {
	b.budgetRate, b.epoch = rate, now
	b.tokens.Store(b.limit)
}

// deposit adds a call's share.
func (b *budget) deposit() { b.add(b.share) }

// refund gives a token back.
func (b *budget) refund() { b.add(token) }

func (b *budget) add(n int64) {
	for {
		have := b.tokens.Load()
		sum := min(have+n, b.limit)
		if have >= b.limit || b.tokens.CompareAndSwap(have, sum) {
			return
		}
	}
}

// take spends a token, and reports whether there was one.
func (b *budget) take(now time.Time) bool {
	if b.limit == 0 {
		return true
	}
	b.credit(now)
	for {
		have := b.tokens.Load()
		if have < token {
			return false
		}
		if b.tokens.CompareAndSwap(have, have-token) {
			return true
		}
	}
}

// credit adds what the time since the last credit is worth.
func (b *budget) credit(now time.Time) {
	filled := b.filled.Load()
	moments := (int64(now.Sub(b.epoch)) - filled) / int64(tokenMoment)
	if moments > 0 && b.filled.CompareAndSwap(filled, filled+moments*int64(tokenMoment)) {
		b.add(min(moments, b.limit))
	}
}

// left is how many whole retries the budget would allow now; -1 where there is none.
func (b *budget) left(now time.Time) int {
	if b.limit == 0 {
		return -1
	}
	b.credit(now)
	return int(b.tokens.Load() / token)
}
