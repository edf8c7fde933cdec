package fleet

import (
	"fmt"
	"time"
)

// The goals for the product's defaults.
const (
	maxAmplification = 1.2
	maxPeak          = 1.25
	maxPeakAnnounced = 2 // where all were told the same instant
	maxRecovery      = 2500 * time.Millisecond
	minLater         = 0.94
)

// Misses are the goals that a result misses, and by how much.
func (r *Result) Misses() []string {
	var misses []string
	check := func(ok bool, format string, figures ...any) {
		if !ok {
			misses = append(misses, fmt.Sprintf(format, figures...))
		}
	}
	check(r.Amplification <= maxAmplification, "amplification %.2f (at most %.2f)", r.Amplification, maxAmplification)
	check(r.Peak <= r.peakLimit(), "busiest 100 ms %.2f x normal (at most %.2f)", r.Peak, r.peakLimit())
	check(r.Recovery != Never && r.Recovery <= maxRecovery, "recovery %s (at most %.1f s)", r.recovered(), maxRecovery.Seconds())
	check(r.Later >= minLater, "%s of the next 30 s (at least %.0f %%)", percent(r.Later), 100*minLater)
	return misses
}

func (r *Result) peakLimit() float64 {
	if r.Setup.Outage == Announces {
		return maxPeakAnnounced
	}
	return maxPeak
}

func (r *Result) recovered() string {
	if r.Recovery == Never {
		return "never"
	}
	return fmt.Sprintf("%.1f s", r.Recovery.Seconds())
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// Goals are the goals in words.
var Goals = fmt.Sprintf("at most %.1f requests a call during the outage; the busiest 100 ms at most %.2f x normal (%d x where all were told the "+
	"same Retry-After); 99 %% of the calls succeed within %.1f s; at least %.0f %% of the next 30 s' calls succeed.",
	maxAmplification, maxPeak, maxPeakAnnounced, maxRecovery.Seconds(), 100*minLater)
