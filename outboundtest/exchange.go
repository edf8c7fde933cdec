package outboundtest

import (
	"context"
	"errors"
	"net"
	"net/http"
)

// exchange is one request on a connection, and its fault.
type exchange struct {
	*conn
	gateway *Gateway
	fault   Fault
	record  *Request // guarded by the ledger
	req     *http.Request
	body    []byte
	payment Payment // what the body asks for, if it is valid
	invalid error   // why the body asks for no payment
}

// serve serves a connection to its end.
func (g *Gateway) serve(ctx context.Context, tcp *net.TCPConn) {
	c := newConn(ctx, tcp, g.ledger.connOpened())
	defer g.ledger.connClosed()
	if f, ok := g.plan.atAccept(); ok {
		g.newExchange(c, f).strike(reply{})
		return
	}
	for g.serveNext(c) {
	}
}

// serveNext serves the next request and tells whether there may be another.
func (g *Gateway) serveNext(c *conn) (again bool) {
	first, err := c.firstByte()
	if err != nil {
		return false
	}
	x := g.newExchange(c, g.faultFor(first))
	if x.fault.Point == BeforeAccept || x.fault.Point == BeforeRead {
		return x.strike(reply{})
	}
	if err := x.read(); err != nil {
		x.refuse(err)
		return false
	}
	return x.serve()
}

// faultFor takes the next fault for a write. The first byte tells a write:
// it is the P of POST, which neither GET nor HEAD has.
func (g *Gateway) faultFor(first byte) Fault {
	if first != 'P' {
		return OK
	}
	return g.plan.next()
}

func (g *Gateway) newExchange(c *conn, f Fault) *exchange {
	return &exchange{conn: c, gateway: g, fault: f, record: g.ledger.seen(c.number, f)}
}

func (x *exchange) read() (err error) {
	if x.req, err = x.readHead(); err != nil {
		return err
	}
	x.gateway.ledger.headRead(x.record, x.req)
	if x.body, err = x.readBody(x.req); err != nil {
		return err
	}
	x.payment, x.invalid = x.gateway.dialect.read(x.body)
	x.gateway.ledger.bodyRead(x.record, x.payment.Order)
	return nil
}

// refuse answers a request that cannot be read, and closes. A connection that
// is broken gets no answer.
func (x *exchange) refuse(err error) {
	var r *refusal
	if !errors.As(err, &r) {
		return
	}
	head, body := errorReply(r.status, r.reason).render(x.req, true)
	x.gateway.ledger.answered(x.record, r.status)
	_, _ = x.Write(append(head, body...))
	x.end(FIN)
}

// serve brings a request that is read to its point.
func (x *exchange) serve() (again bool) {
	if x.fault.Point == BeforeWork {
		return x.strike(reply{})
	}
	op := x.gateway.route(x)
	if x.fault.Point == DuringWork {
		return x.strike(reply{})
	}
	select {
	case <-op.done:
		return x.strike(op.reply)
	case <-x.ctx.Done():
		return false
	}
}

// strike is the point: the fault does what it does to the reply.
func (x *exchange) strike(r reply) (again bool) {
	if !wait(x.ctx, x.fault.Delay) {
		return false
	}
	switch {
	case x.fault.answers():
		return x.send(x.faultReply())
	case x.fault.Point == None:
		return x.send(r)
	case x.fault.Point == InHeaders:
		head, _ := r.render(x.req, false)
		_, _ = x.Write(half(head))
	case x.fault.Point == InBody:
		head, body := r.render(x.req, false)
		x.gateway.ledger.answered(x.record, r.status)
		_, _ = x.Write(append(head, half(body)...))
	}
	x.end(x.fault.End)
	return false
}

// send writes the whole reply. The ledger hears of it first, so that who has
// read the reply finds it there.
func (x *exchange) send(r reply) (again bool) {
	last := x.req.Close || !x.req.ProtoAtLeast(1, 1)
	head, body := r.render(x.req, last)
	x.gateway.ledger.answered(x.record, r.status)
	_, err := x.Write(append(head, body...))
	return err == nil && !last
}

// faultReply is the answer that the fault gives in place of the server's.
func (x *exchange) faultReply() reply {
	f := x.fault
	if f.word != 0 {
		return x.gateway.dialect.answer(f.word, x.payment)
	}
	return reply{status: f.Status, header: f.Header, body: []byte(f.Body)}
}
