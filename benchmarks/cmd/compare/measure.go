package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/outbound-go/outbound/benchmarks/peers"
)

// figures are what one sample, or the median of many, says of one operation.
type figures struct {
	ns, allocs, bytes float64
}

// series are the figures of one peer at one task, one for each round.
type series []figures

// results are the series by task and peer.
type results map[string]map[string]series

// task is a case on so many cores.
type task struct {
	peers.Case
	name  string
	cores int
}

// Names of the tasks that are the same case on one core and on two.
const (
	oneCore  = peers.Cores + ", 1"
	twoCores = peers.Cores + ", 2"
)

func tasks() []task {
	cores := runtime.GOMAXPROCS(0)
	var list []task
	for _, c := range peers.Cases() {
		if c.Name != peers.Cores {
			list = append(list, task{c, c.Name, cores})
			continue
		}
		list = append(list, task{c, oneCore, 1})
		if cores > 1 {
			list = append(list, task{c, twoCores, 2})
		}
	}
	return list
}

// entrant is one peer at one task.
type entrant struct {
	task task
	peer string
	work *peers.Work
}

func measure(p plan) (results, error) {
	all := results{}
	for round := range p.rounds {
		for _, t := range tasks() {
			if err := t.run(p, round, all); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// run gives each peer a turn at the task. The one that begins moves on with each round, so that none always follows the same.
func (t task) run(p plan, round int, all results) error {
	entrants := t.entrants()
	if all[t.name] == nil {
		all[t.name] = map[string]series{}
	}
	for i := range entrants {
		e := entrants[(i+round)%len(entrants)]
		f, err := e.sample(p.sample)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", t.name, e.peer, err)
		}
		all[t.name][e.peer] = append(all[t.name][e.peer], f)
	}
	return nil
}

func (t task) entrants() []*entrant {
	var list []*entrant
	for _, peer := range peers.All() {
		if t.Takes(peer) {
			list = append(list, &entrant{task: t, peer: peer.Name, work: t.Start(peer, nil)})
		}
	}
	return list
}

// sample works for about that long, after it found out how many operations that takes.
func (e *entrant) sample(length time.Duration) (figures, error) {
	before := runtime.GOMAXPROCS(e.task.cores)
	defer runtime.GOMAXPROCS(before)
	defer e.work.Close()
	goroutines := e.task.Goroutines
	if goroutines == 0 {
		goroutines = e.task.cores
	}
	ops := make([]func() error, goroutines)
	for i := range ops {
		ops[i] = e.work.Worker()
	}
	_, took, err := timed(ops, 1) // connections are made here
	for n := 1; err == nil; {
		n = next(n, took, length)
		var f figures
		if f, took, err = timed(ops, n); took >= length {
			return f, err
		}
	}
	return figures{}, err
}

// next is how many operations to try after n were too few: enough by what they took, and at most a hundred times as many.
func next(n int, took, length time.Duration) int {
	want := 1.2 * float64(n) * float64(length) / float64(max(took, 1))
	return max(n+1, min(int(want), 100*n))
}

// timed runs each of the workers n times, all at once.
func timed(ops []func() error, n int) (figures, time.Duration, error) {
	runtime.GC() // each sample starts with as little to collect
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := together(ops, n)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	total := float64(n * len(ops))
	return figures{
		ns:     float64(took) / total,
		allocs: float64(after.Mallocs-before.Mallocs) / total,
		bytes:  float64(after.TotalAlloc-before.TotalAlloc) / total,
	}, took, err
}

func together(ops []func() error, n int) error {
	if len(ops) == 1 {
		return repeat(ops[0], n)
	}
	errs := make([]error, len(ops))
	var done sync.WaitGroup
	for i, op := range ops {
		done.Go(func() { errs[i] = repeat(op, n) })
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func repeat(op func() error, n int) error {
	for range n {
		if err := op(); err != nil {
			return err
		}
	}
	return nil
}

// median is that of each figure by itself.
func (s series) median() figures {
	return figures{
		ns:     s.medianOf(func(f figures) float64 { return f.ns }),
		allocs: s.medianOf(func(f figures) float64 { return f.allocs }),
		bytes:  s.medianOf(func(f figures) float64 { return f.bytes }),
	}
}

func (s series) medianOf(value func(figures) float64) float64 {
	values := make([]float64, len(s))
	for i, f := range s {
		values[i] = value(f)
	}
	return median(values)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}

// ratio is the median of the ratios within the rounds, in time.
func ratio(a, b series) float64 {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		ratios = append(ratios, a[i].ns/b[i].ns)
	}
	return median(ratios)
}

// speedups are how much faster two cores are than one, round by round.
func (r results) speedups(peer string) []float64 {
	one, two := r[oneCore][peer], r[twoCores][peer]
	var list []float64
	for i := range min(len(one), len(two)) {
		list = append(list, one[i].ns/two[i].ns)
	}
	return list
}
