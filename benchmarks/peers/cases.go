package peers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
)

// Case is one kind of work, the same for each peer that can do it.
type Case struct {
	Name string
	// Goroutines is how many work at once; 0: one for each core.
	Goroutines int
	// Takes reports whether the peer can do this work.
	Takes func(Peer) bool
	// Start sets the work up for one peer. A nil wire counts nothing.
	Start func(p Peer, wire *Wire) *Work
	// Requests is how many requests one operation of a retrying peer sends.
	Requests int
}

// Work is a case that is set up for one peer.
type Work struct {
	// Worker returns the operation that one goroutine repeats. Its error says that the work was not done.
	Worker func() (op func() error)
	// Close ends what the work holds.
	Close func()
}

// Names of the cases.
const (
	AloneGET     = "RoundTripper alone, GET"
	AlonePOST    = "RoundTripper alone, POST 1 KiB"
	CallGET      = "whole call, GET"
	CallPOST     = "whole call, POST 1 KiB"
	Retried      = "503, 503, 200"
	Open         = "open circuit"
	GotOnce      = "loopback, GET"
	PostedOnce   = "loopback, POST 1 KiB"
	Concurrent   = "loopback, GET, 64 goroutines"
	Cores        = "RoundTripper alone, GET, on each core"
	StreamedGET  = "16 MiB stream"
	memoryURL    = "http://api.example.com/v1/payments"
	payloadSize  = 1 << 10
	concurrently = 64
)

// Cases are all that can be timed.
func Cases() []Case {
	return []Case{
		{Name: AloneGET, Goroutines: 1, Takes: roundTrips, Start: alone(http.MethodGet), Requests: 1},
		{Name: AlonePOST, Goroutines: 1, Takes: roundTrips, Start: alone(http.MethodPost), Requests: 1},
		{Name: CallGET, Goroutines: 1, Takes: everyone, Start: calls(http.MethodGet, nil), Requests: 1},
		{Name: CallPOST, Goroutines: 1, Takes: everyone, Start: calls(http.MethodPost, payload), Requests: 1},
		{Name: Retried, Goroutines: 1, Takes: retries, Start: retried, Requests: 3},
		{Name: Open, Goroutines: 1, Takes: opens, Start: open, Requests: 0},
		{Name: GotOnce, Goroutines: 1, Takes: everyone, Start: loopback(http.MethodGet, nil), Requests: 1},
		{Name: PostedOnce, Goroutines: 1, Takes: everyone, Start: loopback(http.MethodPost, payload), Requests: 1},
		{Name: Concurrent, Goroutines: concurrently, Takes: everyone, Start: loopback(http.MethodGet, nil), Requests: 1},
		{Name: Cores, Takes: roundTrips, Start: alone(http.MethodGet), Requests: 1},
		{Name: StreamedGET, Goroutines: 1, Takes: everyone, Start: streams, Requests: 1},
	}
}

func everyone(Peer) bool     { return true }
func roundTrips(p Peer) bool { return p.transport != nil }
func retries(p Peer) bool    { return p.Retries }
func opens(p Peer) bool      { return p.Breaker && p.transport != nil }

var payload = bytes.Repeat([]byte("x"), payloadSize)

// alone uses the RoundTripper without an http.Client, and one request again and again, as nothing but the peer's own cost is
// wanted. The request's context can be cancelled, as that of a server's can.
func alone(method string) func(Peer, *Wire) *Work {
	return func(p Peer, wire *Wire) *Work {
		ctx, cancel := context.WithCancel(context.Background())
		rt := p.transport(newMemory(wire).base(), options{})
		return &Work{Close: cancel, Worker: func() func() error {
			return repeat(rt, newRepeatable(ctx, method), answeredWith(http.StatusOK, int64(len(smallReply))))
		}}
	}
}

// verdict tells whether an operation did its work.
type verdict func(status int, size int64, err error) error

func answeredWith(status int, size int64) verdict {
	return func(gotStatus int, gotSize int64, err error) error {
		if err != nil || gotStatus != status || gotSize != size {
			return fmt.Errorf("status %d, %d bytes, %w, want status %d, %d bytes", gotStatus, gotSize, err, status, size)
		}
		return nil
	}
}

