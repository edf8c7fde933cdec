package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"syscall"
	"time"
)

// kind is what happens to one request of a schedule.
type kind int

const (
	answered     kind = iota // the server does its work and answers
	refused                  // no connection
	dialSilence              // no connection, until the client gives up
	hungUp                   // read, not worked on, connection closed
	replyLost                // worked on, connection closed
	silence                  // read, never worked on, no reply
	silentDone               // worked on, no reply
	workedLate               // queued; worked on some time after, whether the client is still there or not
	workedSlowly             // claimed at once, worked on some time after
	untraced                 // fails without a trace, not worked on
	untracedDone             // fails without a trace, worked on
	declined                 // the server answers 402 and stores that
	invalid                  // the server answers 422, nothing stored
	failed                   // the server answers 5xx, not worked on, nothing stored
	failedDone               // worked on, and the reply is a 5xx all the same
	cutReply                 // worked on, the reply breaks off in its body
	accepted                 // 202, worked on some time after
	frontIn                  // a layer in front answers, the server never sees it
	frontOut                 // the server did the work, and a layer in front answers something else
	movedSame                // 307 or 308 to the same host
	movedAway                // 307 or 308 to another host
	seeOther                 // 303 after the work
	kinds
)

// fault is one request's fate.
type fault struct {
	kind   kind
	status int
	hint   [2]string // a header, for answers without work
	delay  time.Duration
}

// paymentServer is the model: it performs an action at most once per key, if it honours keys.
type paymentServer struct {
	ignoresKeys bool
	separate    bool // each host knows only the keys that it has seen itself
	faults      []fault

	mu       sync.Mutex
	next     int
	stored   map[string]int  // per host and key: the status of the stored answer
	claimed  map[string]bool // at work
	charges  int
	set      bool // what PUT and DELETE did: doing it again changes nothing
	keys     map[string]bool
	requests int // writes that reached Base
	log      []fault
	frontOut int // the request by which the work was first done while a layer in front answered 4xx; 0: none

	lastProcess int // how many requests came before the last process started
	open        int // bodies not closed yet
	pending     sync.WaitGroup
}

var errUntraced = errors.New("some transport's own error")

// RoundTrip is Base: it fires httptrace as http.Transport does.
func (s *paymentServer) RoundTrip(req *http.Request) (*http.Response, error) {
	f := s.take(req)
	defer s.readBody(req)
	trace := httptrace.ContextClientTrace(req.Context())
	if f.kind == untraced || f.kind == untracedDone {
		if f.kind == untracedDone {
			s.forget(s.work(req))
		}
		return nil, errUntraced
	}
	trace.GetConn(req.URL.Host)
	switch f.kind {
	case refused:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case dialSilence:
		return nil, gone(req)
	}
	trace.GotConn(httptrace.GotConnInfo{Reused: f.delay%2 == 1})
	return s.serve(req, f)
}

func (s *paymentServer) serve(req *http.Request, f fault) (*http.Response, error) {
	switch f.kind {
	case hungUp:
		return nil, io.EOF
	case replyLost:
		s.forget(s.work(req))
		return nil, io.EOF
	case silence:
		return nil, gone(req)
	case silentDone:
		s.forget(s.work(req))
		return nil, gone(req)
	case workedLate:
		s.later(f.delay, func() { s.forget(s.work(req)) })
		return nil, gone(req)
	case workedSlowly:
		return s.slowly(req, f.delay)
	case declined:
		return s.decline(req), nil
	case invalid:
		return s.reply(req, http.StatusUnprocessableEntity, "invalid"), nil
	case failed, frontIn:
		return s.hinted(req, f), nil
	case frontOut, failedDone:
		before, nth := s.charges, len(s.log)
		s.forget(s.work(req))
		if f.kind == frontOut && f.status < 500 && s.charges > before && s.frontOut == 0 {
			s.frontOut = nth
		}
		return s.hinted(req, f), nil
	case cutReply:
		resp := s.work(req)
		resp.Body = s.body(io.MultiReader(strings.NewReader("{"), brokenReader{}))
		return resp, nil
	case accepted:
		s.later(f.delay, func() { s.forget(s.work(req)) })
		return s.reply(req, http.StatusAccepted, "queued"), nil
	case movedSame:
		return s.redirect(req, f.status, "/moved"), nil
	case movedAway:
		return s.redirect(req, f.status, "http://other.test/moved"), nil
	case seeOther:
		s.forget(s.work(req))
		return s.redirect(req, http.StatusSeeOther, "/result"), nil
	}
	return s.work(req), nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// gone waits until the client has given up.
func gone(req *http.Request) error {
	<-req.Context().Done()
	return context.Cause(req.Context())
}

// take is the fate of the next request. Reads that follow a write's redirect just work.
func (s *paymentServer) take(req *http.Request) fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if req.Method != http.MethodGet {
		s.requests++
		s.keys[strings.Join(req.Header.Values("Idempotency-Key"), "|")] = true
	}
	var f fault
	if s.next < len(s.faults) {
		f = s.faults[s.next]
		s.next++
	}
	s.log = append(s.log, f)
	return f
}

