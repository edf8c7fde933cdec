package fleet

import (
	"fmt"
	"time"
)

// Shape is a fleet: so many processes, each with one Transport, its own circuit and its own budget.
type Shape struct {
	Processes int
	PerSecond int // calls a second of each process
}

// Normal is how many calls a second the whole fleet makes.
func (s Shape) Normal() int { return s.Processes * s.PerSecond }

// String is such as "1000 processes x 10 calls/s".
func (s Shape) String() string {
	calls := "calls"
	if s.PerSecond == 1 {
		calls = "call"
	}
	return fmt.Sprintf("%d processes x %d %s/s", s.Processes, s.PerSecond, calls)
}

// Outage is how the server fails.
type Outage uint8

const (
	// Refuses answers 503 at once.
	Refuses Outage = iota
	// Silent takes requests and never answers them.
	Silent
	// Announces answers 503 at once, with a Retry-After that names the end of the outage to the millisecond: all are told
	// the same instant.
	Announces
)

// Outages are all ways to fail.
var Outages = []Outage{Refuses, Silent, Announces}

// String says it in a few words.
func (o Outage) String() string {
	return [...]string{"instant 503", "silence", "503, the same Retry-After for all"}[o]
}

// ID is the outage in one word.
func (o Outage) ID() string { return [...]string{"refuses", "silent", "announces"}[o] }

// Setup is one run.
type Setup struct {
	Shape  Shape
	Outage Outage
	Policy Policy
	Seed   uint64 // of the phases in which the processes call; the product's own draws have no seed

	Before, During, After time.Duration // the calls' time before, during and after the outage
}

// The server.
const (
	capacity = 1.5             // times the normal load
	patience = 2 * time.Second // how much work it queues; what comes then gets an instant 503
	latency  = 5 * time.Millisecond
)

// bin is the grain of all figures.
const bin = 10 * time.Millisecond

func (s Setup) total() time.Duration { return s.Before + s.During + s.After }

// Model says in words what all runs have in common.
var Model = fmt.Sprintf(`The server: %.1f x the normal load, a first-come-first-served queue of %v (what comes beyond it gets an instant 503), %v latency;
what a client gave up on is served all the same. The calls: keyed POSTs at even intervals. All policies make up to %d attempts of
%v within %v, 500 ms apart at first, but "no retry", and "Config{}" with attempts of 10 s within 30 s. Fixed delay, exponential
and full jitter wait for a Retry-After exactly as long as it says; the others are the product with parts turned off, whose hints are spread.`,
	capacity, patience, latency, attempts, attemptTimeout, totalTimeout)

// Worsening are outages of 25 to 36 s in steps of 1 s.
func Worsening(shape Shape, outage Outage, policy Policy, seed uint64) []Setup {
	var setups []Setup
	for during := 25 * time.Second; during <= 36*time.Second; during += time.Second {
		setups = append(setups, Setup{Shape: shape, Outage: outage, Policy: policy, Seed: seed,
			Before: 2 * time.Second, During: during, After: 30 * time.Second})
	}
	return setups
}
