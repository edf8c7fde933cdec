package soak

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// counts counts by kind. The zero value is ready; safe for concurrent use.
type counts struct {
	mu sync.Mutex
	by map[string]int
}

func (c *counts) add(kind string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[string]int{}
	}
	c.by[kind] += n
}

func (c *counts) one(kind string) { c.add(kind, 1) }

// snapshot is a copy of what was counted.
func (c *counts) snapshot() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := make(map[string]int, len(c.by))
	for kind, n := range c.by {
		by[kind] = n
	}
	return by
}

// Histogram counts durations in steps of 2 %, so that it takes the same few kilobytes however long a soak goes on. The
// zero value is ready; safe for concurrent use.
type Histogram struct {
	steps [steps]atomic.Int64
	most  atomic.Int64
}

const (
	shortest = 10 * time.Microsecond
	steps    = 1000 // up to more than an hour
)

var growth = math.Log(1.02)

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	at := 0
	if d > shortest {
		at = min(int(math.Log(float64(d)/float64(shortest))/growth), steps-1)
	}
	h.steps[at].Add(1)
	for {
		most := h.most.Load()
		if int64(d) <= most || h.most.CompareAndSwap(most, int64(d)) {
			return
		}
	}
}

// Quantile is the duration that the share q of all durations stays within, at most 2 % too long. It is zero where there are
// none.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := int64(0)
	for i := range h.steps {
		total += h.steps[i].Load()
	}
	rank, seen := int64(math.Ceil(q*float64(total))), int64(0)
	for i := range h.steps {
		if seen += h.steps[i].Load(); seen >= rank && seen > 0 {
			d := time.Duration(float64(shortest) * math.Exp(float64(i+1)*growth))
			return min(d, h.Max())
		}
	}
	return 0
}

// Max is the longest duration.
func (h *Histogram) Max() time.Duration { return time.Duration(h.most.Load()) }
