package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/outbound-go/outbound"
)

// ending is how one prompt ended: what the SDK returned, what outbound says of it, and what the API's ledger says.
type ending struct {
	prompt string
	answer string // as much of it as came
	err    error
	report outbound.Report
	ledger entry
}

// whole reports whether the answer came to its end.
func (e ending) whole() bool { return e.err == nil && e.answer == answerTo(e.prompt) }

// truthful reports whether the outcome is what the ledger says. "Unknown" claims nothing, so it cannot be false.
func (e ending) truthful() bool {
	switch e.report.Outcome {
	case outbound.OutcomeSucceeded:
		return e.ledger.billed > 0 && e.whole()
	case outbound.OutcomeRejected, outbound.OutcomeNotSent:
		return e.ledger.billed == 0
	}
	return true
}

// ended reports whether it ended with this outcome, after so many attempts, and billed so often.
func (e ending) ended(outcome outbound.Outcome, attempts, billed int) bool {
	return e.report.Outcome == outcome && len(e.report.Attempts) == attempts && e.ledger.billed == billed
}

// bargain is what there is to show for what was billed.
func (e ending) bargain() string {
	have := "no answer"
	if e.whole() {
		have = "the answer"
	}
	return have + ", paid for " + times(e.ledger.billed)
}

// findings are what the demo saw.
type findings struct {
	streamed, stalled ending
	batch             []ending
	peak              int // the most requests of the batch that the API had at once
	lost, repeated    ending
}

// claim is something that the demo says of outbound, and whether it is so.
type claim struct {
	text  string
	holds bool
}

func (f findings) claims() []claim {
	byDefault := append([]ending{f.streamed, f.stalled, f.lost}, f.batch...)
	all := append(slices.Clone(byDefault), f.repeated)
	billed := 0
	for _, e := range byDefault {
		billed += e.ledger.billed
	}
	return []claim{
		{fmt.Sprintf("at most %d prompts of the batch were in flight: the most that it had at once was %d", inFlight, f.peak),
			f.peak <= inFlight},
		{fmt.Sprintf("by default none was billed twice: of %d prompts it billed %d", len(byDefault), billed),
			every(byDefault, func(e ending) bool { return e.ledger.billed <= 1 })},
		{"each success was billed, and its answer is whole; what was rejected or not sent was not billed",
			every(all, ending.truthful)},
		{"each attempt was one request, and none came sooner than a 429 had asked",
			every(all, func(e ending) bool { return e.ledger.requests == len(e.report.Attempts) && e.ledger.early == 0 })},
		{"the stream that went silent was cut, and was neither called a success nor asked for again",
			f.stalled.ended(outbound.OutcomeUnknown, 1, 1) && errors.Is(f.stalled.err, outbound.ErrIdleTimeout)},
		{"after a lost reply nothing was asked again by default; with AllowDuplicates it was, and was billed twice",
			f.lost.ended(outbound.OutcomeUnknown, 1, 1) && f.repeated.ended(outbound.OutcomeSucceeded, 2, 2)},
	}
}

func every(all []ending, is func(ending) bool) bool {
	return !slices.ContainsFunc(all, func(e ending) bool { return !is(e) })
}

// conclude holds the claims against the ledger, and returns the exit status.
func (f findings) conclude(w io.Writer) int {
	status := 0
	say(w, "\nWhat the API's ledger says of it:\n")
	for _, c := range f.claims() {
		mark := "true"
		if !c.holds {
			mark, status = "FALSE", 1
		}
		say(w, "  %-6s %s\n", mark, c.text)
	}
	if status != 0 {
		say(w, "This is not what outbound promises: please report it.\n")
	}
	return status
}
