package outboundtest

import (
	"net/http"
	"time"
)

// Payment is one charge.
type Payment struct {
	// ID is "pay_" and the payment's number, from 1.
	ID string `json:"id"`
	// Amount is in the smallest unit of the currency; 0 if none was given, or
	// one that is no whole number.
	Amount int64 `json:"amount"`
	// Currency is as given, or empty.
	Currency string `json:"currency"`
	// Order is the client's name for what is paid, or empty.
	Order string `json:"order"`
	// Status is "succeeded".
	Status string `json:"status"`
	// Key is the idempotency key, without quotes, the first if there were
	// several; empty if there was none, which takes a gateway that ignores
	// keys or a dialect that does not insist on them.
	Key string `json:"-"`
	// Time is when it was charged.
	Time time.Time `json:"-"`
}

// route serves a request that is read: it does or begins what is asked.
func (g *Gateway) route(x *exchange) *operation {
	get, post := x.req.Method == http.MethodGet, x.req.Method == http.MethodPost
	switch path := x.req.URL.Path; {
	case path == "/healthz" && get:
		return finished(jsonReply(http.StatusOK, map[string]string{"status": "ok"}))
	case !g.dialect.charges(path):
		return finished(errorReply(http.StatusNotFound, "no such page"))
	case get:
		return finished(g.lookup(x.req))
	case post:
		return g.charge(x)
	}
	return finished(errorReply(http.StatusMethodNotAllowed, "only GET and POST"))
}

// charge begins the work that a POST asks for, unless it is refused or done.
func (g *Gateway) charge(x *exchange) *operation {
	d, payment := g.dialect, x.payment
	if x.invalid != nil {
		return finished(d.answer(badBody, payment))
	}
	key, wrong := d.keys.read(x.req.Header)
	payment.Key = key
	if wrong != 0 {
		return finished(d.answer(wrong, payment))
	}
	op := newOperation(payment, x.record, x.fault.FailWork)
	if key == "" || d.keys.ignored {
		return g.works.begin(op)
	}
	if r, ok := g.ledger.claim(op, d.fingerprint(x.req, x.body), x.fault.BusyFor); !ok {
		return finished(r)
	}
	return g.works.begin(op)
}

// lookup finds the payment that a GET asks for, or lists them all.
func (g *Gateway) lookup(req *http.Request) reply {
	query := req.URL.Query()
	payments := g.Payments()
	if !query.Has("key") && !query.Has("order") {
		return jsonReply(http.StatusOK, payments)
	}
	for _, p := range payments {
		keyFits := !query.Has("key") || query.Get("key") == p.Key
		orderFits := !query.Has("order") || query.Get("order") == p.Order
		if keyFits && orderFits {
			return jsonReply(http.StatusOK, p)
		}
	}
	return errorReply(http.StatusNotFound, "no such payment")
}
