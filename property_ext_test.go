package outbound_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/stretchr/testify/require"
)

var (
	schedules = flag.Int("schedules", 2000, "how many random schedules TestSchedules runs")
	seed      = flag.Uint64("seed", 0, "the one schedule to run; 0: all")
)

// schedule is one random life of an action: what is asked, how, and what happens to each request.
type schedule struct {
	method      string
	identity    identity
	body        bodyKind
	ignoresKeys bool
	separate    bool
	faults      []fault
	maxAttempts int
	attempt     time.Duration
	total       time.Duration
	circuit     bool
	cancelAt    time.Duration   // 0: never
	deadline    time.Duration   // of the caller's context; 0: none
	crashes     []time.Duration // when the process dies, and a new one resumes from what was stored
}

type identity int

const (
	generated identity = iota
	adopted
	stored
)

type bodyKind int

const (
	replayable bodyKind = iota
	onceOnly
	noBody
)

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func millis(r *rand.Rand, upTo int) time.Duration {
	return time.Duration(r.IntN(upTo)+1) * time.Millisecond
}

func newSchedule(seed uint64) schedule {
	r := rand.New(rand.NewPCG(seed, 0x6f7574626f756e64))
	s := schedule{
		method:      pick(r, "POST", "POST", "POST", "PATCH", "PUT", "DELETE", "GET"),
		identity:    pick(r, generated, adopted, stored),
		body:        pick(r, replayable, replayable, onceOnly, noBody),
		ignoresKeys: r.IntN(4) == 0,
		maxAttempts: 1 + r.IntN(5),
		attempt:     pick(r, 300*time.Millisecond, 2*time.Second, 10*time.Second),
		circuit:     r.IntN(3) == 0,
	}
	s.total = s.attempt * time.Duration(1+r.IntN(5))
	for range r.IntN(7) {
		s.faults = append(s.faults, newFault(r))
	}
	if r.IntN(5) == 0 {
		s.cancelAt = millis(r, 20_000)
	}
	if r.IntN(5) == 0 {
		s.deadline = millis(r, 20_000)
	}
	if s.identity == stored && !s.ignoresKeys {
		for range r.IntN(4) {
			s.crashes = append(s.crashes, millis(r, 15_000))
		}
		s.body = pick(r, replayable, noBody)
	}
	s.separate = s.identity != stored && r.IntN(2) == 0
	return s
}

func newFault(r *rand.Rand) fault {
	f := fault{kind: kind(r.IntN(int(kinds))), delay: millis(r, 15_000) + time.Duration(r.IntN(2))}
	switch f.kind {
	case frontIn, frontOut:
		f.status = pick(r, 401, 404, 408, 413, 429, 429, 502, 503, 504)
	case failed, failedDone:
		f.status = pick(r, 500, 501, 502, 503, 504, 529)
	case movedSame, movedAway:
		f.status = pick(r, 307, 308)
	}
	if r.IntN(2) == 0 {
		f.hint = pick(r, [2]string{"Retry-After", "1"}, [2]string{"Retry-After", "0"}, [2]string{"Retry-After", "7.5"},
			[2]string{"Retry-After", "3600"}, [2]string{"Retry-After-Ms", "250"}, [2]string{"Retry-After", "soon"},
			[2]string{"X-Should-Retry", "true"}, [2]string{"X-Should-Retry", "false"})
	}
	return f
}

// TestSchedules is the property that everything rests on. A failing schedule names its seed: replay it with
//
//	go test -run TestSchedules -seed N .
func TestSchedules(t *testing.T) {
	first, last := uint64(1), uint64(*schedules)
	if *seed != 0 {
		first, last = *seed, *seed
	}
	seen := map[outbound.Outcome]int{}
	falseRejections := 0
	for n := first; n <= last; n++ {
		res := live(t, newSchedule(n))
		if res.err != nil {
			t.Fatalf("seed %d: %v\nshrunk to: %+v", n, res.err, shrink(t, newSchedule(n)))
		}
		seen[res.outcome]++
		if res.falseRejection {
			falseRejections++
		}
	}
	t.Logf("outcomes %v, false rejections by a layer in front after the work %d", seen, falseRejections)
	if *seed == 0 {
		require.Len(t, seen, 4, "schedules must reach every outcome")
		require.Positive(t, falseRejections, "the one fault that nobody can know must occur, or its exemption proves nothing")
	}
}

// shrink leaves out whatever is not needed to fail.
func shrink(t *testing.T, s schedule) schedule {
	for again := true; again; {
		again = false
		for _, smaller := range s.smaller() {
			if live(t, smaller).err != nil {
				s, again = smaller, true
				break
			}
		}
	}
	return s
}

