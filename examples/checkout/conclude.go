package main

import (
	"fmt"
	"io"
	"strings"
)

// conclude says in words what the figures say, and returns the exit status.
func (s summary) conclude(w io.Writer) int {
	say(w, "\nThe hand-written client %s%s.\n", s.hand.verdict(), s.hand.luck())
	say(w, "With outbound, the shop %s%s.\n", s.ours.verdict(), s.ours.doubts())
	if s.ours.flawless() {
		return 0
	}
	say(w, "This is not what outbound promises: please report it, with the seed and -n.\n")
	return 1
}

// verdict is a column in words, without a subject: all that went wrong, or that nothing did.
func (c column) verdict() string {
	if c.flawless() {
		return "charged nobody twice, made no false claim, and left no payment unresolved"
	}
	var faults []string
	note := func(n int, format string) {
		if n > 0 {
			faults = append(faults, fmt.Sprintf(format, n))
		}
	}
	note(c.more, fmt.Sprintf("charged %%d of %s twice or more", count(c.payments, "order")))
	note(c.calledFailed(), "reported %d as failed that had been charged")
	note(c.calledPaid(), "reported %d as paid that had not been charged")
	note(c.unresolved(), "left %d unresolved")
	return strings.Join(faults, ",\nand ")
}

// luck is for a client that has no right to a clean slate.
func (c column) luck() string {
	if !c.flawless() {
		return ""
	}
	return ",\nthis time: it was lucky, and a larger -n or another -seed may show it"
}

// doubts says what was unknown on the way to an answer.
func (c column) doubts() string {
	n := c.said[claimUnknown].claimed
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(";\nit did not know of %d at first, said so, and asked", n)
}
