package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/outbound-go/outbound"
)

// HostConfig says how many hosts to call, and how often.
type HostConfig struct {
	Hosts   int
	Calls   int
	Failing int // one host in so many fails, and its circuit opens and stays open; 0: none
}

// HostReport is what the calls have shown.
type HostReport struct {
	Calls       int
	Hosts       int
	MaxCircuits int // the most there may be
	Most        int // the most that were seen
	Open        int // in the end
	Refused     int // calls that an open circuit refused
	Growth      int64
	Took        time.Duration
}

const maxCircuits = 4096

// Hosts calls more hosts than there may be circuits. The hosts are made up: so many connections would use up the ports of
// this machine, and a circuit does not care.
func Hosts(cfg HostConfig) (*HostReport, error) {
	if cfg.Hosts < 1 || cfg.Calls < 1 {
		return nil, fmt.Errorf("there are %d calls to %d hosts to make; there must be at least 1 of each", cfg.Calls, cfg.Hosts)
	}
	t, err := outbound.New(outbound.Config{
		Base:    hosts{cfg.Failing},
		Retry:   outbound.RetryPolicy{MaxAttempts: 1},
		Breaker: outbound.BreakerPolicy{ConsecutiveFailures: 1, OpenFor: time.Hour, MaxCircuits: maxCircuits},
	})
	if err != nil {
		return nil, err
	}
	r := &HostReport{Calls: cfg.Calls, Hosts: cfg.Hosts, MaxCircuits: maxCircuits}
	before, began := measure(), time.Now()
	if err := r.callAll(t, cfg); err != nil {
		return nil, err
	}
	r.Took = time.Since(began)
	r.Growth = int64(measure().Heap) - int64(before.Heap)
	for _, c := range t.Circuits() {
		if c.State == outbound.CircuitOpen {
			r.Open++
		}
	}
	return r, nil
}

// callAll calls the hosts in turn, again and again, and looks at the circuits now and then.
func (r *HostReport) callAll(t *outbound.Transport, cfg HostConfig) error {
	const callers, look = 32, 2_000
	var next, refused, most atomic.Int64
	team := newTeam(func() {})
	for range callers {
		team.goes(func() error {
			for n := next.Add(1); n <= int64(cfg.Calls); n = next.Add(1) {
				wasRefused, err := callHost(t, int(n)%cfg.Hosts)
				if err != nil {
					return err
				}
				if wasRefused {
					refused.Add(1)
				}
				if n%look == 0 || n == int64(cfg.Calls) {
					raise(&most, int64(len(t.Circuits())))
				}
			}
			return nil
		})
	}
	err := team.wait()
	r.Most, r.Refused = int(most.Load()), int(refused.Load())
	return err
}

func raise(most *atomic.Int64, n int64) {
	for m := most.Load(); n > m; m = most.Load() {
		if most.CompareAndSwap(m, n) {
			return
		}
	}
}

// callHost makes one call, and reports whether its circuit refused it.
func callHost(t *outbound.Transport, n int) (refused bool, err error) {
	url := fmt.Sprintf("http://host-%d.test/%d", n, n)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	resp, err := t.RoundTrip(req)
	if errors.Is(err, outbound.ErrCircuitOpen) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, resp.Body.Close()
}

// hosts answers for all of them.
type hosts struct{ failing int }

func (h hosts) RoundTrip(req *http.Request) (*http.Response, error) {
	var n int
	if _, err := fmt.Sscanf(req.URL.Path, "/%d", &n); err != nil {
		return nil, err
	}
	status := http.StatusOK
	if h.failing > 0 && n%h.failing == 0 {
		status = http.StatusServiceUnavailable
	}
	return &http.Response{
		StatusCode: status,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{},
		Body:       io.NopCloser(strings.NewReader("")),
		Request:    req,
	}, nil
}

// Verdict is nil if there were never more circuits than there may be, and the heap shows it.
func (r *HostReport) Verdict() error {
	var errs []error
	if r.Most > r.MaxCircuits {
		errs = append(errs, fmt.Errorf("there were %d circuits; there may be %d", r.Most, r.MaxCircuits))
	}
	if r.Most == 0 {
		errs = append(errs, errors.New("no circuit was seen, so nothing is proven"))
	}
	if r.Growth > maxHeapGrowth {
		errs = append(errs, fmt.Errorf("the heap grew by %s, more than %s", mib(r.Growth), mib(maxHeapGrowth)))
	}
	return errors.Join(errs...)
}

// Print writes the report.
func (r *HostReport) Print(w io.Writer) {
	p := printer{w}
	p.line("calls                       %9d to %d hosts in %.1f s (%d refused by an open circuit)",
		r.Calls, r.Hosts, r.Took.Seconds(), r.Refused)
	p.line("circuits                    %9d at most, of %d; %d open in the end", r.Most, r.MaxCircuits, r.Open)
	p.line("the heap grew by            %9s", mib(r.Growth))
}
