package outbound

import (
	"container/heap"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// target is what is kept per target: its circuit, its retry budget, its bulkhead.
type target struct {
	circuit circuit
	budget  budget
	slots   chan struct{} // nil: no bulkhead
	calls   atomic.Int64  // under way, until the reply is done with; they keep the target in the registry. Below zero: it has left

	// For the registry.
	lastUsed atomic.Int64 // nanoseconds since its epoch
	rank     int64        // lastUsed as the heap last saw it; guarded by registry.mu
}

// registry holds the targets, at most BreakerPolicy.MaxCircuits of them. A call that goes where the last one went takes no
// lock.
//
// The heap is ordered by ranks that may be out of date; a rank can only grow, so the least one is brought up to date until
// it is still the least. That finds the longest unused target without a scan, and costs a hit one atomic store. With
// Config.Target each call takes the lock, for a look into the map.
type registry struct {
	make  func(name string) *target
	limit int
	epoch time.Time
	last  atomic.Pointer[route]

	mu     sync.Mutex
	byName map[string]*target
	byRank targetHeap
}

// route remembers which target a URL's scheme and host, as they were written, led to.
type route struct {
	scheme, host string
	target       *target
}

func newRegistry(limit int, make func(name string) *target) *registry {
	return &registry{make: make, limit: limit, epoch: time.Now(), byName: map[string]*target{}}
}

// forURL is the target of scheme://host:port. It is nil where all places are taken by targets that must stay: then the new
// one goes without circuit, budget and bulkhead.
func (r *registry) forURL(u *url.URL, now time.Time) *target {
	if last := r.last.Load(); last != nil && last.scheme == u.Scheme && last.host == u.Host && last.target.calls.Load() >= 0 {
		r.touch(last.target, now)
		return last.target
	}
	scheme, host := normalOrigin(u)
	t := r.named(scheme+"://"+host, now)
	if t != nil {
		r.last.Store(&route{scheme: u.Scheme, host: u.Host, target: t})
	}
	return t
}

// named is the target of that name; nil as in forURL.
func (r *registry) named(name string, now time.Time) *target {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.byName[name]
	if t == nil {
		if len(r.byName) >= r.limit && !r.evict(time.Now()) {
			return nil
		}
		t = r.make(name)
		t.rank = r.since(now)
		r.byName[name] = t
		heap.Push(&r.byRank, t)
	}
	r.touch(t, now)
	return t
}

func (r *registry) touch(t *target, now time.Time) { t.lastUsed.Store(r.since(now)) }

func (r *registry) since(t time.Time) int64 { return int64(t.Sub(r.epoch)) }

// evict lets the longest unused target go whose circuit is not open in time, and reports whether there was one.
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
		if r.drop(least) {
			return true
		}
	}
	return false
}

// currentRank is when the target was last of use; past now for one that has to stay.
func (r *registry) currentRank(t *target, now time.Time) int64 {
	if until := t.circuit.openUntil(now); !until.IsZero() {
		return max(r.since(until), r.since(now)+1)
	}
	if t.calls.Load() > 0 {
		return r.since(now) + 1
	}
	return max(t.lastUsed.Load(), t.rank)
}

// left is how many calls a target has that was taken out of the registry, give or take those that find that out just now.
const left = math.MinInt64 / 2

// drop takes the least target out, unless a call has begun there meanwhile.
func (r *registry) drop(t *target) bool {
	if !t.calls.CompareAndSwap(0, left) {
		return false
	}
	heap.Pop(&r.byRank)
	delete(r.byName, t.circuit.target)
	return true
}

// snapshot lists the targets by name.
func (r *registry) snapshot() []Circuit {
	r.mu.Lock()
	targets := slices.Clone(r.byRank)
	r.mu.Unlock()
	list := make([]Circuit, len(targets))
	for i, t := range targets {
		list[i] = t.snapshot()
	}
	slices.SortFunc(list, func(a, b Circuit) int { return strings.Compare(a.Target, b.Target) })
	return list
}

func (t *target) snapshot() Circuit {
	s := Circuit{Target: t.circuit.target, CallsInFlight: int(max(t.calls.Load(), 0)), BudgetLeft: t.budget.left(time.Now())}
	if t.circuit.breaker != nil {
		t.circuit.describe(&s, t.budget.epoch)
	}
	return s
}

// targetHeap is a heap of targets by rank.
type targetHeap []*target

func (h targetHeap) Len() int           { return len(h) }
func (h targetHeap) Less(i, j int) bool { return h[i].rank < h[j].rank }
func (h targetHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is heap.Interface's.
func (h *targetHeap) Push(x any) {
	*h = append(*h, x.(*target))
}

// Pop is heap.Interface's.
func (h *targetHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return t
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
