package soak

import (
	"fmt"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/outboundtest"
)

// Claim is what was said of one order.
type Claim struct {
	Order string
	Key   string
	Said  outbound.Outcome // when its call returned
	Last  outbound.Outcome // after reconciliation
}

// Tally is how often something was claimed, and how often those orders were charged.
type Tally struct{ Claimed, Never, Once, More int }

func (t *Tally) add(charges int) {
	t.Claimed++
	switch charges {
	case 0:
		t.Never++
	case 1:
		t.Once++
	default:
		t.More++
	}
}

func (t *Tally) merge(o Tally) {
	t.Claimed += o.Claimed
	t.Never += o.Never
	t.Once += o.Once
	t.More += o.More
}

// Audit is what became of the claims when the ledger was read, after all was quiet.
type Audit struct {
	Said, Last [4]Tally // by outcome

	DoubleCharged int // orders charged more than once
	FalseClaims   int // orders of which something was claimed, at first or at last, that the ledger denies
	Lost          int // orders that nobody knows the end of
	Strays        int // charges of an order that nobody made, or under a key that is not the order's

	Examples []string // of what is wrong, a few
}

// maxExamples keeps a soak that goes wrong all the way from writing a book about it.
const maxExamples = 10

// Check compares claims with a ledger. Both claims of an order are judged by the ledger as it is in the end: a claim has
// to stay true.
func Check(claims []Claim, ledger []outboundtest.Payment) Audit {
	var a Audit
	charges := map[string]int{}
	for _, p := range ledger {
		charges[p.Order]++
	}
	for _, c := range claims {
		a.judge(c, charges[c.Order])
	}
	a.findStrays(claims, ledger)
	return a
}

func (a *Audit) judge(c Claim, charges int) {
	a.Said[c.Said].add(charges)
	a.Last[c.Last].add(charges)
	if charges > 1 {
		a.DoubleCharged++
		a.note(c, charges, "charged more than once")
	}
	if denied(c.Said, charges) || denied(c.Last, charges) {
		a.FalseClaims++
		a.note(c, charges, "the claim is false")
	}
	if c.Last == outbound.OutcomeUnknown {
		a.Lost++
		a.note(c, charges, "lost: nobody knows its end")
	}
}

// denied reports whether the ledger contradicts a claim. Unknown claims nothing, so it can't be false.
func denied(o outbound.Outcome, charges int) bool {
	switch o {
	case outbound.OutcomeSucceeded:
		return charges == 0
	case outbound.OutcomeRejected, outbound.OutcomeNotSent:
		return charges > 0
	}
	return false
}

func (a *Audit) findStrays(claims []Claim, ledger []outboundtest.Payment) {
	keys := make(map[string]string, len(claims))
	for _, c := range claims {
		keys[c.Order] = c.Key
	}
	for _, p := range ledger {
		if key, known := keys[p.Order]; known && key == p.Key {
			continue
		}
		a.Strays++
		a.example(fmt.Sprintf("order %q was charged under the key %q, which is not its own", p.Order, p.Key))
	}
}

func (a *Audit) note(c Claim, charges int, what string) {
	a.example(fmt.Sprintf("order %s, key %s: %s (said %q at first and %q in the end, %d charges)",
		c.Order, c.Key, what, c.Said, c.Last, charges))
}

func (a *Audit) example(text string) {
	if len(a.Examples) < maxExamples {
		a.Examples = append(a.Examples, text)
	}
}

// Payments is how many orders were judged.
func (a Audit) Payments() (n int) {
	for _, t := range a.Last {
		n += t.Claimed
	}
	return n
}

// Good reports whether every promise was kept.
func (a Audit) Good() bool { return a.DoubleCharged+a.FalseClaims+a.Lost+a.Strays == 0 }

func (a *Audit) merge(o Audit) {
	for i := range a.Said {
		a.Said[i].merge(o.Said[i])
		a.Last[i].merge(o.Last[i])
	}
	a.DoubleCharged += o.DoubleCharged
	a.FalseClaims += o.FalseClaims
	a.Lost += o.Lost
	a.Strays += o.Strays
	for _, e := range o.Examples {
		a.example(e)
	}
}