func (s schedule) smaller() []schedule {
	var all []schedule
	with := func(change func(*schedule)) {
		c := s
		c.faults, c.crashes = slices.Clone(s.faults), slices.Clone(s.crashes)
		change(&c)
		all = append(all, c)
	}
	for i := range s.faults {
		with(func(c *schedule) { c.faults = slices.Delete(c.faults, i, i+1) })
	}
	for i := range s.crashes {
		with(func(c *schedule) { c.crashes = slices.Delete(c.crashes, i, i+1) })
	}
	if s.cancelAt != 0 {
		with(func(c *schedule) { c.cancelAt = 0 })
	}
	if s.deadline != 0 {
		with(func(c *schedule) { c.deadline = 0 })
	}
	if s.circuit {
		with(func(c *schedule) { c.circuit = false })
	}
	return all
}

type result struct {
	outcome        outbound.Outcome
	attempts       []outbound.Attempt
	crashed        bool // the last process resumed what an earlier one began
	falseRejection bool // by a layer in front, after the work, on the first attempt of a fresh key: nobody can know
	err            error
}

// live plays a schedule in virtual time. The bubble itself fails where a goroutine is left.
func live(t *testing.T, s schedule) (res result) {
	synctest.Test(t, func(*testing.T) {
		server := &paymentServer{
			ignoresKeys: s.ignoresKeys, separate: s.separate, faults: s.faults,
			stored: map[string]int{}, claimed: map[string]bool{}, keys: map[string]bool{},
		}
		res = s.play(server)
		server.pending.Wait()
		res.judge(s, server)
	})
	return res
}