func (s *paymentServer) count(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

func (s *paymentServer) later(delay time.Duration, do func()) {
	s.pending.Go(func() {
		time.Sleep(delay)
		do()
	})
}

func (s *paymentServer) slowly(req *http.Request, delay time.Duration) (*http.Response, error) {
	if resp := s.claim(req); resp != nil {
		return resp, nil
	}
	done := make(chan *http.Response, 1)
	s.later(delay, func() { done <- s.perform(req) })
	select {
	case resp := <-done:
		return resp, nil
	case <-req.Context().Done():
		s.pending.Go(func() { s.forget(<-done) })
		return nil, context.Cause(req.Context())
	}
}

// work claims the key, does the work once, stores the answer, and replays it from then on.
func (s *paymentServer) work(req *http.Request) *http.Response {
	if resp := s.claim(req); resp != nil {
		return resp
	}
	return s.perform(req)
}

// id is under what the answer is stored; empty where nothing is.
func (s *paymentServer) id(req *http.Request) string {
	key := req.Header.Get("Idempotency-Key")
	if s.ignoresKeys || key == "" {
		return ""
	}
	if s.separate {
		return req.URL.Host + " " + key
	}
	return key
}

func (s *paymentServer) claim(req *http.Request) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.id(req)
	if id == "" {
		return nil
	}
	if status, ok := s.stored[id]; ok {
		resp := s.replyLocked(req, status, "stored")
		resp.Header.Set("Idempotent-Replayed", "true")
		return resp
	}
	if s.claimed[id] {
		return s.replyLocked(req, http.StatusConflict, "at work")
	}
	s.claimed[id] = true
	return nil
}

func (s *paymentServer) perform(req *http.Request) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req.Method {
	case http.MethodGet:
	case http.MethodPut, http.MethodDelete:
		if !s.set {
			s.set = true
			s.charges++
		}
	default:
		s.charges++
	}
	if id := s.id(req); id != "" {
		s.stored[id] = http.StatusCreated
		delete(s.claimed, id)
	}
	return s.replyLocked(req, http.StatusCreated, "done")
}

func (s *paymentServer) decline(req *http.Request) *http.Response {
	if resp := s.claim(req); resp != nil {
		return resp
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := s.id(req); id != "" {
		s.stored[id] = http.StatusPaymentRequired
		delete(s.claimed, id)
	}
	return s.replyLocked(req, http.StatusPaymentRequired, "declined")
}

func (s *paymentServer) hinted(req *http.Request, f fault) *http.Response {
	resp := s.reply(req, f.status, "no")
	if f.hint[0] != "" {
		resp.Header.Set(f.hint[0], f.hint[1])
	}
	return resp
}

func (s *paymentServer) redirect(req *http.Request, status int, location string) *http.Response {
	resp := s.reply(req, status, "")
	resp.Header.Set("Location", location)
	return resp
}

func (s *paymentServer) reply(req *http.Request, status int, text string) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replyLocked(req, status, text)
}

func (s *paymentServer) replyLocked(req *http.Request, status int, text string) *http.Response {
	s.open++
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          &trackedBody{Reader: strings.NewReader(text), s: s},
		ContentLength: -1, Request: req,
	}
}

// forget is for a reply that is never delivered.
func (s *paymentServer) forget(resp *http.Response) { _ = resp.Body.Close() }

// body replaces a reply's body that was counted as open already.
func (s *paymentServer) body(r io.Reader) io.ReadCloser { return &trackedBody{Reader: r, s: s} }

// trackedBody is a body that has to be closed, once at least.
type trackedBody struct {
	io.Reader
	s    *paymentServer
	once sync.Once
}

func (b *trackedBody) Close() error {
	b.once.Do(func() {
		b.s.mu.Lock()
		defer b.s.mu.Unlock()
		b.s.open--
	})
	return nil
}

// newBody is a request's body that has to be closed.
func (s *paymentServer) newBody(text string) io.ReadCloser {
	s.count(&s.open)
	return s.body(strings.NewReader(text))
}

func (s *paymentServer) readBody(req *http.Request) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
}
