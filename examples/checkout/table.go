package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/outbound-go/outbound/outboundtest"
)

// summary is what both clients have to show for themselves.
type summary struct{ hand, ours column }

func introduce(w io.Writer, o options, mix outboundtest.Mix) {
	faults := 0.0
	for _, r := range mix.Rates {
		faults += r.Rate
	}
	say(w, "%s, %d at a time, to a payment gateway on this machine that has a bad day (seed %d):\n",
		count(o.payments, "payment"), min(workers, o.payments), o.seed)
	say(w, "%.0f %% of its requests meet a fault, before or after the money has moved. Either client tries at most\n",
		100*faults)
	say(w, "%d times before it returns; outbound may reconcile afterwards.\n\n", tries)
}

// report prints the table and what follows from it, and returns the exit status.
func (s summary) report(w io.Writer) int {
	s.table(w)
	footnotes(w)
	return s.conclude(w)
}

func (s summary) table(w io.Writer) {
	say(w, "\n")
	figure(w, "", "hand-written client", "outbound")
	figure(w, "payments asked for", s.hand.payments, s.ours.payments)
	figure(w, "time taken", seconds(s.hand.took), seconds(s.ours.took))
	figure(w, "HTTP requests on the wire", s.hand.requests, s.ours.requests)
	figure(w, "  of these look-ups", s.hand.lookUps, s.ours.lookUps)
	figure(w, "orders charged once", s.hand.once, s.ours.once)
	figure(w, "orders charged twice or more", s.hand.more, s.ours.more)
	figure(w, "orders never charged", s.hand.never, s.ours.never)

	const heads = "%8s%8s%8s"
	say(w, "\n%-31s"+heads+"     "+heads+"\n", "what the clients claimed",
		"claimed", "ledger", "false", "claimed", "ledger", "false")
	say(w, "%-31s%8s%8s%8s     %8s%8s\n", "", "", "agrees", "", "", "agrees")
	say(w, "when their calls returned\n")
	claims(w, s.hand.said, s.ours.said)
	row(w, "    of these charged by then", none, number(s.ours.chargedUnknown))
	say(w, "after reconciliation\n")
	claims(w, s.hand.atLast, s.ours.atLast)
}

// claims prints a row for each claim. A client that has no such word gets dashes.
func claims(w io.Writer, hand, ours map[claim]tally) {
	row(w, "  success / succeeded", cells(hand[claimSuccess]), cells(ours[claimSuccess]))
	row(w, "  error", cells(hand[claimError]), none)
	row(w, "  rejected", none, cells(ours[claimRejected]))
	row(w, "  not sent", none, cells(ours[claimNotSent]))
	row(w, "  unknown", none, number(ours[claimUnknown].claimed))
}

// figure prints a row with one value for each client, at the right edge of its three columns.
func figure(w io.Writer, name string, hand, ours any) {
	row(w, name, fmt.Sprintf("%24v", hand), fmt.Sprintf("%24v", ours))
}

// row prints a row of what is 24 characters wide for each client.
func row(w io.Writer, name, hand, ours string) { say(w, "%-31s%s     %s\n", name, hand, ours) }

// none fills a client's three columns with dashes.
var none = fmt.Sprintf("%8s%8s%8s", "-", "-", "-")

// number fills them with a number that the ledger can neither confirm nor deny.
func number(n int) string { return fmt.Sprintf("%8d%8s%8s", n, "-", "-") }

func cells(t tally) string { return fmt.Sprintf("%8d%8d%8d", t.claimed, t.agreed, t.denied()) }

func footnotes(w io.Writer) {
	say(w, `
- "Success" is false if the order was never charged; "error", "rejected" and "not sent" if it was.
- "Unknown" claims nothing: outbound keeps the key and asks the gateway later. Failed for certain
  (rejected, not sent) means that the customer can safely pay again, as a new order.
- Where the gateway says when to come back (Retry-After: 1), outbound waits, and takes longer.
- No fault here answers 4xx after the work was done: no client can see through that.
- The seed fixes the faults and their order. Which payment meets which is up to timing, so that
  the figures vary a little.
`)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
