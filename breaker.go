package outbound

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// CircuitState is a circuit's state. The zero value is CircuitClosed.
type CircuitState uint8

const (
	CircuitClosed   CircuitState = iota // calls go through
	CircuitHalfOpen                     // a few probes go through, all others are refused
	CircuitOpen                         // all calls are refused
)

// String returns "closed", "half-open" or "open".
func (s CircuitState) String() string {
	switch s {
	case CircuitOpen:
		return "open"
	case CircuitHalfOpen:
		return "half-open"
	default:
		return "closed"
	}
}

// Circuit is a snapshot of one target: its circuit, its calls and its retry budget. Where circuits are off, it is closed and
// counts nothing.
type Circuit struct {
	Target string       // scheme://host:port, or what Config.Target returned
	State  CircuitState // an open circuit stays open until a call comes after NextProbe
	Since  time.Time    // when it came into this state

	// NextProbe is when an open circuit lets the first probe through; zero in the other states.
	NextProbe time.Time
	// ConsecutiveFailures counts the failed attempts in a row up to now, however long ago.
	ConsecutiveFailures int
	// Successes and Failures count the attempts of this state, while closed those of the rolling window. Neutral results
	// (429, 409, a cancelled call) are in neither.
	Successes, Failures int
	// Pending counts the attempts without a verdict yet.
	Pending int
	// CallsInFlight counts the calls under way whose reply is not done with, those that wait for a place included.
	CallsInFlight int
	// BudgetLeft is how many retries the target's budget would allow now; -1 where BudgetPolicy.Disabled is set.
	BudgetLeft int
}

// CircuitChange is one change of a circuit's state.
type CircuitChange struct {
	Target   string
	From, To CircuitState
	At       time.Time
}

// CircuitOpenError is the refusal of an attempt by its circuit; it matches [ErrCircuitOpen]. Find it with errors.As.
type CircuitOpenError struct {
	Target string
	// State is CircuitOpen, or CircuitHalfOpen where all probes are on their way.
	State CircuitState
	// NextProbe is when the next probe may go; zero while half-open.
	NextProbe time.Time
}

// Error names the target and when the next probe may go.
func (e *CircuitOpenError) Error() string { return "outbound: " + e.safeText() }

// Is makes the error match ErrCircuitOpen.
func (e *CircuitOpenError) Is(target error) bool { return target == ErrCircuitOpen }

func (e *CircuitOpenError) safeText() string {
	if e.State == CircuitHalfOpen {
		return fmt.Sprintf("circuit half-open for %s, all probes are on their way", e.Target)
	}
	return fmt.Sprintf("circuit open for %s until %s", e.Target, e.NextProbe.Format("2006-01-02T15:04:05.000Z07:00"))
}

// health is the verdict on one attempt.
type health uint8

const (
	neutral health = iota
	healthy
	failing
)

var (
	errNeutral = errors.New("neutral")
	errFailing = errors.New("failing")
)

func (h health) err() error {
	switch h {
	case healthy:
		return nil
	case failing:
		return errFailing
	default:
		return errNeutral
	}
}

// circuit is one target's breaker: a gobreaker, and what has to be kept beside it.
type circuit struct {
	target  string
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}] // nil: circuits are off
	openFor time.Duration

	// streak counts failures in a row. gobreaker's own count forgets them with its window.
	streak     atomic.Int64
	generation atomic.Uint64 // counts the state's changes, so that an old result does not count in a new state
	pending    atomic.Int64
	standing   atomic.Pointer[circuitStanding] // gobreaker's State() would move the circuit; nil before the first change

	changes *changeQueue // nil: nobody wants to hear of them
}

// circuitStanding is the state as the last change left it.
type circuitStanding struct {
	state     CircuitState
	since     time.Time
	nextProbe time.Time
	probes    *probes // of a half-open one
}

