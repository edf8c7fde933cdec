package fleet

import (
	"sync/atomic"
	"time"
)

// series counts events in bins of time. What lies outside is not counted.
type series struct {
	start  time.Time
	counts []atomic.Int64
}

func newSeries(start time.Time, span time.Duration) *series {
	return &series{start: start, counts: make([]atomic.Int64, span/bin)}
}

func (s *series) add(at time.Time) {
	if i := int(at.Sub(s.start) / bin); i >= 0 && i < len(s.counts) {
		s.counts[i].Add(1)
	}
}

// sums are the running totals: sums[i] counts the bins before i.
func (s *series) sums() []int64 {
	sums := make([]int64, len(s.counts)+1)
	for i := range s.counts {
		sums[i+1] = sums[i] + s.counts[i].Load()
	}
	return sums
}
