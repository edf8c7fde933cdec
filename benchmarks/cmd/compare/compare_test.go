package main

import (
	"math"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{0: nil, 3: {3}, 2: {9, 1, 2}, 2.5: {4, 1, 2, 3}} {
		if got := median(values); got != want {
			t.Errorf("median of %v is %v, want %v", values, got, want)
		}
	}
}

func TestRatioIsTakenWithinARound(t *testing.T) {
	quiet, busy := figures{ns: 1}, figures{ns: 100}
	half := func(f figures) figures { return figures{ns: f.ns / 2} }
	if got := ratio(series{half(quiet), half(busy)}, series{quiet, busy}); got != 0.5 {
		t.Errorf("ratio %v, want 0.5", got)
	}
}

func TestGoalMet(t *testing.T) {
	for _, c := range []struct {
		measured float64
		atLeast  bool
		want     bool
	}{{1, false, true}, {1.1, false, false}, {1, true, true}, {0.9, true, false}, {math.NaN(), true, false}} {
		if got := (goal{measured: c.measured, limit: 1, atLeast: c.atLeast}).met(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestNextGrowsAndIsBounded(t *testing.T) {
	if got := next(10, time.Second, time.Second); got != 12 {
		t.Errorf("%d, want a fifth more", got)
	}
	if got := next(10, 0, time.Second); got != 1000 {
		t.Errorf("%d, want a hundred times as many at most", got)
	}
}
