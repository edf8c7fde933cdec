package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fault is what a request to the API meets.
type fault uint8

const (
	none       fault = iota
	busy             // 429 that says when to come back; nothing is generated
	overloaded       // 529; nothing is generated
	loseReply        // the answer is generated and billed, and the connection ends without it
	stall            // half of a streamed answer, then silence
)

const (
	comeBackIn     = 400 * time.Millisecond // what a 429 asks for
	generationTime = 150 * time.Millisecond // a whole answer
	wordTime       = 40 * time.Millisecond  // a word of a streamed one

	statusOverloaded = 529
)

// entry is what the API's ledger says of one prompt.
type entry struct {
	requests int
	billed   int // generations, whether or not anybody read them
	early    int // requests that came sooner than the 429 before them had asked
}

// api serves chat completions over HTTP on this machine, whole or streamed. Like the real ones it ignores idempotency keys:
// what it is asked twice it generates, and bills, twice. Which requests for a prompt meet which faults is written down
// beforehand; after the last of them everything works.
type api struct {
	url     string
	server  *http.Server
	faults  map[string][]fault // by prompt; only read
	working sync.WaitGroup

	mu       sync.Mutex
	ledger   map[string]entry
	closedTo map[string]time.Time // prompts that were answered 429, and until when
	inFlight int
	peak     int
}

func startAPI(faults map[string][]fault) (*api, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &api{
		url:      fmt.Sprintf("http://%s/v1/", listener.Addr()),
		faults:   faults,
		ledger:   map[string]entry{},
		closedTo: map[string]time.Time{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", a.complete)
	a.server = &http.Server{Handler: mux}
	a.working.Go(func() { _ = a.server.Serve(listener) })
	return a, nil
}

// close ends all connections, and returns when nothing is at work any more.
func (a *api) close() {
	_ = a.server.Close()
	a.working.Wait()
}

// entry is the ledger's entry for the prompt.
func (a *api) entry(prompt string) entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ledger[prompt]
}

// mostInFlight is how many requests were at work at once, at most.
func (a *api) mostInFlight() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peak
}

func (a *api) complete(w http.ResponseWriter, r *http.Request) {
	a.arrive()
	defer a.leave() // before net/http flushes a short answer, so that whoever has read it is not counted twice
	var asked struct {
		Stream   bool
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
		refuse(w, http.StatusBadRequest, "invalid_request_error")
		return
	}
	prompt := asked.Messages[len(asked.Messages)-1].Content
	f := a.admit(prompt)
	switch {
	case f == busy:
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(comeBackIn.Milliseconds(), 10))
		refuse(w, http.StatusTooManyRequests, "rate_limit_exceeded")
	case f == overloaded:
		refuse(w, statusOverloaded, "overloaded_error")
	case asked.Stream:
		serveStream(r.Context(), w, prompt, f)
	default:
		serveWhole(r.Context(), w, prompt, f)
	}
}

func (a *api) arrive() {
	a.working.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inFlight++
	a.peak = max(a.peak, a.inFlight)
}

func (a *api) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inFlight--
	a.working.Done()
}

// admit enters a request into the ledger, bills it unless it is turned away, and tells what it meets.
func (a *api) admit(prompt string) fault {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, now := a.ledger[prompt], time.Now()
	f := none
	if script := a.faults[prompt]; e.requests < len(script) {
		f = script[e.requests]
	}
	e.requests++
	if now.Before(a.closedTo[prompt]) {
		e.early++
	}
	switch f {
	case busy:
		a.closedTo[prompt] = now.Add(comeBackIn)
	case overloaded: // turned away, not billed
	default:
		e.billed++
	}
	a.ledger[prompt] = e
	return f
}

func refuse(w http.ResponseWriter, status int, kind string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"error": object{"type": kind, "message": "not now, or not so"}})
}

// object is a JSON object.
type object = map[string]any

// serveWhole answers in one piece.
func serveWhole(ctx context.Context, w http.ResponseWriter, prompt string, f fault) {
	pause(ctx, generationTime)
	if f == loseReply {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object{
		"id": "chatcmpl-1", "object": "chat.completion", "model": "demo",
		"choices": []object{{
			"index": 0, "finish_reason": "stop",
			"message": object{"role": "assistant", "content": answerTo(prompt)},
		}},
	})
}

// serveStream answers word by word, as server-sent events.
func serveStream(ctx context.Context, w http.ResponseWriter, prompt string, f fault) {
	w.Header().Set("Content-Type", "text/event-stream")
	words := strings.SplitAfter(answerTo(prompt), " ")
	for i, word := range words {
		if f == stall && i == len(words)/2 {
			<-ctx.Done()
			return
		}
		chunk, _ := json.Marshal(object{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "demo",
			"choices": []object{{"index": 0, "delta": object{"content": word}}},
		})
		send(w, string(chunk))
		pause(ctx, wordTime)
	}
	send(w, "[DONE]")
}

func send(w http.ResponseWriter, data string) {
	_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
	_ = http.NewResponseController(w).Flush()
}

// pause is time that the model takes. It is over at once where the client has hung up.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

const (
	aboutPayments = "Why does a payment carry an idempotency key?"
	aboutPrompts  = "Why does a prompt carry none?"
)

func answerTo(prompt string) string {
	switch prompt {
	case aboutPayments:
		return "Because its reply may get lost after the money has moved: by the key the server knows it again."
	case aboutPrompts:
		return "Because this API would ignore it: whatever is asked once more is generated once more, and billed."
	}
	return "The answer to: " + prompt
}
