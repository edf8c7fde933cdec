package soak

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/outbound-go/outbound"
)

// Report is what a load has shown.
type Report struct {
	Took     time.Duration
	Stopped  bool // before its time was over
	Audit    Audit
	Attempts int // of the payments' calls
	Retries  int
	Requests int // that arrived at the gateway, look-ups among them
	LookUps  int
	Charges  int
	Faults   map[string]int
	Lanes    map[string]int // how many calls succeeded over each protocol
	Latency  *Histogram     // of the payments' calls, attempts and waits together

	Before, After Footprint
	Leaked        int    // goroutines that were still there after all was closed
	Stacks        string // of all goroutines, if some leaked
}

// Verdict is nil if every promise was kept, or an error that names each broken one.
func (r *Report) Verdict() error {
	var errs []error
	check := func(broken bool, format string, args ...any) {
		if broken {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	a := r.Audit
	check(a.DoubleCharged > 0, "%d orders were charged more than once", a.DoubleCharged)
	check(a.FalseClaims > 0, "%d claims are false", a.FalseClaims)
	check(a.Lost > 0, "%d payments are lost: nobody knows their end", a.Lost)
	check(a.Strays > 0, "%d charges belong to no payment", a.Strays)
	check(a.Payments() == 0, "no payment was made, so nothing is proven")
	check(r.Leaked > 0, "%d goroutines are left", r.Leaked)
	check(r.HeapGrowth() > maxHeapGrowth, "the heap grew by %s, more than %s", mib(r.HeapGrowth()), mib(maxHeapGrowth))
	return errors.Join(errs...)
}

// HeapGrowth is by how many bytes the heap grew; negative if it shrank.
func (r *Report) HeapGrowth() int64 { return int64(r.After.Heap) - int64(r.Before.Heap) }

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// Print writes the report.
func (r *Report) Print(w io.Writer) {
	p := printer{w}
	p.line("payments                    %9d in %.1f s", r.Audit.Payments(), r.Took.Seconds())
	if r.Stopped {
		p.line("stopped before the time was over")
	}
	p.line("attempts by their calls     %9d (%d after a failed one)", r.Attempts, r.Retries)
	p.line("requests at the gateway     %9d (%d look-ups)", r.Requests, r.LookUps)
	p.line("charges                     %9d", r.Charges)
	p.counts("calls that succeeded", r.Lanes)
	p.counts("faults, and what became of them", r.Faults)
	p.line("\nclaimed                       orders  charged 0      once      more")
	p.tallies("when the calls returned", r.Audit.Said)
	p.tallies("after reconciliation", r.Audit.Last)
	p.line("\nlatency of a call, all its attempts and waits together")
	for _, q := range []float64{0.50, 0.90, 0.99, 0.999} {
		p.line("  %5.1f %%                   %9s", 100*q, rounded(r.Latency.Quantile(q)))
	}
	p.line("  longest                   %9s", rounded(r.Latency.Max()))
	p.line("\nheap                        %9s at the start, %s at the end", mib(int64(r.Before.Heap)), mib(int64(r.After.Heap)))
	p.line("goroutines                  %9d at the start, %d at the end", r.Before.Goroutines, r.After.Goroutines)
	r.printTroubles(p)
}

// printTroubles says what is needed to look into what went wrong.
func (r *Report) printTroubles(p printer) {
	for _, e := range r.Audit.Examples {
		p.line("! %s", e)
	}
	if r.Leaked > 0 {
		p.line("\nthe goroutines that are left:\n%s", r.Stacks)
	}
}

func rounded(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

type printer struct{ w io.Writer }

func (p printer) line(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	_, _ = fmt.Fprintln(p.w, strings.TrimRight(text, " "))
}

func (p printer) counts(title string, by map[string]int) {
	p.line("\n%s", title)
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		p.line("  %-52s %7d", kind, by[kind])
	}
}

func (p printer) tallies(title string, tallies [4]Tally) {
	p.line("  %s", title)
	for _, o := range []outbound.Outcome{
		outbound.OutcomeSucceeded, outbound.OutcomeRejected, outbound.OutcomeNotSent, outbound.OutcomeUnknown,
	} {
		t := tallies[o]
		p.line("    %-20s %11d %10d %9d %9d", o, t.Claimed, t.Never, t.Once, t.More)
	}
}
