package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/outboundtest"
)

// oneRound makes payments through a plant of its own, reconciles what stayed unknown, and holds all claims against the
// ledger. The clients are the same in every round, the ledger is not: one that grew with a long soak would be all that the
// heap shows.
func (s *soak) oneRound(ctx context.Context, n int, length time.Duration) error {
	cfg := outboundtest.Config{Work: workTime, Mix: outboundtest.DefaultMix(s.random(n, 0).Uint64())}
	if s.cfg.tamper != nil {
		s.cfg.tamper(&cfg)
	}
	p, err := startPlant(cfg, s.cert, s.faults.one)
	if err != nil {
		return err
	}
	defer p.close()
	s.phase.Store("paying")
	payments, err := s.pay(ctx, p, n, length)
	if err != nil {
		return err
	}
	p.calm()
	s.phase.Store("reconciling")
	if err := s.reconcile(p, n, payments); err != nil {
		return err
	}
	s.closeConnections()
	s.phase.Store("reading the ledger")
	p.quiet()
	s.audit(p.gateway, payments)
	return nil
}

// pay makes payments for as long as the round is.
func (s *soak) pay(ctx context.Context, p *plant, n int, length time.Duration) ([]*payment, error) {
	for i, l := range s.lanes {
		l.board.set(p.routes(laneKinds[i]), s.random(n, 1+i), s.faults.one)
	}
	began := time.Now()
	s.roundAt.Store(began.UnixNano())
	defer func() {
		s.roundAt.Store(0)
		s.elapsed.Add(int64(time.Since(began)))
	}()
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	team := newTeam(cancel)
	team.goes(func() error { return chaos(ctx, p, s.random(n, 100), s.faults.one) })
	made := make([][]*payment, s.cfg.Concurrency)
	for w := range made {
		team.goes(func() (err error) {
			made[w], err = s.work(ctx, n, w)
			return err
		})
	}
	if err := team.wait(); err != nil {
		return nil, err
	}
	var payments []*payment
	for _, m := range made {
		payments = append(payments, m...)
	}
	return payments, nil
}

// afterRefusal is about how long a worker stays away after a payment that was not sent. Without that an open circuit, which
// answers at once, would get most of the payments.
const afterRefusal = 25 * time.Millisecond

// work makes one payment after the other until the context ends. The last one is not cut short by that.
func (s *soak) work(ctx context.Context, round, worker int) (made []*payment, err error) {
	rng := s.random(round, 1000+worker)
	for next := idleTimeout; pause(ctx, between(rng, 0, 2*next)); {
		p := &payment{
			order:  fmt.Sprintf("order-%d-%d-%d", round+1, worker+1, len(made)+1),
			amount: 100 + rng.IntN(100_000),
			lane:   rng.IntN(len(s.lanes)),
		}
		made = append(made, p)
		if err := s.payOne(p, rng); err != nil {
			return made, err
		}
		next = idleTimeout
		if p.said == outbound.OutcomeNotSent {
			next = afterRefusal
		}
	}
	return made, nil
}

func (s *soak) payOne(p *payment, rng *rand.Rand) error {
	l := s.lanes[p.lane]
	action, err := p.open(l.url)
	if err != nil {
		return err
	}
	ctx, cancel := s.patience(rng)
	defer cancel()
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	began := time.Now()
	report, err := p.send(ctx, l.client, l.url, action)
	if err != nil {
		return fmt.Errorf("%s over %s: %w", p.order, l.name, err)
	}
	s.report.Latency.Add(time.Since(began))
	p.said, p.last = report.Outcome, report.Outcome
	s.payments.Add(1)
	switch p.said {
	case outbound.OutcomeUnknown:
		s.unknown.Add(1)
		fallthrough
	case outbound.OutcomeNotSent:
		s.faults.one(p.said.String() + ": " + why(report))
	}
	return nil
}

// why is a few words on what ended a call without an answer that says all.
func why(r outbound.Report) string {
	for _, reason := range []error{
		outbound.ErrAttemptsExhausted, outbound.ErrBudgetExhausted, outbound.ErrCircuitOpen, outbound.ErrBulkheadFull,
		outbound.ErrTotalTimeout, outbound.ErrNotRetryable,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(r.Stopped, reason) {
			return reason.Error()
		}
	}
	return "another reason"
}

// patience is how long the caller of one payment waits: nearly always as long as the client does.
func (s *soak) patience(rng *rand.Rand) (context.Context, context.CancelFunc) {
	if rng.Float64() >= 0.03 {
		return context.WithCancel(context.Background())
	}
	s.faults.one("caller: gives up early")
	return context.WithTimeout(context.Background(), between(rng, 0, 25*time.Millisecond))
}

// reconcilers is how many payments are reconciled at once.
const reconcilers = 16

// reconcile resolves what stayed unknown, with clients that know nothing of the first calls, straight to the servers.
// Requests that the fault proxies still hold back may arrive meanwhile, or later.
func (s *soak) reconcile(p *plant, n int, payments []*payment) error {
	lanes, err := s.newLanes(outbound.Hooks{})
	if err != nil {
		return err
	}
	for i, l := range lanes {
		l.board.set(p.calmRoutes(laneKinds[i]), s.random(n, 200+i), nil)
		defer l.transport.CloseIdleConnections()
	}
	var unknown []*payment
	for _, p := range payments {
		if p.said == outbound.OutcomeUnknown {
			unknown = append(unknown, p)
		}
	}
	return eachOf(reconcilers, unknown, func(p *payment) (err error) {
		l := lanes[p.lane]
		p.last, err = p.reconcile(context.Background(), l.client, l.url)
		return err
	})
}

func (s *soak) audit(gw *outboundtest.Gateway, payments []*payment) {
	claims := make([]Claim, len(payments))
	for i, p := range payments {
		claims[i] = p.claim()
		if p.said == outbound.OutcomeSucceeded {
			s.report.Lanes[s.lanes[p.lane].name]++
		}
	}
	ledger := gw.Payments()
	s.report.Charges += len(ledger)
	s.report.Audit.merge(Check(claims, ledger))
	for _, r := range gw.Requests() {
		s.report.Requests++
		if r.Method == http.MethodGet {
			s.report.LookUps++
		}
		if f := r.Fault.String(); f != noFault {
			s.faults.one("gateway: " + f)
		}
	}
}

var noFault = outboundtest.OK.String()

// team is goroutines that work together: the first that fails ends the work of all.
type team struct {
	wg     sync.WaitGroup
	once   sync.Once
	err    error
	giveUp func()
}

func newTeam(giveUp func()) *team { return &team{giveUp: giveUp} }

func (t *team) goes(do func() error) {
	t.wg.Go(func() {
		if err := do(); err != nil {
			t.once.Do(func() {
				t.err = err
				t.giveUp()
			})
		}
	})
}

// wait returns the first error when all are done.
func (t *team) wait() error {
	t.wg.Wait()
	return t.err
}

// eachOf calls do with every item, a few at a time. After an error no more are begun.
func eachOf[T any](workers int, items []T, do func(T) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	next := make(chan T)
	t := newTeam(cancel)
	for range workers {
		t.goes(func() error {
			for item := range next {
				if err := do(item); err != nil {
					return err
				}
			}
			return nil
		})
	}
	t.goes(func() error {
		defer close(next)
		for _, item := range items {
			select {
			case next <- item:
			case <-ctx.Done():
				return nil
			}
		}
		return nil
	})
	return t.wait()
}
