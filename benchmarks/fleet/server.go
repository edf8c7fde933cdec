package fleet

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// server is one worker with a first-come-first-served queue. What a client gave up on is served all the same: wasted work.
type server struct {
	setup      Setup
	outageAt   time.Time
	recoversAt time.Time
	service    time.Duration // of one request
	arrivals   *series

	mu     sync.Mutex
	freeAt time.Time // when it will have done all that it took in
}

func newServer(s Setup, start time.Time) *server {
	return &server{
		setup:      s,
		outageAt:   start.Add(s.Before),
		recoversAt: start.Add(s.Before + s.During),
		service:    time.Duration(float64(time.Second) / (capacity * float64(s.Shape.Normal()))),
		arrivals:   newSeries(start, s.total()),
	}
}

// RoundTrip is a Base. It fires no httptrace events, so each failure counts as one that may have reached the server.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	now := time.Now()
	s.arrivals.add(now)
	if !now.Before(s.outageAt) && now.Before(s.recoversAt) {
		return s.fail(req, now)
	}
	wait, ok := s.enqueue(now)
	if !ok {
		return answer(req, http.StatusServiceUnavailable), nil
	}
	if err := sleep(req.Context(), max(wait, latency)); err != nil {
		return nil, err
	}
	return answer(req, http.StatusOK), nil
}

// fail is what a request meets during the outage.
func (s *server) fail(req *http.Request, now time.Time) (*http.Response, error) {
	if s.setup.Outage == Silent {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
	resp := answer(req, http.StatusServiceUnavailable)
	if s.setup.Outage == Announces {
		left := s.recoversAt.Sub(now) + time.Millisecond - 1
		resp.Header.Set("Retry-After", strconv.FormatFloat(left.Truncate(time.Millisecond).Seconds(), 'f', 3, 64))
	}
	return resp, nil
}

// enqueue takes a request in, and says how long it takes until it is served.
func (s *server) enqueue(now time.Time) (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freeAt.Before(now) {
		s.freeAt = now
	}
	if s.freeAt.Sub(now) > patience {
		return 0, false
	}
	s.freeAt = s.freeAt.Add(s.service)
	return s.freeAt.Sub(now), true
}

func answer(req *http.Request, status int) *http.Response {
	return &http.Response{
		StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

// sleep waits, unless the context ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
