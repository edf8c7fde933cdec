package soak

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outbound-go/outbound"
)

// CancelConfig says how many calls to cancel.
type CancelConfig struct {
	Calls int
	HTTP2 bool // over TLS; else HTTP/1.1 with a connection for each call
}

// CancelReport is what became of them.
type CancelReport struct {
	Calls    int
	InFlight int // calls that had arrived at the server when they were cancelled
	Returned int
	Wrong    int           // calls that ended with another error than the cancel, or claimed anything
	Took     time.Duration // from the cancel until the last call had returned
	Plain    time.Duration // the same with net/http alone, just before, on the same machine
	Left     int           // goroutines
	Stacks   string        // of all goroutines, if some are left
}

// cancelPatience bounds each wait. It is for a machine that has a lot to do; what is measured is far below.
const cancelPatience = 60 * time.Second

// Cancels puts calls in flight, all at once, to a server that answers none of them, and cancels them all.
func Cancels(cfg CancelConfig) (*CancelReport, error) {
	if cfg.Calls < 1 {
		return nil, fmt.Errorf("there are %d calls to cancel; there must be at least 1", cfg.Calls)
	}
	before := measure()
	r := &CancelReport{Calls: cfg.Calls}
	if err := r.run(cfg); err != nil {
		return nil, err
	}
	r.Left, r.Stacks = goroutinesGone(before.Goroutines, cancelPatience)
	return r, nil
}

func (r *CancelReport) run(cfg CancelConfig) error {
	s, err := startStalled(cfg.HTTP2)
	if err != nil {
		return err
	}
	defer s.close()
	transport, err := s.transport()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	if err := s.warmUp(transport); err != nil {
		return err
	}
	var plain CancelReport
	plain.measure(s, s.base, cfg.Calls, func(_ *http.Response, err error) bool { return errors.Is(err, context.Canceled) })
	r.measure(s, transport, cfg.Calls, cancelled)
	r.Plain = plain.Took
	return nil
}

// measure puts the calls in flight and cancels them. Each is asked whether it ended well.
func (r *CancelReport) measure(s *stalled, t http.RoundTripper, n int, well func(*http.Response, error) bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var calls sync.WaitGroup
	var returned, wrong atomic.Int64
	s.arrived.Store(0)
	for range n {
		calls.Go(func() {
			defer returned.Add(1)
			if !well(s.call(ctx, t)) {
				wrong.Add(1)
			}
		})
	}
	until(cancelPatience, func() bool { return int(s.arrived.Load()) == n || returned.Load() > 0 })
	r.InFlight = int(s.arrived.Load() - returned.Load())
	began := time.Now()
	cancel()
	allBack(&calls, cancelPatience)
	r.Took, r.Returned, r.Wrong = time.Since(began), int(returned.Load()), int(wrong.Load())
}

// cancelled reports whether a call ended as it should: with the caller's cancel, and claiming nothing.
func cancelled(resp *http.Response, err error) bool {
	return errors.Is(err, context.Canceled) && outbound.OutcomeOf(resp, err) == outbound.OutcomeUnknown
}

// allBack waits for all, but not for ever. It waits without looking at a clock all the time: that would cost the calls
// what is measured.
func allBack(wg *sync.WaitGroup, limit time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// stalled is a server that reads requests and answers none.
type stalled struct {
	kind    laneKind
	base    *http.Transport
	server  *http.Server
	served  chan struct{}
	arrived atomic.Int64
}

func startStalled(http2 bool) (*stalled, error) {
	cert, roots, err := newCert()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &stalled{kind: laneKind{tls: http2, http2: http2}, served: make(chan struct{})}
	s.base = newBase(s.kind, roots, func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, l.Addr().String())
	})
	s.base.HTTP2 = nil // no pings: 5,000 calls keep a small machine busy for longer than a lane waits for the answer
	s.server = &http.Server{
		Handler:   s,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}},
		ErrorLog:  silent(),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 100_000}, // so that one connection takes them all
	}
	go func() {
		defer close(s.served)
		if http2 {
			_ = s.server.ServeTLS(l, "", "")
			return
		}
		_ = s.server.Serve(l)
	}()
	return s, nil
}

func (s *stalled) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet { // the warm-up
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	s.arrived.Add(1)
	<-r.Context().Done()
}

// transport has no timeout of its own: what ends a call here is the cancel.
func (s *stalled) transport() (*outbound.Transport, error) {
	return outbound.New(outbound.Config{Base: s.base, AttemptTimeout: -1, TotalTimeout: -1})
}

// warmUp makes the connection that HTTP/2 shares. Without one, net/http would dial once for each call.
func (s *stalled) warmUp(t *outbound.Transport) error {
	req, err := http.NewRequest(http.MethodGet, s.url(), nil)
	if err != nil {
		return err
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (s *stalled) url() string {
	if s.kind.tls {
		return "https://" + hostName + "/"
	}
	return "http://" + hostName + "/"
}

// call makes one call, and returns when it has ended.
func (s *stalled) call(ctx context.Context, t http.RoundTripper) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url(), strings.NewReader("{}"))
	if err != nil {
		return nil, err
	}
	resp, err := t.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return resp, err
}

func (s *stalled) close() {
	_ = s.server.Close()
	<-s.served
	s.base.CloseIdleConnections()
}

// cancelLimit is what the last of the calls has to be back within. Where the machine is so busy that net/http alone needs
// most of it, three times of what that needs will do: the server and thousands of connections share the processor with us.
const cancelLimit = time.Second

func (r *CancelReport) limit() time.Duration { return max(cancelLimit, 3*r.Plain) }

// Verdict is nil if all calls returned, in time and with nothing left behind.
func (r *CancelReport) Verdict() error {
	err := r.Sound()
	if r.Took > r.limit() {
		err = errors.Join(err, fmt.Errorf("the last call returned %s after the cancel, more than %s", rounded(r.Took), rounded(r.limit())))
	}
	return err
}

// Sound is Verdict without the clock.
func (r *CancelReport) Sound() error {
	var errs []error
	check := func(broken bool, format string, args ...any) {
		if broken {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(r.InFlight != r.Calls, "only %d of %d calls were in flight; the limit of open files may be too low", r.InFlight, r.Calls)
	check(r.Returned != r.Calls, "only %d of %d calls returned", r.Returned, r.Calls)
	check(r.Wrong > 0, "%d calls did not end as cancelled and unknown", r.Wrong)
	check(r.Left > 0, "%d goroutines are left:\n%s", r.Left, r.Stacks)
	return errors.Join(errs...)
}

// Print writes the report.
func (r *CancelReport) Print(w io.Writer) {
	p := printer{w}
	p.line("calls in flight             %9d", r.InFlight)
	p.line("returned after the cancel   %9d, the last after %s (with net/http alone after %s)",
		r.Returned, rounded(r.Took), rounded(r.Plain))
	p.line("goroutines left             %9d", r.Left)
}