// play lets each process run until it crashes, and the last one until its call is over.
func (s schedule) play(server *paymentServer) result {
	action := outbound.NewAction()
	paper, err := json.Marshal(action)
	if err != nil {
		return result{err: err}
	}
	for _, at := range s.crashes {
		p := s.newProcess(server, action)
		ctx, die := context.WithTimeout(context.Background(), at)
		p.call(ctx)
		die()
		action = new(outbound.Action)
		if err := json.Unmarshal(paper, action); err != nil {
			return result{err: err}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if s.cancelAt != 0 {
		defer time.AfterFunc(s.cancelAt, cancel).Stop()
	}
	if s.deadline != 0 {
		ctx, cancel = context.WithTimeout(ctx, s.deadline)
		defer cancel()
	}
	p := s.newProcess(server, action)
	return p.watched(ctx)
}

// process is one run of a program: its client, and the action it holds.
type process struct {
	schedule
	server *paymentServer
	action *outbound.Action
	client *http.Client
	waits  []waited
	err    error
}

type waited struct {
	after outbound.Attempt
	wait  time.Duration
}

const (
	backoffBase = 100 * time.Millisecond
	backoffCap  = 3 * time.Second
)

func (s schedule) newProcess(server *paymentServer, action *outbound.Action) *process {
	p := &process{schedule: s, server: server, action: action}
	cfg := outbound.Config{
		Base:           server,
		AttemptTimeout: s.attempt, TotalTimeout: s.total,
		Retry: outbound.RetryPolicy{
			MaxAttempts: s.maxAttempts,
			Backoff:     outbound.FullJitter{Base: backoffBase, Cap: backoffCap},
		},
		Breaker:  outbound.BreakerPolicy{Disabled: !s.circuit, ConsecutiveFailures: 3},
		Provider: outbound.Provider{NoKeys: s.ignoresKeys},
		Hooks: outbound.Hooks{Retry: func(_ context.Context, a outbound.Attempt, wait time.Duration) {
			p.waits = append(p.waits, waited{a, wait})
		}},
	}
	p.client, p.err = outbound.NewClient(cfg)
	return p
}

func (p *process) request(ctx context.Context) *http.Request {
	if p.identity == stored {
		ctx = outbound.WithAction(ctx, p.action)
	}
	req, err := http.NewRequestWithContext(ctx, p.method, "http://pay.test/v1/payments", nil)
	if err != nil {
		p.err = err
		return nil
	}
	if p.body != noBody && p.method != "GET" {
		req.Body, req.ContentLength = p.server.newBody("42 EUR"), 6
		if p.body == replayable || p.identity == stored {
			req.GetBody = func() (io.ReadCloser, error) { return p.server.newBody("42 EUR"), nil }
		}
	}
	if p.identity == adopted {
		req.Header.Set("idempotency-key", "sdk-key-1")
	}
	return req
}

func (p *process) call(ctx context.Context) (*http.Response, error) {
	resp, err := p.client.Do(p.request(ctx))
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return resp, err
}

// watched is the last process' call, with everything checked that can be seen from the client's side.
func (p *process) watched(ctx context.Context) (res result) {
	if p.err != nil {
		return result{err: p.err}
	}
	p.server.lastProcess = len(p.server.log)
	res.crashed = len(p.crashes) > 0
	before, start := p.server.requests, time.Now()
	resp, err := p.call(ctx)
	took, seen := time.Since(start), p.server.requests-before
	report, ok := outbound.ReportOf(resp, err)
	res.outcome, res.attempts = report.Outcome, report.Attempts
	switch {
	case !ok:
		res.err = fmt.Errorf("no report of %v, %v", resp, err)
	case took > p.total:
		res.err = fmt.Errorf("took %v, and %v were allowed", took, p.total)
	case p.deadline != 0 && took > p.deadline:
		res.err = fmt.Errorf("took %v, past the caller's deadline of %v", took, p.deadline)
	case p.method != "GET" && writes(report) != seen:
		res.err = fmt.Errorf("%d attempts reported, and %d requests seen", writes(report), seen)
	case len(p.waits) > p.maxAttempts-1:
		res.err = fmt.Errorf("%d retries with MaxAttempts %d", len(p.waits), p.maxAttempts)
	default:
		res.err = errors.Join(p.checkAttempts(report), p.checkWaits(report))
	}
	return res
}

func writes(r outbound.Report) (n int) {
	for _, a := range r.Attempts {
		if a.Method != "GET" {
			n++
		}
	}
	return n
}

// checkAttempts: retries and the free first attempt of each hop make up all attempts, numbered through.
func (p *process) checkAttempts(r outbound.Report) error {
	free := 0
	for i, a := range r.Attempts {
		if a.Number != i+1 {
			return fmt.Errorf("attempt %d has the number %d", i+1, a.Number)
		}
		if i == 0 || r.Attempts[i-1].Status >= 300 && r.Attempts[i-1].Status < 400 {
			free++
		}
	}
	if len(r.Attempts) > p.maxAttempts-1+free {
		return fmt.Errorf("%d attempts, with MaxAttempts %d and %d hops", len(r.Attempts), p.maxAttempts, free)
	}
	return nil
}

// checkWaits: each wait lies within its bounds, and is the one that was announced.
func (p *process) checkWaits(r outbound.Report) error {
	for _, w := range p.waits {
		low, high := time.Duration(0), backoffCap
		if f := p.fate(w.after); f.hint[0] != "" && w.after.Status != 0 {
			hint := map[[2]string]time.Duration{
				{"Retry-After", "1"}: time.Second, {"Retry-After", "7.5"}: 7500 * time.Millisecond, {"Retry-After-Ms", "250"}: 250 * time.Millisecond,
			}[f.hint]
			if hinting(f.kind) {
				low, high = hint, hint+max(backoffCap, hint/3)
			}
		}
		if w.wait < low || w.wait > high {
			return fmt.Errorf("waited %v after attempt %d, outside [%v, %v]", w.wait, w.after.Number, low, high)
		}
		if w.after.Number < len(r.Attempts) && r.Attempts[w.after.Number].Wait != w.wait {
			return fmt.Errorf("attempt %d says that %v were waited, and %v were announced", w.after.Number+1, r.Attempts[w.after.Number].Wait, w.wait)
		}
	}
	return nil
}

func hinting(k kind) bool { return k == failed || k == failedDone || k == frontIn || k == frontOut }

// fate is what happened to an attempt of the last process.
func (p *process) fate(a outbound.Attempt) fault {
	return p.server.log[p.server.lastProcess+a.Number-1]
}

// judge holds the claim against the ledger, once nothing is at work any more.
func (res *result) judge(s schedule, server *paymentServer) {
	if res.err != nil {
		return
	}
	charges := server.charges
	res.falseRejection = server.frontOut != 0 && res.unknowable(server.frontOut-server.lastProcess) && (s.identity != adopted || s.ignoresKeys)
	switch {
	case charges > 1 && !(res.falseRejection && s.ignoresKeys):
		res.err = fmt.Errorf("performed %d times", charges)
	case res.falseRejection:
	case charges != 0 && (res.outcome == outbound.OutcomeNotSent || res.outcome == outbound.OutcomeRejected):
		res.err = fmt.Errorf("%v claimed, and performed", res.outcome)
	case charges != 1 && res.outcome == outbound.OutcomeSucceeded && s.method != "GET":
		res.err = fmt.Errorf("success claimed, and performed %d times", charges)
	case len(server.keys) > 1:
		res.err = fmt.Errorf("one action, and the keys %v", keysOf(server))
	case server.open != 0:
		res.err = fmt.Errorf("%d bodies left open", server.open)
	}
}

// unknowable reports whether the nth request of a fresh action was the first that can have been performed, and was said to
// be rejected by a layer in front all the same. A keyless write is then even repeated, where that layer said 429.
func (res *result) unknowable(nth int) bool {
	if nth < 1 || nth > len(res.attempts) || res.crashed {
		return false
	}
	for _, a := range res.attempts[:nth] {
		if a.Outcome != outbound.OutcomeNotSent && a.Outcome != outbound.OutcomeRejected {
			return false
		}
	}
	return true
}

func keysOf(s *paymentServer) string {
	var all []string
	for k := range s.keys {
		all = append(all, k)
	}
	return strings.Join(all, ", ")
}
