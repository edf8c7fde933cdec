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
	floor    float64 // what the duties alone take; 0: not measured
}

// beside is the goal with what the duties alone take.
func (g goal) beside(floor float64) goal {
	g.floor = floor
	return g
}

func (g goal) floorText() string {
	if g.floor == 0 || math.IsNaN(g.floor) {
		return "–"
	}
	return fmt.Sprintf(g.format, g.floor)
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
	added := func(number int, what, name string, limit float64) goal {
		return goal{number: number, what: what, measured: r.added(name, peers.Outbound), limit: limit, format: count}.beside(r.added(name, peers.Floor))
	}
	over := func(number int, what, name, peer string, limit float64) goal {
		return goal{number: number, what: what, measured: r.over(name, peers.Outbound, peer), limit: limit, format: times}.beside(r.over(name, peers.Floor, peer))
	}
	return []goal{
		added(1, "GET, RoundTripper alone: allocations added", peers.AloneGET, 12),
		over(2, "the same: time over the hand-written chain's", peers.AloneGET, peers.Handwritten, 0.70),
		over(2, "the same: time over failsafe-go's", peers.AloneGET, peers.Failsafe, 0.55),
		added(3, "POST 1 KiB with key, RoundTripper alone: allocations added", peers.AlonePOST, 15),
		over(4, "the same: time over the hand-written chain's", peers.AlonePOST, peers.Handwritten, 0.65),
		goal{number: 5, what: "loopback, 64 goroutines: calls/s over net/http's", measured: 1 / r.over(peers.Concurrent, peers.Outbound, peers.Raw), limit: 0.95, atLeast: true, format: times}.
			beside(1 / r.over(peers.Concurrent, peers.Floor, peers.Raw)),
		added(6, "loopback, GET: allocations added", peers.GotOnce, 18),
		over(6, "the same: time over net/http's with Client.Timeout", peers.GotOnce, peers.RawTimeout, 1.05),
		{number: 7, what: "503, 503, 200, whole call: allocations, without http.Transport's own", measured: r.retried(), limit: 60, format: count},
		over(7, "the same: time over the hand-written chain's", peers.Retried, peers.Handwritten, 0.65),
		over(8, "open circuit: time over the hand-written chain's", peers.Open, peers.Handwritten, 0.30),
		{number: 8, what: "the same: allocations", measured: r.allocs(peers.Open, peers.Outbound), limit: 1, format: count},
		goal{number: 9, what: "1 to 2 cores: speed-up over net/http's", measured: r.speedupOver(peers.Outbound, peers.Raw), limit: 0.95, atLeast: true, format: times}.
			beside(r.speedupOver(peers.Floor, peers.Raw)),
	}
}

func bodyGoals(u [2]peers.Upload, whole int64) []goal {
	with, without, body := u[0], u[1], bytes(float64(whole))
	return []goal{
		{number: 10, what: body + " without GetBody: heap held", measured: max(float64(without.Held), 0), limit: small, format: size},
		{number: 10, what: "the same, 503 at first: attempts with an empty or partial body", measured: float64(partial(without.Sent, whole)), format: count},
		{number: 11, what: body + " with GetBody: allocated by the call", measured: float64(with.Copied), limit: small, format: size},
	}
}

func hostGoals(hosts []peers.Hosts) []goal {
	raised, bounded := hosts[len(hosts)-2], hosts[len(hosts)-1]
	return []goal{
		{number: 12, what: "state of a host", measured: float64(raised.Bytes), limit: 600, format: size},
		{number: 12, what: "the same: goroutines", measured: float64(raised.Goroutines), format: count},
		{number: 12, what: "hosts remembered by default", measured: float64(bounded.Kept), limit: 4096, format: count},
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

// added is what a peer allocates on top of the transport beneath it.
func (r results) added(name, peer string) float64 {
	return math.Round(r[name][peer].median().allocs - r[name][peers.Raw].median().allocs)
}

func (r results) over(name, peer, other string) float64 {
	return ratio(r[name][peer], r[name][other])
}

// retried leaves out what an http.Transport allocates by itself for a request with a body, three times here.
func (r results) retried() float64 {
	own := r.allocs(peers.AlonePOST, peers.Raw) - r.allocs(peers.AloneGET, peers.Raw)
	return r.allocs(peers.Retried, peers.Outbound) - 3*own
}

// speedupOver is NaN on a machine with one core.
func (r results) speedupOver(peer, than string) float64 {
	own, other := r.speedups(peer), r.speedups(than)
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
	fmt.Println("The duties alone are the smallest program that does once what outbound can't leave out: where they miss a goal, it is out of reach.")
	fmt.Println()
	fmt.Println("| # | what | measured | the duties alone | goal | |")
	fmt.Println("|---|---|---:|---:|---:|---|")
	for _, g := range list {
		sign, word := "≤", "met"
		if g.atLeast {
			sign = "≥"
		}
		if !g.met() {
			word = "**not met**"
		}
		fmt.Printf("| %d | %s | %s | %s | %s %s | %s |\n", g.number, g.what, fmt.Sprintf(g.format, g.measured), g.floorText(), sign, fmt.Sprintf(g.format, g.limit), word)
	}
}
