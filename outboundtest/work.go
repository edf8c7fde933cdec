package outboundtest

import (
	"context"
	"sync"
	"time"
)

// operation is the work of one POST.
type operation struct {
	payment Payment  // guarded by the ledger once the work has begun
	record  *Request // guarded by the ledger
	entry   *entry   // of its key; nil if it has none that counts
	fail    bool
	gate    *gate         // must open before the work ends; nil if none
	reply   reply         // to be read when done is closed
	done    chan struct{} // closed when the work has ended
}

func newOperation(p Payment, record *Request, fail bool) *operation {
	return &operation{payment: p, record: record, fail: fail, done: make(chan struct{})}
}

// finished is an operation with nothing to do.
func finished(r reply) *operation {
	op := &operation{reply: r, done: make(chan struct{})}
	close(op.done)
	return op
}

// gate holds work back until it is open.
type gate struct {
	open chan struct{}
	held []*operation // guarded by works.mu
}

// works runs the operations.
type works struct {
	ledger *ledger
	length time.Duration
	ctx    context.Context // ends when the gateway closes
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu   sync.Mutex
	gate *gate // nil if none
}

func newWorks(length time.Duration, l *ledger) *works {
	ctx, cancel := context.WithCancel(context.Background())
	return &works{ledger: l, length: length, ctx: ctx, cancel: cancel}
}

// begin starts the operation and returns it. It is not bound to a connection.
func (w *works) begin(op *operation) *operation {
	w.enter(op)
	if op.gate == nil && w.length == 0 {
		w.run(op)
		return op
	}
	w.wg.Go(func() { w.run(op) })
	return op
}

// enter puts the operation before the gate, if there is one.
func (w *works) enter(op *operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate == nil {
		return
	}
	op.gate = w.gate
	w.gate.held = append(w.gate.held, op)
}

// run does the work. If the gateway closes meanwhile, it is not done.
func (w *works) run(op *operation) {
	defer close(op.done)
	if !wait(w.ctx, w.length) || !op.gate.pass(w.ctx) {
		return
	}
	w.ledger.finish(op)
}

// pass waits for the gate and tells whether it opened before the context ended.
func (g *gate) pass(ctx context.Context) bool {
	if g == nil {
		return true
	}
	select {
	case <-g.open:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *works) hold() (release func()) {
	g := &gate{open: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gate = g
	return sync.OnceFunc(func() { w.release(g) })
}

func (w *works) release(g *gate) {
	for _, op := range w.unlock(g) {
		<-op.done
	}
}

// unlock opens the gate and returns the work it held.
func (w *works) unlock(g *gate) []*operation {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate == g {
		w.gate = nil
	}
	close(g.open)
	return g.held
}

// stop ends all work and returns when it has ended.
func (w *works) stop() {
	w.cancel()
	w.wg.Wait()
}
