package outboundtest

import (
	"context"
	"net"
	"sync"
	"time"
)

// acceptPause is waited after a failed accept, such as for want of a file
// descriptor.
const acceptPause = 5 * time.Millisecond

// server is one time of listening, from its start to its stop.
type server struct {
	listener *net.TCPListener
	handle   func(context.Context, *net.TCPConn)
	ctx      context.Context // ends when the server stops
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu      sync.Mutex
	conns   map[*net.TCPConn]struct{}
	stopped bool
}

// listen serves each connection on a goroutine of its own. The connection is
// closed when handle returns, and the context ends when the server stops.
func listen(addr string, handle func(context.Context, *net.TCPConn)) (*server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{
		listener: l.(*net.TCPListener),
		handle:   handle,
		ctx:      ctx,
		cancel:   cancel,
		conns:    map[*net.TCPConn]struct{}{},
	}
	s.wg.Go(s.accept)
	return s, nil
}

func (s *server) addr() string { return s.listener.Addr().String() }

func (s *server) accept() {
	for {
		c, err := s.listener.AcceptTCP()
		if err == nil {
			s.wg.Go(func() { s.serve(c) })
			continue
		}
		if !wait(s.ctx, acceptPause) { // stopped
			return
		}
	}
}

func (s *server) serve(c *net.TCPConn) {
	defer func() { _ = c.Close() }()
	if !s.add(c) {
		return
	}
	defer s.remove(c)
	s.handle(s.ctx, c)
}

// add tells whether the connection may be served.
func (s *server) add(c *net.TCPConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *server) remove(c *net.TCPConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// stop closes everything and returns when every goroutine has ended.
func (s *server) stop() {
	s.cancel()
	_ = s.listener.Close()
	s.closeConns()
	s.wg.Wait()
}

func (s *server) closeConns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for c := range s.conns {
		_ = c.Close()
	}
}

// wait waits for d and tells whether it did, rather than end with the context.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
