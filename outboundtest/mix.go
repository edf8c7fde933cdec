package outboundtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// Mix draws a fault for each write from a seed: the same seed and rates give
// the same faults in the same order. Which request gets which is up to the
// order of their arrival. The zero Mix draws none.
type Mix struct {
	// Seed of the draw. Zero is a seed like any other.
	Seed uint64
	// Rates are the faults and how often each is drawn. They sum to 1 at most;
	// what is left of 1 is the rate of requests that are served well.
	Rates []FaultRate
}

// FaultRate is one fault of a Mix.
type FaultRate struct {
	// Fault is what befalls the request.
	Fault Fault
	// Rate is how often, as a fraction of all writes: 0 is never, 1 is always.
	Rate float64
}

// DefaultMix is a bad day: 35 % of the writes meet a fault, at every point and
// with every end, silence in one of a hundred.
func DefaultMix(seed uint64) Mix { return badDay(seed, 0.01) }

// StormMix is DefaultMix twice as bad: 70 % of the writes meet a fault.
func StormMix(seed uint64) Mix { return badDay(seed, 0.02) }

// badDay has 35 parts of faults, each as likely as part says.
func badDay(seed uint64, part float64) Mix {
	return Mix{Seed: seed, Rates: []FaultRate{
		{ResetOnAccept, 3 * part},
		{DropUnread, 2 * part},
		{DropUnread.By(RST), 2 * part},
		{LoseRequest, 2 * part},
		{LoseRequest.By(RST), 1 * part},
		{LoseRequest.By(Silence), 0.5 * part},
		{LeaveWorking, 3 * part},
		{LoseReply, 4 * part},
		{LoseReply.By(RST), 2 * part},
		{LoseReply.By(Silence), 0.5 * part},
		{CutHeaders, 2 * part},
		{CutHeaders.By(RST), 1 * part},
		{CutBody, 2 * part},
		{CutBody.By(RST), 1 * part},
		{Answer(503), 3 * part},
		{Answer(429, "Retry-After", "1"), 1 * part},
		{AnswerAfterWork(502), 3 * part},
		{Busy(1), 1 * part},
		{ServerError, 1 * part},
	}}
}

// validate returns every mistake in the mix, joined.
func (m Mix) validate() error {
	var errs []error
	sum := 0.0
	for i, r := range m.Rates {
		if err := r.validate(); err != nil {
			errs = append(errs, fmt.Errorf("mix rate %d: %w", i, err))
			continue
		}
		sum += r.Rate
	}
	if sum > 1+1e-9 { // room for the rounding of a sum
		errs = append(errs, fmt.Errorf("the mix rates sum to %g, more than 1", sum))
	}
	return errors.Join(errs...)
}

func (r FaultRate) validate() error {
	err := r.Fault.validate()
	if r.Rate >= 0 && r.Rate <= 1 { // false for NaN, too
		return err
	}
	return errors.Join(err, fmt.Errorf("the Rate %g is not between 0 and 1", r.Rate))
}

// dice draws the faults of a mix. Not safe for concurrent use.
type dice struct {
	rates []FaultRate
	rng   *rand.Rand
}

func newDice(m Mix) *dice {
	d := &dice{rng: rand.New(rand.NewPCG(m.Seed, 0))}
	for _, r := range m.Rates {
		d.rates = append(d.rates, FaultRate{Fault: r.Fault.copied(), Rate: r.Rate})
	}
	return d
}

func (d *dice) draw() Fault {
	at := d.rng.Float64()
	for _, r := range d.rates {
		if at < r.Rate {
			return r.Fault
		}
		at -= r.Rate
	}
	return Fault{}
}
