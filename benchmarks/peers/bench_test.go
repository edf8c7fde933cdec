package peers

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

// BenchmarkPeers has a benchmark for each case and peer, named Peers/case/peer: -bench 'Peers/RoundTripper_alone,_GET/outbound'.
func BenchmarkPeers(b *testing.B) {
	for _, c := range Cases() {
		b.Run(c.Name, func(b *testing.B) {
			for _, p := range All() {
				if c.Takes(p) {
					b.Run(p.Name, func(b *testing.B) { run(b, c, p) })
				}
			}
		})
	}
}

func run(b *testing.B, c Case, p Peer) {
	work := c.Start(p, nil)
	defer work.Close()
	b.ReportAllocs()
	if c.Goroutines == 1 {
		op := work.Worker()
		for b.Loop() {
			if err := op(); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.SetParallelism(max(c.Goroutines/runtime.GOMAXPROCS(0), 1))
	b.RunParallel(func(pb *testing.PB) {
		op := work.Worker()
		for pb.Next() {
			if err := op(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// TestSameWork runs every case once for every peer, and looks at what went over the wire.
func TestSameWork(t *testing.T) {
	for _, c := range Cases() {
		for _, p := range All() {
			if c.Takes(p) {
				t.Run(c.Name+"/"+p.Name, func(t *testing.T) { checkWork(t, c, p) })
			}
		}
	}
}

func checkWork(t *testing.T, c Case, p Peer) {
	var wire Wire
	work := c.Start(p, &wire)
	defer work.Close()
	op := work.Worker()
	const times = 3
	for range times {
		if err := op(); err != nil {
			t.Fatal(err)
		}
	}
	want := int64(times * c.Requests)
	if got := wire.Requests.Load(); got != want {
		t.Errorf("%d requests on the wire, want %d", got, want)
	}
	posts := strings.Contains(c.Name, "POST") || c.Name == Retried
	if !posts {
		want = 0
	}
	if got := wire.Bytes.Load(); got != want*payloadSize {
		t.Errorf("%d bytes sent, want %d", got, want*payloadSize)
	}
	if !p.Key {
		want = 0
	}
	if got := wire.Keys.Load(); got != want {
		t.Errorf("%d requests with a key, want %d", got, want)
	}
}

// TestUploads checks that outbound holds no body and sends none in part. It does not judge the others.
func TestUploads(t *testing.T) {
	const size = 1 << 20
	for _, p := range All() {
		for _, getBody := range []bool{WithGetBody, WithoutGetBody} {
			u := MeasureUpload(p, size, getBody)
			if len(u.Sent) == 0 || u.Sent[0] != size {
				t.Errorf("%s sent %v, want %d at first", p.Name, u.Sent, size)
			}
			if p.Name == Outbound && (u.Held >= 64<<10 || slices.ContainsFunc(u.Sent, func(n int64) bool { return n != size })) {
				t.Errorf("outbound, GetBody %v: %+v", getBody, u)
			}
		}
	}
}

// TestHosts allows fewer goroutines than before: one of an earlier test may end meanwhile.
func TestHosts(t *testing.T) {
	const hosts = 5000
	for _, h := range MeasureHosts(hosts) {
		if h.Goroutines > 0 || h.Bytes <= 0 || h.Kept == 0 || h.Kept > hosts {
			t.Errorf("%+v", h)
		}
	}
}
