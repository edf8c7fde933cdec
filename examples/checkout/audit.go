package main

import (
	"net/http"
	"time"

	"github.com/outbound-go/outbound"
)

// claim is what a client says of an order.
type claim string

const (
	claimSuccess  claim = "success"
	claimError    claim = "error" // the hand-written client's word for all that is no success
	claimRejected claim = "rejected"
	claimNotSent  claim = "not sent"
	claimUnknown  claim = "unknown" // claims nothing, so it cannot be false
)

func claimOf(o outbound.Outcome) claim {
	switch o {
	case outbound.OutcomeSucceeded:
		return claimSuccess
	case outbound.OutcomeRejected:
		return claimRejected
	case outbound.OutcomeNotSent:
		return claimNotSent
	}
	return claimUnknown
}

// tally counts how often something was claimed, and how often the ledger agrees.
type tally struct{ claimed, agreed int }

// denied is how often the ledger says otherwise. It means nothing for claimUnknown.
func (t tally) denied() int { return t.claimed - t.agreed }

// column is what there is to say of one client.
type column struct {
	payments          int
	took              time.Duration
	requests, lookUps int
	once, more, never int

	said           map[claim]tally // when its calls returned
	atLast         map[claim]tally // after reconciliation
	chargedUnknown int             // how many of the unknown were charged before reconciliation
}

// audit compares what a client said with the gateway's ledger. Both lists of claims are judged by the ledger as it is in
// the end: a claim has to stay true.
func audit(orders []order, gw gateway, said, atLast []claim) column {
	charges := chargesByOrder(gw)
	col := column{
		payments: len(orders),
		said:     compare(orders, said, charges),
		atLast:   compare(orders, atLast, charges),
	}
	for _, o := range orders {
		switch charges[o.ID] {
		case 0:
			col.never++
		case 1:
			col.once++
		default:
			col.more++
		}
	}
	for _, r := range gw.Requests() {
		col.requests++
		if r.Method == http.MethodGet {
			col.lookUps++
		}
	}
	return col
}

func chargesByOrder(gw gateway) map[string]int {
	charges := map[string]int{}
	for _, p := range gw.Payments() {
		charges[p.Order]++
	}
	return charges
}

// compare judges claims. "success" is true of an order that was charged, how often is counted elsewhere; "error",
// "rejected" and "not sent" are true of one that was not.
func compare(orders []order, claims []claim, charges map[string]int) map[claim]tally {
	tallies := map[claim]tally{}
	for i, o := range orders {
		t := tallies[claims[i]]
		t.claimed++
		saysCharged, isCharged := claims[i] == claimSuccess, charges[o.ID] > 0
		if saysCharged == isCharged {
			t.agreed++
		}
		tallies[claims[i]] = t
	}
	return tallies
}

// countCharged counts the orders of which c is claimed and that are charged by now.
func countCharged(orders []order, gw gateway, claims []claim, c claim) (n int) {
	charges := chargesByOrder(gw)
	for i, o := range orders {
		if claims[i] == c && charges[o.ID] > 0 {
			n++
		}
	}
	return n
}

// calledFailed counts the orders that are said to have failed and were charged. What was said in the end is enough to look
// at: a claim of the first hour is never taken back, only "unknown" becomes something else.
func (c column) calledFailed() (n int) {
	for _, said := range []claim{claimError, claimRejected, claimNotSent} {
		n += c.atLast[said].denied()
	}
	return n
}

// calledPaid counts the orders that are said to be paid and were not charged.
func (c column) calledPaid() int { return c.atLast[claimSuccess].denied() }

func (c column) unresolved() int { return c.atLast[claimUnknown].claimed }

// flawless reports whether the client did what outbound promises: nobody charged twice, nothing claimed that is not so, and
// in the end nothing unknown.
func (c column) flawless() bool {
	return c.more == 0 && c.calledFailed() == 0 && c.calledPaid() == 0 && c.unresolved() == 0
}
