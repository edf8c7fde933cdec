package soak

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/outboundtest"
)

// LoadConfig says how long and how hard to soak.
type LoadConfig struct {
	For         time.Duration // how long payments are made; reconciling and reading the ledger come on top
	Concurrency int           // payments under way at once
	Seed        uint64        // what faults are drawn from; which payment meets which is up to timing
	Round       time.Duration // how long one gateway is used before its ledger is read and dropped; 10 s if zero

	Watch func(Progress) // told how far it is, twice a second; nil: nobody

	tamper func(*outboundtest.Config) // makes a gateway that can't be paid safely, to see the audit fail
}

// Progress is how far a soak is.
type Progress struct {
	Elapsed, For  time.Duration // of the load
	Phase         string
	Round, Rounds int
	Payments      int // whose calls have returned
	InFlight      int
	Attempts      int
	Unknown       int // when their calls returned
	Goroutines    int
}

// validate returns what is wrong with the config.
func (c LoadConfig) validate() error {
	var errs []error
	if c.For <= 0 {
		errs = append(errs, fmt.Errorf("the load must go on for more than %v", c.For))
	}
	if c.Concurrency < 1 {
		errs = append(errs, fmt.Errorf("the concurrency is %d; it must be at least 1", c.Concurrency))
	}
	return errors.Join(errs...)
}

// soak is one run of Load.
type soak struct {
	cfg    LoadConfig
	cert   tls.Certificate
	roots  *x509.CertPool
	lanes  []*lane
	faults counts
	report *Report

	phase    atomic.Value // string
	elapsed  atomic.Int64 // of the load, in the rounds before this one
	roundAt  atomic.Int64 // when the load of this round began, in Unix nanoseconds; 0: there is none
	round    atomic.Int64
	rounds   int
	payments atomic.Int64
	inFlight atomic.Int64
	attempts atomic.Int64
	retries  atomic.Int64
	unknown  atomic.Int64
}

// Load makes payments on a bad network until the time is over or the context ends, and reports what became of them. An
// error says that the soak could not be made; what it found is in the report.
func Load(ctx context.Context, cfg LoadConfig) (*Report, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Round <= 0 {
		cfg.Round = 10 * time.Second
	}
	before := measure()
	s, err := newSoak(cfg)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	r := s.report
	r.Took = time.Since(began)
	r.Faults = s.faults.snapshot()
	r.Attempts, r.Retries = int(s.attempts.Load()), int(s.retries.Load())
	s.closeConnections()
	r.Leaked, r.Stacks = goroutinesGone(before.Goroutines, 5*time.Second)
	r.Before, r.After = before, measure()
	// The clients are still there when the heap is measured: what they hold on to is what is looked for.
	runtime.KeepAlive(s)
	return r, nil
}

func newSoak(cfg LoadConfig) (*soak, error) {
	cert, roots, err := newCert()
	if err != nil {
		return nil, err
	}
	s := &soak{cfg: cfg, cert: cert, roots: roots, report: &Report{Latency: &Histogram{}, Lanes: map[string]int{}}}
	s.rounds = int((cfg.For + cfg.Round - 1) / cfg.Round)
	s.phase.Store("starting")
	s.lanes, err = s.newLanes(s.hooks())
	return s, err
}

func (s *soak) newLanes(hooks outbound.Hooks) ([]*lane, error) {
	var lanes []*lane
	for _, kind := range laneKinds {
		l, err := newLane(kind, s.roots, hooks)
		if err != nil {
			return nil, err
		}
		lanes = append(lanes, l)
	}
	return lanes, nil
}

func (s *soak) hooks() outbound.Hooks {
	return outbound.Hooks{
		Attempt: func(_ context.Context, a outbound.Attempt) {
			s.attempts.Add(1)
			if a.Err != nil && a.Reused && a.Status == 0 {
				s.faults.one("seen: attempt without an answer on a used connection")
			}
		},
		Retry: func(context.Context, outbound.Attempt, time.Duration) { s.retries.Add(1) },
		Circuit: func(c outbound.CircuitChange) {
			if c.To == outbound.CircuitOpen {
				s.faults.one("seen: circuit opened")
			}
		},
	}
}

func (s *soak) closeConnections() {
	for _, l := range s.lanes {
		l.transport.CloseIdleConnections()
		l.base.CloseIdleConnections()
	}
}

func (s *soak) run(ctx context.Context) error {
	stop := s.watch()
	defer stop()
	length := s.cfg.For / time.Duration(s.rounds)
	for n := range s.rounds {
		s.round.Store(int64(n + 1))
		if err := s.oneRound(ctx, n, length); err != nil {
			return fmt.Errorf("round %d: %w", n+1, err)
		}
		if ctx.Err() != nil {
			s.report.Stopped = true
			break
		}
	}
	return nil
}

// random is a source for one purpose, so that one drawing more leaves the others as they are.
func (s *soak) random(round, purpose int) *rand.Rand {
	return rand.New(rand.NewPCG(s.cfg.Seed, uint64(round)<<32|uint64(purpose)))
}

// watch tells the watcher how far it is until stop is called.
func (s *soak) watch() (stop func()) {
	if s.cfg.Watch == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause(ctx, 500*time.Millisecond) {
			s.cfg.Watch(s.progress())
		}
	}()
	return func() {
		cancel()
		<-done
		s.cfg.Watch(s.progress())
	}
}

func (s *soak) progress() Progress {
	p := Progress{
		Elapsed:    time.Duration(s.elapsed.Load()),
		For:        s.cfg.For,
		Round:      int(s.round.Load()),
		Rounds:     s.rounds,
		Payments:   int(s.payments.Load()),
		InFlight:   int(s.inFlight.Load()),
		Attempts:   int(s.attempts.Load()),
		Unknown:    int(s.unknown.Load()),
		Goroutines: runtime.NumGoroutine(),
	}
	p.Phase, _ = s.phase.Load().(string)
	if at := s.roundAt.Load(); at != 0 {
		p.Elapsed += time.Duration(time.Now().UnixNano() - at)
	}
	p.Elapsed = min(p.Elapsed, p.For) // the last calls of a round outlast it
	return p
}