// probes are the half-open probes that hold a place, the oldest first.
type probes struct {
	mu  sync.Mutex
	out []probe
}

type probe struct {
	attempt *attempt
	since   time.Time
}

func (p *probes) add(a *attempt, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = append(p.out, probe{a, now})
}

func (p *probes) remove(a *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = slices.DeleteFunc(p.out, func(other probe) bool { return other.attempt == a })
}

// oldest is the probe that is out for longest.
func (p *probes) oldest() (oldest probe, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.out) == 0 {
		return probe{}, false
	}
	return p.out[0], true
}

// windowBuckets is how finely the rolling window forgets. Each costs memory per target.
const windowBuckets = 3

func (c *circuit) init(p *BreakerPolicy, hook func(CircuitChange)) {
	c.openFor = jittered(p.OpenFor)
	if hook != nil {
		c.changes = &changeQueue{hook: hook}
	}
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  uint32(min(p.Probes, math.MaxUint32)),
		Interval:     p.Window,
		BucketPeriod: p.Window / windowBuckets,
		Timeout:      c.openFor,
		ReadyToTrip:  func(n gobreaker.Counts) bool { return p.trips(c.streak.Load(), n) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			c.changed(stateOf(from), stateOf(to))
		},
		IsExcluded: func(err error) bool { return err == errNeutral },
	})
}

// stands is how the circuit stands; the zero standing is that of one that never changed.
func (c *circuit) stands() circuitStanding {
	if s := c.standing.Load(); s != nil {
		return *s
	}
	return circuitStanding{}
}

// jittered is d, give or take a quarter, so that the circuits of a fleet do not probe in step.
func jittered(d time.Duration) time.Duration {
	return d - d/4 + time.Duration(rand.Int64N(int64(d/2)+1))
}

func (p *BreakerPolicy) trips(streak int64, n gobreaker.Counts) bool {
	if streak >= int64(p.ConsecutiveFailures) {
		return true
	}
	total := n.TotalSuccesses + n.TotalFailures
	return p.Window > 0 && int64(total) >= int64(p.MinRequests) && float64(n.TotalFailures) >= p.FailureRatio*float64(total)
}

func stateOf(s gobreaker.State) CircuitState {
	switch s {
	case gobreaker.StateOpen:
		return CircuitOpen
	case gobreaker.StateHalfOpen:
		return CircuitHalfOpen
	default:
		return CircuitClosed
	}
}

// changed runs under gobreaker's lock: it only notes the change.
func (c *circuit) changed(from, to CircuitState) {
	now := time.Now()
	s := &circuitStanding{state: to, since: now}
	switch to {
	case CircuitOpen:
		s.nextProbe = now.Add(c.openFor)
	case CircuitHalfOpen:
		s.probes = new(probes)
	}
	c.standing.Store(s)
	c.generation.Add(1)
	c.streak.Store(0)
	if c.changes != nil {
		c.changes.push(CircuitChange{Target: c.target, From: from, To: to, At: now})
	}
}

// admission is an attempt's place in a circuit. book gives it back, once. That of no circuit books nothing.
type admission struct {
	circuit    *circuit
	done       func(error)
	generation uint64
	state      atomic.Uint32
	yielded    atomic.Bool // it was a probe, and is overtaken
}

const (
	admitted  uint32 = iota // it holds its place
	overtaken               // a probe whose place went to a newer one; its verdict is still awaited
	booked                  // the verdict was given
)

// admit asks for a place for the attempt; without one, the refusal says why.
func (c *circuit) admit(a *attempt) (refusal CircuitOpenError, ok bool) {
	if until := c.openUntil(a.start); !until.IsZero() { // gobreaker would say the same, under its lock
		return CircuitOpenError{Target: c.target, State: CircuitOpen, NextProbe: until}, false
	}
	done, err := c.breaker.Allow()
	if errors.Is(err, gobreaker.ErrTooManyRequests) && c.overtake(a.start) {
		done, err = c.breaker.Allow()
	}
	if err == nil {
		c.pending.Add(1)
		a.circuit, a.done, a.generation = c, done, c.generation.Load()
		if s := c.stands(); s.state == CircuitHalfOpen {
			s.probes.add(a, a.start) // from here on others may overtake it
		}
	}
	if c.changes.deliver() {
		a.start = time.Now() // the hook may have been slow
	}
	if err != nil {
		return c.refusal(err), false
	}
	return CircuitOpenError{}, true
}

