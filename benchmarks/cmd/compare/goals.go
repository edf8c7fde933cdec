package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/outbound-go/outbound/benchmarks/peers"
)

// goal is one line of what outbound has to reach.
type goal struct {
	number   int
	what     string
	measured float64
	limit    float64
	atLeast  bool // else at most
	format   string
}

func (g goal) met() bool {
	if math.IsNaN(g.measured) {
		return false
	}
	if g.atLeast {
		return g.measured >= g.limit
	}
	return g.measured <= g.limit
}

const (
	times = "%.2f ×"
	count = "%.0f"
	size  = "%.0f B"
)

// small is what counts as nothing where large bodies are held or copied.
const small = 64 << 10

func goals(r results, uploads map[string][2]peers.Upload, hosts []peers.Hosts, p plan) []goal {
	return slices.Concat(speedGoals(r), bodyGoals(uploads[peers.Outbound], p.body), hostGoals(hosts))
}

func speedGoals(r results) []goal {
	return []goal{
		{1, "GET, RoundTripper alone: allocations added", r.added(peers.AloneGET), 12, false, count},
		{2, "the same: time over the hand-written chain's", r.over(peers.AloneGET, peers.Handwritten), 0.70, false, times},
		{2, "the same: time over failsafe-go's", r.over(peers.AloneGET, peers.Failsafe), 0.55, false, times},
		{3, "POST 1 KiB with key, RoundTripper alone: allocations added", r.added(peers.AlonePOST), 15, false, count},
		{4, "the same: time over the hand-written chain's", r.over(peers.AlonePOST, peers.Handwritten), 0.65, false, times},
		{5, "loopback, 64 goroutines: calls/s over net/http's", 1 / r.over(peers.Concurrent, peers.Raw), 0.95, true, times},
		{6, "loopback, GET: allocations added", r.added(peers.GotOnce), 18, false, count},
		{6, "the same: time over net/http's with Client.Timeout", r.over(peers.GotOnce, peers.RawTimeout), 1.05, false, times},
		{7, "503, 503, 200, whole call: allocations, without http.Transport's own", r.retried(), 60, false, count},
		{7, "the same: time over the hand-written chain's", r.over(peers.Retried, peers.Handwritten), 0.65, false, times},
		{8, "open circuit: time over the hand-written chain's", r.over(peers.Open, peers.Handwritten), 0.30, false, times},
		{8, "the same: allocations", r.allocs(peers.Open, peers.Outbound), 1, false, count},
		{9, "1 to 2 cores: speed-up over net/http's", r.speedupOver(peers.Raw), 0.95, true, times},
	}
}

func bodyGoals(u [2]peers.Upload, whole int64) []goal {
	with, without, body := u[0], u[1], bytes(float64(whole))
	return []goal{
		{10, body + " without GetBody: heap held", max(float64(without.Held), 0), small, false, size},
		{10, "the same, 503 at first: attempts with an empty or partial body", float64(partial(without.Sent, whole)), 0, false, count},
		{11, body + " with GetBody: allocated by the call", float64(with.Copied), small, false, size},
	}
}

func hostGoals(hosts []peers.Hosts) []goal {
	raised, bounded := hosts[len(hosts)-2], hosts[len(hosts)-1]
	return []goal{
		{12, "state of a host", float64(raised.Bytes), 600, false, size},
		{12, "the same: goroutines", float64(raised.Goroutines), 0, false, count},
		{12, "hosts remembered by default", float64(bounded.Kept), 4096, false, count},
	}
}

func partial(sent []int64, whole int64) (n int) {
	for _, s := range sent {
		if s != whole {
			n++
		}
	}
	return n
}

func (r results) allocs(name, peer string) float64 {
	return math.Round(r[name][peer].median().allocs)
}

// added is what outbound allocates on top of the transport beneath it.
func (r results) added(name string) float64 {
	return math.Round(r[name][peers.Outbound].median().allocs - r[name][peers.Raw].median().allocs)
}

func (r results) over(name, peer string) float64 {
	return ratio(r[name][peers.Outbound], r[name][peer])
}

// retried leaves out what an http.Transport allocates by itself for a request with a body, three times here.
func (r results) retried() float64 {
	own := r.allocs(peers.AlonePOST, peers.Raw) - r.allocs(peers.AloneGET, peers.Raw)
	return r.allocs(peers.Retried, peers.Outbound) - 3*own
}

// speedupOver is NaN on a machine with one core.
func (r results) speedupOver(peer string) float64 {
	own, other := r.speedups(peers.Outbound), r.speedups(peer)
	if len(own) == 0 {
		return math.NaN()
	}
	for i := range own {
		own[i] /= other[i]
	}
	return median(own)
}

func printGoals(list []goal) {
	fmt.Println("### Goals")
	fmt.Println()
	fmt.Println("| # | what | measured | goal | |")
	fmt.Println("|---|---|---:|---:|---|")
	for _, g := range list {
		sign, word := "≤", "met"
		if g.atLeast {
			sign = "≥"
		}
		if !g.met() {
			word = "**not met**"
		}
		fmt.Printf("| %d | %s | %s | %s %s | %s |\n", g.number, g.what, fmt.Sprintf(g.format, g.measured), sign, fmt.Sprintf(g.format, g.limit), word)
	}
}
