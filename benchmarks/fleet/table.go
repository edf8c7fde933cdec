package fleet

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// PrintTable writes the results of one outage side by side, as Markdown.
func PrintTable(w io.Writer, results []*Result) {
	s := results[0].Setup
	fmt.Fprintf(w, "\n#### %s for %.0f s, %s\n\n", s.Outage, s.During.Seconds(), s.Shape)
	fmt.Fprintln(w, "| policy | requests / calls in the outage | busiest 100 ms after, x normal | recovery to 99 % | outage calls rescued | calls in the next 30 s OK |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|---:|")
	for _, r := range results {
		fmt.Fprintf(w, "| %s | %.2f | %.2f | %s | %s | %s |\n",
			r.Setup.Policy.Name, r.Amplification, r.Peak, r.recovered(), percent(r.Rescued), percent(r.Later))
	}
}

// PrintGoals says of each result whether it meets the goals.
func PrintGoals(w io.Writer, results []*Result) {
	for _, r := range results {
		verdict := "all goals met"
		if misses := r.Misses(); len(misses) > 0 {
			verdict = "misses " + strings.Join(misses, "; ")
		}
		fmt.Fprintf(w, "- %s, %s, %s: %s\n", r.Setup.Policy.Name, r.Setup.Outage, r.Setup.Shape, verdict)
	}
}

// Worst is the worst of each figure over several results.
func Worst(results []*Result) *Result {
	worst := *results[0]
	for _, r := range results[1:] {
		worst.Amplification = max(worst.Amplification, r.Amplification)
		worst.Peak = max(worst.Peak, r.Peak)
		worst.Recovery = later(worst.Recovery, r.Recovery)
		worst.Rescued = min(worst.Rescued, r.Rescued)
		worst.Later = min(worst.Later, r.Later)
	}
	return &worst
}

func later(a, b time.Duration) time.Duration {
	if a == Never || b == Never {
		return Never
	}
	return max(a, b)
}

// PrintWorst writes the worst figures, as Markdown.
func PrintWorst(w io.Writer, results []*Result) {
	fmt.Fprintln(w, "| policy | outage | requests / calls in the outage | busiest 100 ms after, x normal | recovery to 99 % | calls in the next 30 s OK |")
	fmt.Fprintln(w, "|---|---|---:|---:|---:|---:|")
	for _, r := range results {
		fmt.Fprintf(w, "| %s | %s | %.2f | %.2f | %s | %s |\n", r.Setup.Policy.Name, r.Setup.Outage, r.Amplification, r.Peak, r.recovered(), percent(r.Later))
	}
}
