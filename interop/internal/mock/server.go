package mock

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Request is one request as the server saw it.
type Request struct {
	Method, Path, Body string
	Proto              string // "HTTP/1.1" or "HTTP/2.0"
	Header             http.Header
}

// Key is the request's idempotency key; empty where it has none.
func (r Request) Key() string { return r.Header.Get("Idempotency-Key") }

// Server serves HTTP until the test ends: HTTP/1.1, but for OverHTTP2. Safe for concurrent use.
type Server struct {
	// URL is where it listens, without a slash at the end.
	URL string
	// Base is the way to it: in memory the only one.
	Base *http.Transport

	next http.Handler

	mu       sync.Mutex
	faults   []Fault
	requests []Request
}

// Listen is one of Loopback, InMemory and OverHTTP2.
type Listen func(t testing.TB, next http.Handler, faults ...Fault) *Server

// Loopback serves over TCP on loopback. The first requests meet the faults, in order; next serves the others.
func Loopback(t testing.TB, next http.Handler, faults ...Fault) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, l, new(http.Transport), next, faults)
}

// InMemory is Loopback without a network, for a bubble of testing/synctest.
func InMemory(t testing.TB, next http.Handler, faults ...Fault) *Server {
	t.Helper()
	l := newPipes()
	return serve(t, l, &http.Transport{DialContext: l.dial}, next, faults)
}

// OverHTTP2 is Loopback with TLS, where HTTP/2 is spoken.
func OverHTTP2(t testing.TB, next http.Handler, faults ...Fault) *Server {
	t.Helper()
	s := &Server{next: next, faults: faults}
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = silent
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	s.URL, s.Base = server.URL, server.Client().Transport.(*http.Transport)
	return s
}

var silent = log.New(io.Discard, "", 0)

func serve(t testing.TB, l net.Listener, base *http.Transport, next http.Handler, faults []Fault) *Server {
	s := &Server{URL: "http://" + l.Addr().String(), Base: base, next: next, faults: faults}
	server := &http.Server{Handler: s, ErrorLog: silent}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		base.CloseIdleConnections()
		_ = server.Close()
		serving.Wait()
	})
	return s
}

// ServeHTTP keeps the request, and serves it or spoils it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // a request that never came whole
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.arrive(Request{Method: r.Method, Path: r.URL.Path, Body: string(body), Proto: r.Proto, Header: r.Header.Clone()})(w, r, s.next)
}

func (s *Server) arrive(r Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	if len(s.faults) == 0 {
		return Pass
	}
	fault := s.faults[0]
	s.faults = s.faults[1:]
	return fault
}

// Spoil makes the next requests meet the faults.
func (s *Server) Spoil(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

// Requests are all so far, in order of arrival.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}