func (c *circuit) refusal(err error) CircuitOpenError {
	if errors.Is(err, gobreaker.ErrTooManyRequests) {
		return CircuitOpenError{Target: c.target, State: CircuitHalfOpen}
	}
	return CircuitOpenError{Target: c.target, State: CircuitOpen, NextProbe: c.stands().nextProbe}
}

// overtake frees the place of a probe that is out for longer than the circuit would have stayed open: else one that a silent
// server swallowed just before it came back would keep all others away until its attempt timeout.
func (c *circuit) overtake(now time.Time) bool {
	s := c.stands()
	if s.state != CircuitHalfOpen {
		return false
	}
	p, ok := s.probes.oldest()
	return ok && now.Sub(p.since) >= c.openFor && p.attempt.yield()
}

// yield gives the place back and keeps the verdict for later.
func (a *attempt) yield() bool {
	a.yielded.Store(true) // first, so that whoever hears of the failure knows
	if !a.state.CompareAndSwap(admitted, overtaken) {
		return false
	}
	a.leaveProbes()
	a.done(errNeutral)
	return true
}

func (a *attempt) leaveProbes() {
	if s := a.circuit.stands(); s.probes != nil {
		s.probes.remove(a)
	}
}

// book gives the verdict; only the first counts. It runs no hook, so that a timer may call it; see tell.
func (a *attempt) book(h health) {
	c := a.circuit
	if c == nil {
		return
	}
	switch a.state.Swap(booked) {
	case admitted:
		c.pending.Add(-1)
		a.leaveProbes()
		if c.generation.Load() == a.generation {
			c.count(h)
		}
		a.done(h.err())
	case overtaken:
		c.pending.Add(-1)
		c.late(h)
	}
}

// late hears a probe that was overtaken. That the target answers after all closes the circuit, whatever newer probes say; that
// it fails is for them to say.
func (c *circuit) late(h health) {
	s := c.stands()
	if h != healthy || s.state != CircuitHalfOpen {
		return
	}
	done, err := c.breaker.Allow()
	if other, ok := s.probes.oldest(); err != nil && ok && other.attempt.yield() {
		done, err = c.breaker.Allow()
	}
	if err == nil {
		done(nil)
	}
}

// tell runs the hook for the changes that were noted and not told yet.
func (a *attempt) tell() (told bool) {
	return a.circuit != nil && a.circuit.changes.deliver()
}

func (c *circuit) count(h health) {
	switch h {
	case failing:
		c.streak.Add(1)
	case healthy:
		c.streak.Store(0)
	}
}

// openUntil is until when the circuit is open, without moving it; zero where it is not open, or past its time.
func (c *circuit) openUntil(now time.Time) time.Time {
	s := c.stands()
	if s.state != CircuitOpen || now.After(s.nextProbe) {
		return time.Time{}
	}
	return s.nextProbe
}

// describe fills in what a snapshot says of the circuit, which may not have changed since it was made.
func (c *circuit) describe(into *Circuit, made time.Time) {
	s, n := c.stands(), c.breaker.Counts()
	if s.since.IsZero() {
		s.since = made
	}
	into.State, into.Since, into.NextProbe = s.state, s.since, s.nextProbe
	into.ConsecutiveFailures = int(c.streak.Load())
	into.Successes, into.Failures = int(n.TotalSuccesses), int(n.TotalFailures)
	into.Pending = int(c.pending.Load())
}

