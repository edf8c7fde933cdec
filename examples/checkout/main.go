// Command checkout charges the same orders twice over: once with a hand-written HTTP client that retries as many
// tutorials show it, once with outbound. Both talk to a payment gateway on this machine that loses requests and replies
// at random, and the gateway's ledger tells afterwards who was charged, and how often.
//
//	go run ./examples/checkout
//	go run ./examples/checkout -n 1000 -seed 7
//
// Exit status 1 says that outbound failed: it charged an order twice, claimed what the ledger denies, or left a payment
// unresolved; or that the demo could not run. Exit status 2 says that the flags are wrong.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/outbound-go/outbound/outboundtest"
)

// Both clients get the same patience. It suits a gateway on this machine that needs a few milliseconds; over a real
// network all of these would be longer.
const (
	tries          = 4
	attemptTimeout = 250 * time.Millisecond
	firstBackoff   = 10 * time.Millisecond
	workTime       = 3 * time.Millisecond // how long the gateway takes to charge
	workers        = 16                   // payments under way at once
)

// maxPayments keeps a slip of the finger from running for an hour.
const maxPayments = 10_000

func main() {
	out := display{w: os.Stdout, live: isTerminal(os.Stdout)}
	os.Exit(run(os.Args[1:], out, os.Stderr))
}

type options struct {
	payments int
	seed     uint64
}

func run(args []string, out display, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	// A gateway each, with the same seed: the same faults in the same order, and two ledgers that cannot be mixed up.
	forNaive, err := outboundtest.Start(gatewayConfig(o.seed))
	if err != nil {
		return failed(stderr, err)
	}
	defer forNaive.Close()
	forCareful, err := outboundtest.Start(gatewayConfig(o.seed))
	if err != nil {
		return failed(stderr, err)
	}
	defer forCareful.Close()
	introduce(out.w, o, outboundtest.DefaultMix(o.seed))
	sum, err := demo(o.payments, forNaive, forCareful, out)
	if err != nil {
		return failed(stderr, err)
	}
	return sum.report(out.w)
}

// parse reads the flags. What is wrong with them it has told when it returns an error.
func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("checkout", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.payments, "n", 300, "how many payments to make with each client")
	flags.Uint64Var(&o.seed, "seed", 1, "the seed that the gateway's faults are drawn from")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q; there are only flags: -n and -seed", flags.Arg(0))
	case o.payments < 1 || o.payments > maxPayments:
		err = fmt.Errorf("-n is %d; it must be between 1 and %d", o.payments, maxPayments)
	}
	if err != nil {
		failed(stderr, err)
	}
	return o, err
}

func failed(stderr io.Writer, err error) int {
	_, _ = fmt.Fprintln(stderr, "checkout:", err)
	return 1
}

// gatewayConfig is a gateway on a bad day. DefaultMix has no fault that answers 4xx after the work was done. Such an answer
// to a first attempt would be a lie that no client can see through: outbound.OutcomeRejected trusts whoever answered. Its
// 502 after the work is no such lie: a 5xx proves nothing, and both clients know that.
func gatewayConfig(seed uint64) outboundtest.Config {
	return outboundtest.Config{Work: workTime, Mix: outboundtest.DefaultMix(seed)}
}

// gateway is what the demo asks of an *outboundtest.Gateway.
type gateway interface {
	PaymentsURL() string
	Payments() []outboundtest.Payment
	Requests() []outboundtest.Request
}

// demo makes the same payments with both clients, one after the other, and compares what they said with the ledgers.
func demo(n int, forNaive, forCareful gateway, out display) (summary, error) {
	orders := newOrders(n)
	hand := playNaive(orders, forNaive, out)
	ours, err := playCareful(orders, forCareful, out)
	if err != nil {
		return summary{}, err
	}
	return summary{hand: hand, ours: ours}, nil
}

func playNaive(orders []order, gw gateway, out display) column {
	client := newNaive(gw.PaymentsURL())
	said := make([]claim, len(orders))
	bar := out.progress("hand-written", len(orders))
	eachOf(len(orders), func(i int) {
		said[i] = claimSuccess
		if err := client.pay(orders[i]); err != nil {
			said[i] = claimError
		}
		bar.step()
	})
	took := bar.elapsed()
	settle()
	// It has nothing to reconcile with: each try had a key of its own, and none was kept.
	col := audit(orders, gw, said, said)
	col.took = took
	return col
}

func playCareful(orders []order, gw gateway, out display) (column, error) {
	client, err := newCareful(gw.PaymentsURL())
	if err != nil {
		return column{}, err
	}
	said := make([]claim, len(orders))
	bar := out.progress("outbound", len(orders))
	eachOf(len(orders), func(i int) {
		said[i] = claimOf(client.pay(orders[i]))
		bar.step()
	})
	took := bar.elapsed()
	settle()
	chargedUnknown := countCharged(orders, gw, said, claimUnknown)
	atLast, more := reconcileAll(client, orders, said, out)
	settle()
	col := audit(orders, gw, said, atLast)
	col.took, col.chargedUnknown = took+more, chargedUnknown
	return col, nil
}

// settle lets the gateway finish what it still works at for clients that have hung up: the ledger is read afterwards.
func settle() { time.Sleep(50 * workTime) }
