package outboundtest

import (
	"crypto/sha256"
	"io"
	"net/http"
)

// entry is what the gateway knows of a key.
type entry struct {
	busy  int      // how many more requests get 409 for nothing
	taken bool     // the work has begun, so print is set
	print [32]byte // of the request that began it
	reply *reply   // nil until the work is done
}

// fingerprint tells two requests apart: by method, path and body.
func fingerprint(req *http.Request, body []byte) (print [32]byte) {
	h := sha256.New()
	_, _ = io.WriteString(h, req.Method+" "+req.URL.Path+"\n")
	_, _ = h.Write(body)
	h.Sum(print[:0])
	return print
}

// claim takes the operation's key for it. If the key is not to be had, it
// returns the reply that says why, or the stored one.
func (l *ledger) claim(op *operation, print [32]byte, busyFor int) (reply, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entry(op.payment.Key)
	e.busy += busyFor
	switch {
	case e.taken && e.print != print:
		return errorReply(http.StatusUnprocessableEntity, "the key was used with another request"), false
	case e.busy > 0:
		e.busy--
		return errorReply(http.StatusConflict, "the key is busy"), false
	case !e.taken:
		e.taken, e.print = true, print
		op.entry = e
		return reply{}, true
	case e.reply == nil:
		return errorReply(http.StatusConflict, "the key is at work"), false
	}
	return e.reply.replayed(), false
}

// entry returns the key's entry, a new one if need be. The lock is held.
func (l *ledger) entry(key string) *entry {
	e := l.keys[key]
	if e == nil {
		e = &entry{}
		l.keys[key] = e
	}
	return e
}
