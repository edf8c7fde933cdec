package outboundtest

import (
	"errors"
	"fmt"
	"sync"
)

// Script is a list of faults, one for each write in order of arrival. After
// its end everything works, or the Mix goes on if there is one.
type Script []Fault

// validate returns every mistake in the script, joined.
func (s Script) validate() error {
	var errs []error
	for i, f := range s {
		if err := f.validate(); err != nil {
			errs = append(errs, fmt.Errorf("script[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// plan hands out the faults: the script's, then the mix's.
type plan struct {
	mu     sync.Mutex
	script Script
	dice   *dice
	drawn  *Fault // drawn from the dice and not taken yet
}

func newPlan(s Script, m Mix) *plan {
	p := &plan{}
	p.add(s)
	if len(m.Rates) > 0 {
		p.dice = newDice(m)
	}
	return p
}

// add appends copies of the faults to the script.
func (p *plan) add(faults []Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range faults {
		p.script = append(p.script, f.copied())
	}
}

// clear drops the faults left, and the mix.
func (p *plan) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script, p.dice, p.drawn = nil, nil, nil
}

// atAccept takes the next fault if it is one for a new connection.
func (p *plan) atAccept() (Fault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.peek().Point != BeforeAccept {
		return OK, false
	}
	return p.take(), true
}

// next takes the next fault, for a write about to be read.
func (p *plan) next() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.take()
}

// peek returns the next fault and leaves it. The lock is held.
func (p *plan) peek() Fault {
	if len(p.script) > 0 {
		return p.script[0]
	}
	if p.dice == nil {
		return Fault{}
	}
	if p.drawn == nil {
		f := p.dice.draw()
		p.drawn = &f
	}
	return *p.drawn
}

// take returns the next fault and removes it. The lock is held.
func (p *plan) take() Fault {
	f := p.peek()
	if len(p.script) > 0 {
		p.script = p.script[1:]
		return f
	}
	p.drawn = nil
	return f
}
