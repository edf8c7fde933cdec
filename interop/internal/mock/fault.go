package mock

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"time"
)

// Nowhere is an address where nobody listens: a dial is refused at once.
const Nowhere = "http://127.0.0.1:1"

// Fault serves one request in place of next, or spoils what next does.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Pass is no fault.
func Pass(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) }

// LoseRequest hangs up when the request is read; next never sees it.
func LoseRequest(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// LoseReply lets next do its work, and hangs up without a byte of the reply.
func LoseReply(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// CutReply lets next do its work, and hangs up half-way through the reply's body.
func CutReply(w http.ResponseWriter, r *http.Request, next http.Handler) {
	whole := httptest.NewRecorder()
	next.ServeHTTP(whole, r)
	for name, values := range whole.Header() {
		w.Header()[name] = values
	}
	body := whole.Body.Bytes()
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(whole.Code)
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// Answer answers in place of next. The headers are pairs of name and value.
func Answer(status int, body string, headers ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		for pair := range slices.Chunk(headers, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Always is a server that answers every request alike.
func Always(status int, body string, headers ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Answer(status, body, headers...)(w, r, nil) })
}

// Drip is a server whose replies come in pieces, with a pause after each.
func Drip(mediaType, piece string, pieces int, pause time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		for range pieces {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
			if !wait(r, pause) {
				return
			}
		}
	})
}

// wait waits, and reports whether the client did, too.
func wait(r *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// Hang says nothing until the client goes away.
func Hang(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}
