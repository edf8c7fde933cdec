// Command compare runs outbound and the other clients of its field through the same work, side by side in one run, and prints
// what each costs and which of the goals outbound meets.
//
// The peers take turns within each round, and each figure is the median over the rounds. A ratio is taken within a round
// first, so that what else the machine does meanwhile cancels out as far as it can. Allocations repeat exactly; times are
// good to some 15 to 25 % on a shared machine.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/outbound-go/outbound/benchmarks/peers"
)

// plan is how much is measured.
type plan struct {
	rounds int
	sample time.Duration // how long one peer works at one case in one round
	body   int64
	hosts  int
}

func main() {
	p := plan{sample: 60 * time.Millisecond, body: 64 << 20, hosts: 100_000}
	flag.IntVar(&p.rounds, "rounds", 8, "how often each peer gets its turn at each case")
	short := flag.Bool("short", false, "a smoke run of a few seconds: its figures mean nothing")
	flag.Parse()
	if *short {
		p = plan{rounds: 2, sample: time.Millisecond, body: 1 << 20, hosts: 5_000}
	}
	if p.rounds < 1 {
		fmt.Fprintln(os.Stderr, "compare: -rounds must be at least 1")
		os.Exit(2)
	}
	if err := compare(p); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(p plan) error {
	describe(p)
	times, err := measure(p)
	if err != nil {
		return err
	}
	uploads := measureUploads(p.body)
	hosts := peers.MeasureHosts(p.hosts)
	printTimes(times)
	printUploads(uploads, p.body)
	printHosts(hosts, p.hosts)
	printGoals(goals(times, uploads, hosts, p))
	return nil
}

func measureUploads(size int64) map[string][2]peers.Upload {
	uploads := map[string][2]peers.Upload{}
	for _, peer := range peers.All() {
		uploads[peer.Name] = [2]peers.Upload{
			peers.MeasureUpload(peer, size, peers.WithGetBody),
			peers.MeasureUpload(peer, size, peers.WithoutGetBody),
		}
	}
	return uploads
}
