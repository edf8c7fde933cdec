package fleet

import "time"

// Result is what came of a run.
type Result struct {
	Setup Setup

	Amplification float64       // requests that reached the server during the outage, over the calls made in it
	Peak          float64       // the busiest 100 ms after the recovery, over the normal load
	Recovery      time.Duration // from the recovery until of the calls of every second, for 5 s, 99 % succeed; Never
	Rescued       float64       // the share of the outage's calls that succeeded in the end
	Later         float64       // the share of the calls in the 30 s after the recovery that succeeded

	arrivals, good []int64 // running totals by bin
}

// Never is the Recovery of a fleet that did not recover while it was watched.
const Never = time.Duration(-1)

func (f *fleet) result() *Result {
	s := f.setup
	arrivals, calls, good := f.server.arrivals.sums(), f.calls.sums(), f.good.sums()
	begin, end := int(s.Before/bin), int((s.Before+s.During)/bin)
	later := min(end+int(30*time.Second/bin), len(calls)-1)
	return &Result{
		Setup:         s,
		Amplification: between(arrivals, begin, end) / between(calls, begin, end),
		Peak:          peak(arrivals[end:]) / (float64(s.Shape.Normal()) * peakWindow.Seconds()),
		Recovery:      recovery(calls[end:], good[end:]),
		Rescued:       between(good, begin, end) / between(calls, begin, end),
		Later:         between(good, end, later) / between(calls, end, later),
		arrivals:      arrivals,
		good:          good,
	}
}

func between(sums []int64, from, to int) float64 { return float64(sums[to] - sums[from]) }

const peakWindow = 100 * time.Millisecond

// peak is the most that came in any 100 ms.
func peak(arrivals []int64) float64 {
	const n = int(peakWindow / bin)
	most := 0.0
	for i := 0; i+n < len(arrivals); i++ {
		most = max(most, between(arrivals, i, i+n))
	}
	return most
}

// recovery is the start of the first 5 s in which every sliding second is good.
func recovery(calls, good []int64) time.Duration {
	const second, steady = int(time.Second / bin), int(5 * time.Second / bin)
	since := 0
	for i := 0; i+second < len(calls); i++ {
		if between(good, i, i+second) < 0.99*between(calls, i, i+second) {
			since = i + 1
		}
		if i-since == steady {
			return time.Duration(since) * bin
		}
	}
	return Never
}
