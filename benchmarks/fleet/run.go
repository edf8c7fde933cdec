package fleet

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Run plays a setup in virtual time. It must not be called from within a bubble.
func Run(t *testing.T, s Setup) *Result {
	t.Helper()
	var r *Result
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		f := &fleet{setup: s, start: start, server: newServer(s, start), calls: newSeries(start, s.total()), good: newSeries(start, s.total())}
		f.hire(t)
		f.play()
		f.inFlight.Wait()
		r = f.result()
	})
	return r
}

// fleet is all processes of a run.
type fleet struct {
	setup       Setup
	start       time.Time
	server      *server
	processes   []process // in the order of their phases
	calls, good *series   // by the moment when the call was made
	inFlight    sync.WaitGroup
}

type process struct {
	client http.RoundTripper
	phase  time.Duration // when in its period it calls
}

// hire gives each process a phase of its own: drawn at random, but one in each equal part of the period, so that the normal
// load of a small fleet is as smooth as that of a large one.
func (f *fleet) hire(t *testing.T) {
	rng := rand.New(rand.NewPCG(f.setup.Seed, 1))
	slot := f.period() / time.Duration(f.setup.Shape.Processes)
	for i := range f.setup.Shape.Processes {
		client, err := f.setup.Policy.client(f.server)
		if err != nil {
			t.Fatal(err)
		}
		f.processes = append(f.processes, process{client, time.Duration(i)*slot + time.Duration(rng.Int64N(int64(slot)))})
	}
}

func (f *fleet) period() time.Duration { return time.Second / time.Duration(f.setup.Shape.PerSecond) }

// play makes all calls in their time, each on a goroutine of its own, as a busy process does.
func (f *fleet) play() {
	for at := time.Duration(0); at < f.setup.total(); at += f.period() {
		for i := range f.processes {
			time.Sleep(time.Until(f.start.Add(at + f.processes[i].phase)))
			f.inFlight.Go(func() { f.call(f.processes[i].client) })
		}
	}
}

// call is a keyed POST.
func (f *fleet) call(client http.RoundTripper) {
	made := time.Now()
	f.calls.add(made)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://server.test/charges", strings.NewReader("{}"))
	if err != nil {
		panic(err)
	}
	resp, err := client.RoundTrip(req)
	if err != nil {
		return
	}
	_ = resp.Body.Close()
	if resp.StatusCode < 300 {
		f.good.add(made)
	}
}
