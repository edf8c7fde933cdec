package outbound

import (
	"container/heap"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// usage is what the registry keeps of each circuit.
type usage struct {
	lastUsed atomic.Int64 // nanoseconds since the registry's epoch
	evicted  atomic.Bool
	rank     int64 // lastUsed as the heap last saw it; guarded by registry.mu
}

// registry holds the circuits, at most max of them. A call that goes where the last one went takes no lock.
//
// The heap is ordered by ranks that may be out of date; a rank can only grow, so the least one is brought up to date until
// it is still the least. That finds the longest unused circuit without a scan, and costs a hit one atomic store.
type registry struct {
	policy BreakerPolicy
	hook   func(CircuitChange)
	epoch  time.Time
	last   atomic.Pointer[route]

	mu       sync.Mutex
	byTarget map[string]*circuit
	byRank   circuitHeap
}

// route remembers which circuit a URL's scheme and host, as they were written, led to.
type route struct {
	scheme, host string
	circuit      *circuit
}

func newRegistry(p BreakerPolicy, hook func(CircuitChange)) *registry {
	return &registry{policy: p, hook: hook, epoch: time.Now(), byTarget: make(map[string]*circuit)}
}

// forURL is the circuit of scheme://host:port. It is nil where all places are taken by circuits that must stay: then the
// new target goes without one.
func (r *registry) forURL(u *url.URL, now time.Time) *circuit {
	if last := r.last.Load(); last != nil && last.scheme == u.Scheme && last.host == u.Host && !last.circuit.evicted.Load() {
		r.touch(last.circuit, now)
		return last.circuit
	}
	scheme, host := normalOrigin(u)
	c := r.named(scheme+"://"+host, now)
	if c != nil {
		r.last.Store(&route{scheme: u.Scheme, host: u.Host, circuit: c})
	}
	return c
}

// named is the circuit of a target; nil as in forURL.
func (r *registry) named(target string, now time.Time) *circuit {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.byTarget[target]
	if c == nil {
		if len(r.byTarget) >= r.policy.MaxCircuits && !r.evict(now) {
			return nil
		}
		c = newCircuit(target, r.policy, r.hook)
		c.rank = r.since(now)
		r.byTarget[target] = c
		heap.Push(&r.byRank, c)
	}
	r.touch(c, now)
	return c
}

func (r *registry) touch(c *circuit, now time.Time) { c.lastUsed.Store(r.since(now)) }

func (r *registry) since(t time.Time) int64 { return int64(t.Sub(r.epoch)) }

// evict lets the longest unused circuit go that is closed, or open past its time, and reports whether there was one.
func (r *registry) evict(now time.Time) bool {
	for len(r.byRank) > 0 {
		least := r.byRank[0]
		if rank := r.currentRank(least, now); rank != least.rank {
			least.rank = rank
			heap.Fix(&r.byRank, 0)
			continue
		}
		if least.rank > r.since(now) {
			return false
		}
		r.drop(least)
		return true
	}
	return false
}

// currentRank is when the circuit was last of use; past now for one that has to stay.
func (r *registry) currentRank(c *circuit, now time.Time) int64 {
	s := c.standing.Load()
	switch {
	case s.state == CircuitOpen && !now.After(s.nextProbe):
		return max(r.since(s.nextProbe), r.since(now)+1)
	case c.inFlight.Load() > 0:
		return r.since(now) + 1
	default:
		return max(c.lastUsed.Load(), c.rank)
	}
}

func (r *registry) drop(c *circuit) {
	heap.Pop(&r.byRank)
	delete(r.byTarget, c.target)
	c.evicted.Store(true)
}

// snapshot lists the circuits by target.
func (r *registry) snapshot() []Circuit {
	r.mu.Lock()
	circuits := slices.Clone(r.byRank)
	r.mu.Unlock()
	list := make([]Circuit, len(circuits))
	for i, c := range circuits {
		list[i] = c.snapshot()
	}
	slices.SortFunc(list, func(a, b Circuit) int { return strings.Compare(a.Target, b.Target) })
	return list
}

// circuitHeap is a heap of circuits by rank.
type circuitHeap []*circuit

func (h circuitHeap) Len() int           { return len(h) }
func (h circuitHeap) Less(i, j int) bool { return h[i].rank < h[j].rank }
func (h circuitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is heap.Interface's.
func (h *circuitHeap) Push(x any) {
	*h = append(*h, x.(*circuit))
}

// Pop is heap.Interface's.
func (h *circuitHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return c
}

// normalOrigin is the scheme and host:port of a URL, in lower case and with the port spelled out, so that one server has
// one name.
func normalOrigin(u *url.URL) (scheme, host string) {
	scheme = strings.ToLower(u.Scheme)
	port := u.Port()
	if port == "" {
		port = defaultPorts[scheme]
	}
	return scheme, net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// methodOf is the request's method; an empty one means GET.
func methodOf(req *http.Request) string { return orDefault(req.Method, http.MethodGet) }
