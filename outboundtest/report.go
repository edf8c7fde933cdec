package outboundtest

import (
	"net/http"
	"slices"
)

// Payments returns every charge, in order. It is never nil.
func (g *Gateway) Payments() []Payment {
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	return append([]Payment{}, g.ledger.payments...)
}

// Charges returns how often the key was charged.
func (g *Gateway) Charges(key string) int {
	return g.count(func(p Payment) bool { return p.Key == key })
}

// ChargesByOrder returns how often the order was charged.
func (g *Gateway) ChargesByOrder(order string) int {
	return g.count(func(p Payment) bool { return p.Order == order })
}

func (g *Gateway) count(fits func(Payment) bool) (n int) {
	for _, p := range g.Payments() {
		if fits(p) {
			n++
		}
	}
	return n
}

// DoubleCharged returns what was charged more than once, sorted: the order, or
// the key of payments without an order. An order counts as charged twice even
// if each charge had a key of its own. Payments with neither cannot be told
// apart and are left out. It is empty, never nil, if all is well.
func (g *Gateway) DoubleCharged() []string {
	orders, keys := map[string]int{}, map[string]int{}
	for _, p := range g.Payments() {
		if p.Order != "" {
			orders[p.Order]++
		} else if p.Key != "" {
			keys[p.Key]++
		}
	}
	names := append(twice(orders), twice(keys)...)
	slices.Sort(names)
	return names
}

// twice returns the names that count more than once.
func twice(counts map[string]int) []string {
	names := []string{}
	for name, n := range counts {
		if n > 1 {
			names = append(names, name)
		}
	}
	return names
}

// Requests returns the record of every request, in order of arrival: those
// whose first byte arrived, and the connections that a fault ended on accept.
// A record is up to date when its client has read the reply or seen the
// connection end; with DuringWork, Charged follows when the work is done.
func (g *Gateway) Requests() []Request {
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	rs := make([]Request, 0, len(g.ledger.requests))
	for _, r := range g.ledger.requests {
		rs = append(rs, r.copied())
	}
	return rs
}

func (r Request) copied() Request {
	r.Header = r.Header.Clone()
	r.Keys = slices.Clone(r.Keys)
	r.Fault = r.Fault.copied()
	return r
}

// Attempts returns how many writes there were, as far as the gateway can know:
// POSTs, and requests that never got so far as to tell their method.
func (g *Gateway) Attempts() (n int) {
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	for _, r := range g.ledger.requests {
		if r.Method == http.MethodPost || r.Method == "" {
			n++
		}
	}
	return n
}

// ConnsAccepted returns how many connections there were, used or not.
func (g *Gateway) ConnsAccepted() int {
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	return g.ledger.accepted
}

// ConnsOpen returns how many connections are open.
func (g *Gateway) ConnsOpen() int {
	g.ledger.mu.Lock()
	defer g.ledger.mu.Unlock()
	return g.ledger.open
}
