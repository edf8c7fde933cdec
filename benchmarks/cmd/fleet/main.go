// Command fleet prints what a fleet of clients does to a server that fails for 30 s and comes back, policy by policy.
//
//	go run ./benchmarks/cmd/fleet               # a tenth of the fleet: a few minutes on two idle cores
//	go run ./benchmarks/cmd/fleet -full         # 10,000 calls a second: about an hour
//	go run ./benchmarks/cmd/fleet -charts DIR   # and the charts, as SVG
//
// The fleet lives in a testing/synctest bubble, which needs a *testing.T, so the command runs itself as a test.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/outbound-go/outbound/benchmarks/fleet"
)

var (
	full   = flag.Bool("full", false, "the whole fleet, 10,000 calls a second, instead of a tenth of it")
	charts = flag.String("charts", "", "the folder to write the charts to")
	only   = flag.String("policies", "", "a regular expression: only the policies whose names match")
	seed   = flag.Uint64("seed", 42, "of the phases in which the processes call")
)

func main() {
	flag.Parse()
	debug.SetGCPercent(400) // a bubble has one runnable goroutine at a time: the collector is what can be saved
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "fleet", F: report}}, nil, nil)
}

func report(t *testing.T) {
	begin := time.Now()
	shapes := []fleet.Shape{{Processes: 1000, PerSecond: 10}, {Processes: 10_000, PerSecond: 1}}
	scale := "the whole fleet, 10,000 calls a second"
	if !*full {
		shapes = []fleet.Shape{{Processes: 100, PerSecond: 10}, {Processes: 1000, PerSecond: 1}}
		scale = "a tenth of the fleet, 1,000 calls a second (-full: 10,000), with the server scaled alike"
	}
	fmt.Printf("Virtual time, real outbound.Transports, %s, seed %d.\n", scale, *seed)
	fmt.Println(fleet.Model)
	var product []*fleet.Result
	for i, shape := range shapes {
		for _, outage := range fleet.Outages {
			results := compare(t, shape, outage)
			fleet.PrintTable(os.Stdout, results)
			product = append(product, ofProduct(results)...)
			if i == 0 {
				chart(t, outage, results)
			}
		}
	}
	worst := worstOutages(t)
	fmt.Printf("\nGoals: %s\n\n", fleet.Goals)
	fleet.PrintGoals(os.Stdout, product)
	fmt.Printf("\nGoals in the worst of these outages of 25 to 36 s:\n\n")
	fleet.PrintGoals(os.Stdout, worst)
	fmt.Printf("\nTook %v.\n", time.Since(begin).Round(time.Second))
	if !t.Failed() {
		os.Exit(0) // testing would say PASS, which is no news here
	}
}

// chosen are the policies that were asked for.
func chosen(t *testing.T) []fleet.Policy {
	names, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	policies := slices.DeleteFunc(slices.Clone(fleet.Policies), func(p fleet.Policy) bool { return !names.MatchString(p.Name) })
	if len(policies) == 0 {
		t.Fatalf("no policy matches %q", *only)
	}
	return policies
}

// ofProduct are the results that the goals are for.
func ofProduct(results []*fleet.Result) []*fleet.Result {
	return slices.DeleteFunc(slices.Clone(results), func(r *fleet.Result) bool { return !r.Setup.Policy.Product })
}

// compare runs all policies through one outage of 30 s.
func compare(t *testing.T, shape fleet.Shape, outage fleet.Outage) []*fleet.Result {
	var setups []fleet.Setup
	for _, policy := range chosen(t) {
		setups = append(setups, fleet.Setup{Shape: shape, Outage: outage, Policy: policy, Seed: *seed,
			Before: 5 * time.Second, During: 30 * time.Second, After: 40 * time.Second})
	}
	return runAll(t, setups)
}

// worstOutages are the worst figures of the product over outages of 25 to 36 s: where an outage ends within an open period
// decides what is lost. They are always of a tenth of the fleet.
func worstOutages(t *testing.T) []*fleet.Result {
	shape := fleet.Shape{Processes: 100, PerSecond: 10}
	var worst []*fleet.Result
	for _, outage := range fleet.Outages {
		for _, policy := range []fleet.Policy{fleet.Defaults, fleet.Untouched} {
			worst = append(worst, fleet.Worst(runAll(t, fleet.Worsening(shape, outage, policy, *seed))))
		}
	}
	fmt.Printf("\n#### The worst over outages of 25 to 36 s in steps of 1 s, %s\n\n", shape)
	fleet.PrintWorst(os.Stdout, worst)
	return worst
}

// runAll runs setups side by side; each keeps one core busy.
func runAll(t *testing.T, setups []fleet.Setup) []*fleet.Result {
	results := make([]*fleet.Result, len(setups))
	t.Run("group", func(t *testing.T) {
		for i, setup := range setups {
			t.Run(setup.Policy.Name, func(t *testing.T) {
				t.Parallel()
				results[i] = fleet.Run(t, setup)
			})
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	return results
}

func chart(t *testing.T, outage fleet.Outage, results []*fleet.Result) {
	if *charts == "" {
		return
	}
	if err := os.MkdirAll(*charts, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(*charts, outage.ID()+".svg"))
	if err != nil {
		t.Fatal(err)
	}
	if err := fleet.WriteChart(file, results); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}
