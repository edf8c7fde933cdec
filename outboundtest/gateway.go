package outboundtest

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// TB is what NewGateway needs of a test; *testing.T, *testing.B and
// *testing.F have it.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Gateway is a payment gateway that listens on loopback. It is made by
// NewGateway or Start. Every method is safe for concurrent use.
type Gateway struct {
	// URL is the address: "http://127.0.0.1:" and the port, with no slash at
	// the end. It stays the same over Stop and Restart. It must not be changed.
	URL string

	dialect *dialect
	addr    string
	plan    *plan
	ledger  *ledger
	works   *works

	life   sync.Mutex // held for the whole of Restart, Stop and Close
	server *server    // nil while stopped
	closed bool
}

// NewGateway starts a gateway and closes it when the test ends. A bad config
// ends the test.
func NewGateway(tb TB, cfg Config) *Gateway {
	tb.Helper()
	g, err := Start(cfg)
	if err != nil {
		tb.Fatalf("%v", err)
		return nil
	}
	tb.Cleanup(g.Close)
	return g
}

// Start starts a gateway. The caller must Close it. The error of a bad config
// names every mistake in it.
func Start(cfg Config) (*Gateway, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("outboundtest: bad config: %w", err)
	}
	d := cfg.dialect()
	g := &Gateway{
		dialect: d,
		addr:    "127.0.0.1:0",
		plan:    newPlan(cfg.Script, cfg.Mix),
		ledger:  newLedger(d),
	}
	g.works = newWorks(cfg.Work, g.ledger)
	if err := g.listen(); err != nil {
		return nil, err
	}
	g.URL = "http://" + g.addr
	return g, nil
}

// PaymentsURL returns the URL that payments are posted to and looked up at: the
// dialect's first, where it has several.
func (g *Gateway) PaymentsURL() string { return g.URL + g.dialect.path }

// Script appends faults to those still to come. They come before the faults
// of a Mix. If one of them is invalid, none is appended.
func (g *Gateway) Script(faults ...Fault) error {
	if err := Script(faults).validate(); err != nil {
		return fmt.Errorf("outboundtest: %w", err)
	}
	g.plan.add(faults)
	return nil
}

// Calm drops the faults still to come, those of the Mix as well: from here on
// everything works. Keys that a fault made busy stay so.
func (g *Gateway) Calm() { g.plan.clear() }

// Hold keeps all work that begins from now on from ending, until release is
// called: meanwhile a repeat finds its key in use. Release returns when the
// work it held is done and stored. It may be called more than once. Each Hold
// has its own release, which frees the work that began under it.
func (g *Gateway) Hold() (release func()) { return g.works.hold() }

// Stop takes the gateway off the network as a crash does: it stops listening,
// so that new dials are refused, and closes every connection. It returns when
// their goroutines have ended. Work that has begun goes on, and the ledger and
// the stored answers are kept. On a stopped gateway it does nothing.
func (g *Gateway) Stop() {
	g.life.Lock()
	defer g.life.Unlock()
	g.stop()
}

// Restart listens again on the address of before, with the ledger kept. It
// fails on a gateway that runs or is closed, or when another process has taken
// the port.
func (g *Gateway) Restart() error {
	g.life.Lock()
	defer g.life.Unlock()
	if g.closed {
		return fmt.Errorf("outboundtest: restart: %w", net.ErrClosed)
	}
	if g.server != nil {
		return errors.New("outboundtest: restart: the gateway is running")
	}
	return g.listen()
}

// Close stops the gateway for good and ends the work it is at, which is then
// not charged. It returns when every goroutine of the gateway has ended. The
// ledger can still be read. It may be called more than once.
func (g *Gateway) Close() {
	g.life.Lock()
	defer g.life.Unlock()
	g.stop()
	g.works.stop()
	g.closed = true
}

func (g *Gateway) listen() error {
	s, err := listen(g.addr, g.serve)
	if err != nil {
		return fmt.Errorf("outboundtest: %w", err)
	}
	g.server, g.addr = s, s.addr()
	return nil
}

func (g *Gateway) stop() {
	if g.server == nil {
		return
	}
	g.server.stop()
	g.server = nil
}
