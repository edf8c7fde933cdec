package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/outboundtest"
)

// KillConfig says how often to kill the paying process.
type KillConfig struct {
	Kills int
	Seed  uint64         // of the gateway's faults and of the moments
	Watch func(kill int) // told after each kill; nil: nobody
}

// KillReport is what the kills have shown.
type KillReport struct {
	Kills      int
	HitPaying  int // kills that found payments under way: stored, and not known to be paid
	UnderWay   int // how many payments those were
	Orders     int
	Resumed    int // orders that were paid by a later process than the one that stored them
	Charges    int
	Requests   int
	Replays    int // requests that were told of a charge made before
	Audit      Audit
	NotOnce    int // orders that were not charged exactly once
	Took       time.Duration
	LeftBehind int // goroutines
	Stopped    bool
}

// Kills lets a process make payments with stored actions, kills it at random moments, and lets another one go on from what
// is stored. In the end each order that was ever stored must have been charged exactly once, by the ledger of the gateway,
// which lives in this process; and nothing must have been charged that was not stored before.
func Kills(ctx context.Context, cfg KillConfig) (*KillReport, error) {
	if cfg.Kills < 1 {
		return nil, fmt.Errorf("there are %d kills to make; there must be at least 1", cfg.Kills)
	}
	before := measure()
	began := time.Now()
	r, err := killAll(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r.Took = time.Since(began)
	r.LeftBehind, _ = goroutinesGone(before.Goroutines, 5*time.Second)
	return r, nil
}

func killAll(ctx context.Context, cfg KillConfig) (*KillReport, error) {
	gw, err := outboundtest.Start(outboundtest.Config{Work: workTime, Mix: payableMix(cfg.Seed)})
	if err != nil {
		return nil, err
	}
	defer gw.Close()
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	k := &killer{
		gateway: gw,
		shop:    shopConfig{URL: gw.PaymentsURL(), Journal: filepath.Join(dir, "journal")},
		rng:     rand.New(rand.NewPCG(cfg.Seed, 1)),
		report:  &KillReport{},
	}
	if err := k.run(ctx, cfg); err != nil {
		return nil, err
	}
	return k.report, k.audit()
}

// payableMix is a bad day on which every order can be paid in the end: no work fails for good.
func payableMix(seed uint64) outboundtest.Mix {
	mix := outboundtest.DefaultMix(seed)
	mix.Rates = slices.DeleteFunc(mix.Rates, func(r outboundtest.FaultRate) bool { return r.Fault.FailWork })
	return mix
}

type killer struct {
	gateway *outboundtest.Gateway
	shop    shopConfig
	rng     *rand.Rand
	report  *KillReport
}

func (k *killer) run(ctx context.Context, cfg KillConfig) error {
	for k.report.Kills < cfg.Kills {
		if ctx.Err() != nil {
			k.report.Stopped = true
			break
		}
		if err := k.oneLife(); err != nil {
			return fmt.Errorf("life %d of the shop: %w", k.shop.Life, err)
		}
		k.report.Kills++
		if cfg.Watch != nil {
			cfg.Watch(k.report.Kills)
		}
	}
	k.gateway.Calm()
	return k.drain()
}

// oneLife starts the shop and kills it. Now and then it is killed before it has read its journal, and now and then it
// finds the gateway down when it opens.
func (k *killer) oneLife() error {
	gatewayDown := k.rng.IntN(10) == 0
	if gatewayDown {
		k.gateway.Stop()
	}
	c, err := k.start(false)
	if err != nil {
		return err
	}
	defer c.end()
	if k.rng.IntN(10) > 0 {
		if err := c.awaitOpening(); err != nil {
			return c.failed(err)
		}
	}
	time.Sleep(between(k.rng, 0, 70*time.Millisecond)) // the moment is random
	if gatewayDown {
		if err := restartGateway(k.gateway, 0); err != nil {
			return err
		}
		time.Sleep(between(k.rng, 0, 70*time.Millisecond))
	}
	if state := c.end(); state.ExitCode() != -1 {
		return fmt.Errorf("it ended before it was killed (%s): %s", state, c.stderr)
	}
	return k.lookAround()
}

// start starts one life of the shop.
func (k *killer) start(drain bool) (*child, error) {
	k.shop.Life++
	k.shop.Drain = drain
	c, err := startChild(roleShop)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(c.stdin).Encode(k.shop); err != nil {
		return nil, c.failed(fmt.Errorf("telling the shop what to do: %w", err))
	}
	return c, nil
}

// openingTime is how long a shop may take to start, on a machine that has a lot to do.
const openingTime = 30 * time.Second

func (c *child) awaitOpening() error {
	late := time.AfterFunc(openingTime, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	if _, err := bufio.NewReader(c.stdout).ReadString('\n'); err != nil {
		return fmt.Errorf("waiting for the shop to open: %w", err)
	}
	return nil
}

// lookAround counts what the kill left unfinished.
func (k *killer) lookAround() error {
	records, err := readJournal(k.shop.Journal)
	if errors.Is(err, os.ErrNotExist) { // killed before it had made one
		return nil
	}
	if err != nil {
		return err
	}
	underWay := 0
	for _, o := range read(records).unpaid {
		if o.Life == k.shop.Life {
			underWay++
		}
	}
	k.report.UnderWay += underWay
	if underWay > 0 {
		k.report.HitPaying++
	}
	return nil
}

// drain lets one last shop pay what is stored, and waits for it.
func (k *killer) drain() error {
	c, err := k.start(true)
	if err != nil {
		return err
	}
	late := time.AfterFunc(2*time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	_, _ = io.Copy(io.Discard, c.stdout) // until it ends
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("the last shop: %w: %s", err, c.stderr)
	}
	return nil
}

// audit holds what is stored against the ledger.
func (k *killer) audit() error {
	until(3*time.Second, func() bool { return k.gateway.ConnsOpen() == 0 })
	time.Sleep(50 * workTime) // work outlives its connection
	records, err := readJournal(k.shop.Journal)
	if err != nil {
		return err
	}
	h := read(records)
	claims := make([]Claim, len(h.orders))
	for i, o := range h.orders {
		claims[i] = Claim{Order: o.Order, Key: o.Action.Key}
		if _, paid := h.paid[o.Order]; paid {
			claims[i].Last = outbound.OutcomeSucceeded
		}
	}
	r, ledger := k.report, k.gateway.Payments()
	r.Orders, r.Resumed, r.Charges = len(h.orders), h.resumed, len(ledger)
	r.Audit = Check(claims, ledger)
	for _, t := range r.Audit.Last {
		r.NotOnce += t.Never + t.More
	}
	for _, req := range k.gateway.Requests() {
		r.Requests++
		if req.Status == 201 && !req.Charged {
			r.Replays++
		}
	}
	return nil
}

// Verdict is nil if each order was charged exactly once.
func (r *KillReport) Verdict() error {
	var errs []error
	check := func(broken bool, format string, args ...any) {
		if broken {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(r.NotOnce > 0, "%d orders were not charged exactly once", r.NotOnce)
	check(r.Audit.Lost > 0, "%d payments are lost: nobody knows their end", r.Audit.Lost)
	check(r.Audit.Strays > 0, "%d charges belong to no stored order", r.Audit.Strays)
	check(r.HitPaying == 0, "no kill found a payment under way, so nothing is proven")
	check(r.LeftBehind > 0, "%d goroutines are left", r.LeftBehind)
	return errors.Join(errs...)
}

// Print writes the report.
func (r *KillReport) Print(w io.Writer) {
	p := printer{w}
	p.line("kills                       %9d in %.1f s", r.Kills, r.Took.Seconds())
	if r.Stopped {
		p.line("stopped before all kills were made")
	}
	p.line("that found payments under way %7d (%d payments)", r.HitPaying, r.UnderWay)
	p.line("orders stored               %9d", r.Orders)
	p.line("paid by a later process     %9d", r.Resumed)
	p.line("requests at the gateway     %9d (%d were told of a charge made before)", r.Requests, r.Replays)
	p.line("charges                     %9d", r.Charges)
	p.line("orders not charged once     %9d", r.NotOnce)
	for _, e := range r.Audit.Examples {
		p.line("! %s", e)
	}
}
