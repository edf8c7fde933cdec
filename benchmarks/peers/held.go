package peers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/outbound-go/outbound"
	"github.com/sony/gobreaker/v2"
)

// Upload is what became of a large request body.
type Upload struct {
	Held   int64   // heap in use while the first attempt was out, above what it was before
	Copied int64   // allocated by a whole call that went well at once
	Sent   []int64 // how much of the body each attempt carried where the first was answered with 503
	Status int     // how that call ended; 0: with an error
}

// Bodies can be read again, as the request has GetBody, or only once.
const (
	WithGetBody    = true
	WithoutGetBody = false
)

// MeasureUpload sends a body of that size through a transport in memory.
func MeasureUpload(p Peer, size int64, getBody bool) Upload {
	var u Upload
	body := source(size, getBody)
	_, u.Copied = spent(func() { upload(p, body(), 0, nil) })
	before := heap()
	u.Status = upload(p, body(), 1, func(sent int64) {
		if len(u.Sent) == 0 {
			u.Held = heap() - before
		}
		u.Sent = append(u.Sent, sent)
	})
	return u
}

// source makes a []byte, which every peer can read again, or a reader that nobody knows.
func source(size int64, getBody bool) func() any {
	if !getBody {
		return func() any { return struct{ io.Reader }{io.LimitReader(zeros{}, size)} }
	}
	all := make([]byte, size)
	return func() any { return all }
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func upload(p Peer, body any, fails int, onSent func(int64)) (status int) {
	m := newMemory(nil)
	m.fails, m.onSent = fails, onSent
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	status, _, _ = p.send(m.base(), options{})(ctx, http.MethodPost, memoryURL, body)
	return status
}

// heap is how much is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools kept over the first one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// spent is what f allocated.
func spent(f func()) (allocs, bytes int64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.Mallocs - before.Mallocs), int64(after.TotalAlloc - before.TotalAlloc)
}

// Hosts is what a peer keeps of many hosts.
type Hosts struct {
	Name       string
	Bytes      int64 // heap a host
	Goroutines int
	Kept       int // how many of the hosts are remembered
}

// MeasureHosts calls each of n hosts once and weighs what stays. Only outbound keeps a breaker per host by itself; the other
// breakers are kept in a map, as one would write it.
func MeasureHosts(n int) []Hosts {
	return []Hosts{
		weigh("gobreaker in a map", n, gobreakers),
		weigh("failsafe-go in a map", n, failsafes),
		weigh("outbound, MaxCircuits raised", n, circuits(n)),
		weigh("outbound, default", n, circuits(0)),
	}
}

func weigh(name string, n int, keep func(n int) (kept any, count int)) Hosts {
	goroutines, before := runtime.NumGoroutine(), heap()
	kept, count := keep(n)
	h := Hosts{Name: name, Bytes: (heap() - before) / int64(n), Goroutines: runtime.NumGoroutine() - goroutines, Kept: count}
	runtime.KeepAlive(kept)
	return h
}

func gobreakers(n int) (any, int) {
	m := map[string]*gobreaker.CircuitBreaker[*http.Response]{}
	for i := range n {
		m[host(i)] = newGobreaker(host(i))
	}
	return m, len(m)
}

func failsafes(n int) (any, int) {
	m := map[string]circuitbreaker.CircuitBreaker[*http.Response]{}
	for i := range n {
		m[host(i)] = newFailsafeBreaker()
	}
	return m, len(m)
}

func circuits(limit int) func(int) (any, int) {
	return func(n int) (any, int) {
		t := newOutbound(newMemory(nil).base(), options{hosts: limit}).(*outbound.Transport)
		send := over(&http.Client{Transport: t})
		for i := range n {
			if _, _, err := send(context.Background(), http.MethodGet, host(i), nil); err != nil {
				panic(err) // nothing in it can fail
			}
		}
		return t, len(t.Circuits())
	}
}

func host(i int) string { return fmt.Sprintf("http://h%06d.example.com:8080", i) }
