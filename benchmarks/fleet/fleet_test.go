package fleet

import (
	"math"
	"testing"
	"time"
)

// lasting is an outage of 30 s, watched for as long as the goals need.
func lasting(o Outage, p Policy, seed uint64) Setup {
	return Setup{Shape: small, Outage: o, Policy: p, Seed: seed, Before: 2 * time.Second, During: 30 * time.Second, After: 30 * time.Second}
}

// expect demands the goals, and allows for the size of the fleet: the busiest of many counts lies above what is expected of
// each by some three standard deviations, which is much where a hundredth of a large fleet calls.
func expect(t *testing.T, r *Result) {
	t.Helper()
	if raceEnabled {
		return
	}
	r.Peak -= 3 * math.Sqrt(r.Peak/(float64(r.Setup.Shape.Normal())/10))
	for _, miss := range r.Misses() {
		t.Errorf("%s, %s, outage of %v: %s", r.Setup.Policy.Name, r.Setup.Outage, r.Setup.During, miss)
	}
}

// products are the policies that the goals are for.
var products = []Policy{Defaults, Untouched}

func TestTheDefaultsMeetTheGoals(t *testing.T) {
	for _, policy := range products {
		for _, outage := range Outages {
			t.Run(policy.Name+" "+outage.ID(), func(t *testing.T) {
				t.Parallel()
				expect(t, Run(t, lasting(outage, policy, 1)))
			})
		}
	}
}

// One call a second and process: the circuits open late, after ten calls, and the budgets are large for what they guard.
func TestTheDefaultsMeetTheGoalsInQuietProcesses(t *testing.T) {
	for _, policy := range products {
		for _, outage := range Outages {
			t.Run(policy.Name+" "+outage.ID(), func(t *testing.T) {
				t.Parallel()
				s := lasting(outage, policy, 1)
				s.Shape = quiet
				expect(t, Run(t, s))
			})
		}
	}
}

// Where an outage ends within an open period decides what is lost. Each length meets one outage and one policy.
func TestTheDefaultsMeetTheGoalsHoweverLongTheOutage(t *testing.T) {
	for i, s := range Worsening(small, Refuses, Defaults, 7) {
		if raceEnabled && i >= len(Outages) {
			break
		}
		s.Outage, s.Policy = Outages[i%len(Outages)], products[i/len(Outages)%len(products)]
		t.Run(s.During.String()+" "+s.Outage.ID(), func(t *testing.T) {
			t.Parallel()
			expect(t, Run(t, s))
		})
	}
}

func TestWithoutABudgetTheGoalsFail(t *testing.T) {
	for _, outage := range Outages {
		t.Run(outage.ID(), func(t *testing.T) {
			t.Parallel()
			r := Run(t, lasting(outage, Jitter, 1))
			if len(r.Misses()) == 0 {
				t.Errorf("full jitter alone meets all goals: amplification %.2f, peak %.2f", r.Amplification, r.Peak)
			}
			if outage != Announces && r.Amplification < 3 {
				t.Errorf("amplification is %.2f, and nothing holds it", r.Amplification)
			}
			if outage != Refuses && r.Recovery != Never {
				t.Errorf("recovered after %v: wasted work keeps a server down", r.Recovery)
			}
		})
	}
}

func TestABudgetAloneHoldsTheAmplification(t *testing.T) {
	t.Parallel()
	r := Run(t, lasting(Refuses, Budget, 1))
	calls := small.PerSecond * 30
	most := 1 + 0.1 + float64(10+30/10)/float64(calls) // a tenth of the calls, what was saved up, and one every 10 s
	if r.Amplification < 1.05 || r.Amplification > most+0.01 {
		t.Errorf("amplification is %.3f, and should be near %.3f", r.Amplification, most)
	}
	if r.Recovery != 0 {
		t.Errorf("recovery took %s", r.recovered())
	}
}

func TestToTheLetterIsAHerd(t *testing.T) {
	t.Parallel()
	letter, spread := Run(t, lasting(Announces, Letter, 1)), Run(t, lasting(Announces, Jitter, 1))
	if letter.Peak < 50 {
		t.Errorf("the busiest 100 ms are %.1f x normal", letter.Peak)
	}
	if spread.Peak > letter.Peak/3 {
		t.Errorf("spread hints bring %.1f x normal, and unspread ones %.1f x", spread.Peak, letter.Peak)
	}
}
