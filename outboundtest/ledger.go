package outboundtest

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Request is the gateway's record of one request.
type Request struct {
	// Conn is the number of its connection, from 1.
	Conn int
	// Method, Path and Header are those of the request. They are empty if its
	// headers were never read, or could not be.
	Method, Path string
	Header       http.Header
	// Keys are all the values of the key header, as they came; nil if there
	// were none.
	Keys []string
	// Order is what the body gave; empty if it gave none or was never read.
	Order string
	// Fault is what the request met; the zero Fault if nothing.
	Fault Fault
	// Charged tells that this request charged.
	Charged bool
	// Status is that of the reply whose headers were given to the connection
	// whole, whether or not they arrived, or 0 if there is none.
	Status int
}

// ledger is what the gateway remembers, over restarts as well.
type ledger struct {
	dialect *dialect

	mu       sync.Mutex
	keys     map[string]*entry
	payments []Payment
	requests []*Request
	accepted int
	open     int
}

func newLedger(d *dialect) *ledger { return &ledger{dialect: d, keys: map[string]*entry{}} }

// connOpened counts a connection and returns its number.
func (l *ledger) connOpened() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted++
	l.open++
	return l.accepted
}

func (l *ledger) connClosed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
}

// seen begins the record of a request.
func (l *ledger) seen(conn int, f Fault) *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &Request{Conn: conn, Fault: f}
	l.requests = append(l.requests, r)
	return r
}

func (l *ledger) headRead(r *Request, req *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Method, r.Path = req.Method, req.URL.Path
	r.Header = req.Header.Clone()
	r.Keys = slices.Clone(req.Header.Values(l.dialect.keys.header))
}

func (l *ledger) bodyRead(r *Request, order string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Order = order
}

func (l *ledger) answered(r *Request, status int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Status = status
}

// finish charges, unless the work failed, and settles the key.
func (l *ledger) finish(op *operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	op.reply = l.outcome(op)
	if op.entry != nil {
		l.settle(op.entry)
	}
}

// outcome does the work and returns its reply. The lock is held.
func (l *ledger) outcome(op *operation) reply {
	if op.fail {
		return l.dialect.answer(failed, op.payment)
	}
	op.payment.ID = fmt.Sprintf("pay_%d", len(l.payments)+1)
	op.payment.Time = time.Now()
	l.payments = append(l.payments, op.payment)
	op.record.Charged = true
	return l.dialect.answer(charged, op.payment)
}