func refused(status int, _ int64, err error) error {
	if err == nil {
		return fmt.Errorf("status %d, want a refusal", status)
	}
	return nil
}

func repeat(rt http.RoundTripper, r *repeatable, want verdict) func() error {
	return func() error {
		resp, err := rt.RoundTrip(r.rewound())
		if err != nil {
			return want(0, 0, err)
		}
		size, err := drain(resp.Body)
		return want(resp.StatusCode, size, err)
	}
}

// repeatable is a request that can be sent again without an allocation. A goroutine has its own, with a context of its own, so
// that goroutines do not meet in one.
type repeatable struct {
	req    *http.Request
	reader *bytes.Reader
	body   io.ReadCloser
}

func newRepeatable(parent context.Context, method string) *repeatable {
	ctx, cancel := context.WithCancel(parent)
	context.AfterFunc(parent, cancel)
	req, err := http.NewRequestWithContext(ctx, method, memoryURL, nil)
	if err != nil {
		panic(err) // method and URL are constants
	}
	r := &repeatable{req: req, reader: bytes.NewReader(payload)}
	r.body = io.NopCloser(r.reader)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.ContentLength = payloadSize
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil }
	}
	return r
}

// rewound sets the body anew each time, since some peers replace it.
func (r *repeatable) rewound() *http.Request {
	if r.req.GetBody != nil {
		r.reader.Reset(payload)
		r.req.Body = r.body
	}
	return r.req
}

// calls makes whole calls by the peer's own API.
func calls(method string, body []byte) func(Peer, *Wire) *Work {
	return func(p Peer, wire *Wire) *Work {
		return sending(p.send(newMemory(wire).base(), options{}), method, memoryURL, body, int64(len(smallReply)))
	}
}

func sending(send sender, method, url string, body []byte, size int64) *Work {
	ctx, cancel := context.WithCancel(context.Background())
	want := answeredWith(http.StatusOK, size)
	var sent any // a nil []byte would be a body
	if body != nil {
		sent = body
	}
	return &Work{Close: cancel, Worker: func() func() error {
		own, cancel := context.WithCancel(ctx)
		context.AfterFunc(ctx, cancel)
		return func() error { return want(send(own, method, url, sent)) }
	}}
}

// retried is a POST that gets two 503 before its answer. Such a service would soon have used up outbound's retry budget,
// which is therefore off.
func retried(p Peer, wire *Wire) *Work {
	m := newMemory(wire)
	m.fails = maxAttempts - 1
	return sending(p.send(m.base(), options{noBudget: true}), http.MethodPost, memoryURL, payload, int64(len(smallReply)))
}

// open is a call that the circuit refuses. The calls that open it are made before.
func open(p Peer, wire *Wire) *Work {
	ctx, cancel := context.WithCancel(context.Background())
	m := newMemory(nil)
	m.fails = math.MaxInt
	rt := p.transport(m.base(), options{})
	fail := repeat(rt, newRepeatable(ctx, http.MethodGet), func(int, int64, error) error { return nil })
	for range 2 * failures {
		_ = fail()
	}
	m.wire = wire
	return &Work{Close: cancel, Worker: func() func() error {
		return repeat(rt, newRepeatable(ctx, http.MethodGet), refused)
	}}
}

// loopback calls a server of this process over TCP. All peers get the same kind of http.Transport, one that can keep a
// connection for each goroutine.
func loopback(method string, body []byte) func(Peer, *Wire) *Work {
	return func(p Peer, wire *Wire) *Work {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent, _ := io.Copy(io.Discard, r.Body)
			wire.note(r, sent)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, smallReply)
		}))
		base := &http.Transport{MaxIdleConns: 2 * concurrently, MaxIdleConnsPerHost: 2 * concurrently}
		work := sending(p.send(base, options{}), method, server.URL, body, int64(len(smallReply)))
		cancel := work.Close
		work.Close = func() {
			cancel()
			base.CloseIdleConnections()
			server.Close()
		}
		return work
	}
}

// streams reads a long reply of a type that is known to be a stream.
func streams(p Peer, wire *Wire) *Work {
	m := newMemory(wire)
	m.reply = stream()
	return sending(p.send(m.base(), options{}), http.MethodGet, memoryURL, nil, streamed)
}
