package soak

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"time"
)

// maxHeapGrowth is what a heap may grow by over a soak. What a client holds for good (pools, circuits, the tables of the
// standard library) is far below; what it forgets to let go comes to more within seconds.
const maxHeapGrowth = 10 << 20

// Footprint is what a process holds at one moment.
type Footprint struct {
	Heap       uint64 // bytes in use after a garbage collection
	Goroutines int
}

// measure takes the footprint. Two collections, because a sync.Pool gives its content back only in the second.
func measure() Footprint {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Footprint{Heap: m.HeapAlloc, Goroutines: runtime.NumGoroutine()}
}

// until waits for a condition, for a bounded time, and reports whether it came true.
func until(limit time.Duration, condition func() bool) bool {
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
	return true
}

// goroutinesGone waits until there are no more goroutines than n. If some stay, it returns their stacks.
func goroutinesGone(n int, limit time.Duration) (left int, stacks string) {
	if until(limit, func() bool { return runtime.NumGoroutine() <= n }) {
		return 0, ""
	}
	var out bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&out, 1)
	return max(0, runtime.NumGoroutine()-n), out.String()
}
