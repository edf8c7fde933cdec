package soak

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// front is a server in front of the gateway that passes requests on. A reply that the gateway lost stays lost: the stream
// or the connection breaks, or the front says 502, which proves nothing either.
type front struct {
	addr   string
	tls    *tls.Config // nil: plain TCP
	idle   time.Duration
	goAway float64 // the share of replies after which the connection is closed in good order; over HTTP/2 with a GOAWAY
	proxy  *httputil.ReverseProxy
	behind *http.Transport
	calm   atomic.Bool
	count  func(kind string)

	mu     sync.Mutex
	server *http.Server // nil while it is down
	done   chan struct{}
}

// lameAfter is how long a front that shuts down in good order waits for the requests it has begun.
const lameAfter = 300 * time.Millisecond

// startFront starts f on a port of its own. The other fields are set by whoever makes it.
func startFront(f *front, gateway string) (*front, error) {
	target, err := url.Parse(gateway)
	if err != nil {
		return nil, err
	}
	f.behind = &http.Transport{MaxIdleConnsPerHost: 64, ResponseHeaderTimeout: 2 * time.Second}
	f.proxy = &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:    f.behind,
		ErrorHandler: f.broken,
		ErrorLog:     silent(),
	}
	f.addr = "127.0.0.1:0"
	if err := f.start(); err != nil {
		return nil, err
	}
	return f, nil
}

// silent is for servers that would report each fault we make.
func silent() *log.Logger { return log.New(io.Discard, "", 0) }

// ServeHTTP passes a request on, and now and then closes the connection behind it.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.strikes(f.goAway) {
		w.Header().Set("Connection", "close")
		if r.ProtoMajor == 2 {
			f.count("front: GOAWAY with a reply")
		}
	}
	f.proxy.ServeHTTP(w, r)
}

func (f *front) strikes(rate float64) bool { return !f.calm.Load() && rand.Float64() < rate }

// broken is what becomes of a request that the gateway did not answer.
func (f *front) broken(w http.ResponseWriter, r *http.Request, _ error) {
	switch {
	case r.Context().Err() != nil: // the client has gone
	case rand.IntN(2) == 0:
		f.count("front: 502 for a broken reply")
		w.WriteHeader(http.StatusBadGateway)
		return
	case r.ProtoMajor == 2:
		f.count("front: stream reset for a broken reply")
	default:
		f.count("front: connection closed for a broken reply")
	}
	panic(http.ErrAbortHandler)
}

func (f *front) start() error {
	l, err := listenAgain(f.addr)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addr = l.Addr().String()
	s := &http.Server{Handler: f, TLSConfig: f.tls.Clone(), IdleTimeout: f.idle, ErrorLog: silent(), ConnState: f.watchIdle()}
	f.server, f.done = s, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		if s.TLSConfig == nil {
			_ = s.Serve(l)
			return
		}
		_ = s.ServeTLS(l, "", "")
	}(f.done)
	return nil
}

// watchIdle counts the idle connections that the server closes.
func (f *front) watchIdle() func(net.Conn, http.ConnState) {
	if f.idle == 0 {
		return nil
	}
	var idle sync.Map // net.Conn: struct{}
	return func(c net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			idle.Store(c, struct{}{})
			return
		}
		if _, was := idle.LoadAndDelete(c); was && state == http.StateClosed {
			f.count("front: idle connection closed")
		}
	}
}

// listenAgain listens on an address that was ours a moment ago. The kernel may need that moment to give it back.
func listenAgain(addr string) (l net.Listener, err error) {
	until(5*time.Second, func() bool {
		l, err = net.Listen("tcp", addr)
		return !errors.Is(err, syscall.EADDRINUSE)
	})
	return l, err
}

// stop takes the front down: in good order, with a GOAWAY to those who speak HTTP/2, or by closing everything.
func (f *front) stop(inOrder bool) {
	f.mu.Lock()
	s, done := f.server, f.done
	f.server = nil
	f.mu.Unlock()
	if s == nil {
		return
	}
	if inOrder {
		ctx, cancel := context.WithTimeout(context.Background(), lameAfter)
		defer cancel()
		_ = s.Shutdown(ctx)
	}
	_ = s.Close()
	<-done
}

func (f *front) restart(inOrder bool) error {
	f.stop(inOrder)
	if err := f.start(); err != nil {
		return fmt.Errorf("restarting a front: %w", err)
	}
	return nil
}

func (f *front) close() {
	f.stop(false)
	f.behind.CloseIdleConnections()
}