// changeQueue hands changes to the hook in order and outside the lock. Whoever finds it idle delivers all that wait; a
// call made from within the hook only adds to it.
type changeQueue struct {
	hook       func(CircuitChange)
	waiting    atomic.Int64
	mu         sync.Mutex
	changes    []CircuitChange
	delivering bool
}

func (q *changeQueue) push(c CircuitChange) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changes = append(q.changes, c)
	q.waiting.Add(1)
}

func (q *changeQueue) deliver() (told bool) {
	if q == nil || q.waiting.Load() == 0 || !q.begin() {
		return false
	}
	panicked := true
	defer func() {
		if panicked {
			q.end()
		}
	}()
	for c, ok := q.pop(); ok; c, ok = q.pop() {
		q.hook(c)
		told = true
	}
	panicked = false
	return told
}

func (q *changeQueue) begin() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	begun := !q.delivering
	q.delivering = true
	return begun
}

func (q *changeQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delivering = false
}

func (q *changeQueue) pop() (CircuitChange, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.changes) == 0 {
		q.delivering = false // under the same lock, so that no change is left behind
		return CircuitChange{}, false
	}
	c := q.changes[0]
	q.changes = q.changes[1:]
	q.waiting.Add(-1)
	return c, true
}

// BreakerPolicy says when a target's circuit opens and how it closes again. A failed attempt is a network error, an attempt
// or connect timeout, a 5xx other than 501 and 505, or a body that breaks before its end. Neutral are the caller's cancel or
// deadline, 409, 429 and a replayed answer. All else is a success.
type BreakerPolicy struct {
	// Disabled turns circuits off.
	Disabled bool
	// ConsecutiveFailures in a row open the circuit, however sparse the traffic. Default: 10. Negative: refused by New.
	ConsecutiveFailures int
	// FailureRatio of the attempts in Window opens the circuit too. Default: 0.5. Outside (0, 1]: refused by New.
	FailureRatio float64
	// MinRequests is how many attempts the window must hold before the ratio counts. Default: 20. Negative: refused by New.
	MinRequests int
	// Window is how far back the ratio looks. It forgets a third of itself at a time. Attempts that took longer than it are
	// not counted. Default: 60 s, or twice the AttemptTimeout where that is longer. Negative: off, only ConsecutiveFailures
	// counts.
	Window time.Duration
	// OpenFor is how long an open circuit refuses before it lets probes through, give or take a quarter, drawn once per
	// circuit. Default: 1.25 s: short and spread recovers fastest. Negative: refused by New.
	OpenFor time.Duration
	// Probes is how many attempts a half-open circuit lets through, and how many must succeed to close it. A probe that
	// takes longer than OpenFor lets the next one through; its success still counts. One that fails is not repeated.
	// Default: 1. Negative: refused by New.
	Probes int
	// SlowCall is how long an attempt may take, until its reply is in, before it counts as a failure. Default and negative: off.
	SlowCall time.Duration
	// MaxCircuits bounds how many targets are remembered. The longest unused one that is closed, or open past its time, makes
	// room; where all are open or in use, a new target goes without a circuit. Default: 4096. Negative: refused by New.
	MaxCircuits int
}

// guard is the layer of the circuits: it asks before each attempt, and refuses.
func guard(next layer) layer {
	return func(a *attempt) {
		if c := a.call.circuit(); c != nil {
			refusal, ok := c.admit(a)
			if !ok {
				a.call.failure = &failure{refusal: refusal}
				a.stop(&a.call.failure.refusal)
				return
			}
			if err := a.call.overtime(a.start, 0); err != nil {
				a.stop(err)
				return
			}
		}
		next(a)
	}
}

// stop ends an attempt that may not be made, and its call.
func (a *attempt) stop(why error) {
	a.call.stopped = why
	a.release()
	if a.fresh {
		_ = a.body.Close()
	}
}
