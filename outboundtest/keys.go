package outboundtest

import (
	"crypto/sha256"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// keys is what a dialect takes for a key. The zero value takes none.
type keys struct {
	header   string
	ignored  bool // nothing is refused or repeated because of a key
	required bool
	quoted   bool
	min, max int            // in bytes; zero is no limit
	form     *regexp.Regexp // nil is any
}

// read returns the key in the header, unquoted, and what is wrong with it:
// noKey, badKey or 0. It returns no key where there is none and none is needed.
func (k keys) read(h http.Header) (key string, wrong occasion) {
	values := h.Values(k.header)
	if len(values) > 0 {
		key = values[0]
	}
	switch {
	case k.ignored:
		if read, wrong := k.check(key); wrong == 0 {
			return read, 0
		}
		return key, 0 // as it stands: the ledger tells by it what was charged twice
	case len(values) > 1:
		return key, badKey
	case key == "" && k.required:
		return "", noKey
	case key == "":
		return "", 0
	}
	return k.check(key)
}

// check unquotes a key and tells what is wrong with it.
func (k keys) check(raw string) (key string, wrong occasion) {
	key, ok := raw, true
	if k.quoted {
		key, ok = unquote(raw)
	}
	if !ok || len(key) < k.min || k.max > 0 && len(key) > k.max || k.form != nil && !k.form.MatchString(key) {
		return key, badKey
	}
	return key, 0
}

// unquote reads the string of RFC 9651, and of Go's escapes a few more.
func unquote(s string) (string, bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", false
	}
	s, err := strconv.Unquote(s)
	return s, err == nil
}

// fingerprint tells a request from another one with the same key, as far as
// the dialect does: by method, path and body.
func (d *dialect) fingerprint(req *http.Request, body []byte) (print [32]byte) {
	if d.anyRequest {
		return print
	}
	h := sha256.New()
	_, _ = io.WriteString(h, req.Method+" "+req.URL.Path+"\n")
	_, _ = h.Write(body)
	h.Sum(print[:0])
	return print
}

// entry is what the gateway knows of a key.
type entry struct {
	busy  int        // how many more requests find the key in use, for nothing
	op    *operation // the one that took the key; nil if none has it
	print [32]byte   // of the request that took it
	ended bool       // its work is done, and its reply stored
}

// claim takes the operation's key for it. If the key is not to be had, it
// returns the reply that says why, or the one to a repeat.
func (l *ledger) claim(op *operation, print [32]byte, busyFor int) (reply, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entry(op.payment.Key)
	e.busy += busyFor
	switch {
	case e.op != nil && e.print != print:
		return l.dialect.answer(otherBody, e.op.payment), false
	case e.busy > 0:
		e.busy--
		return l.dialect.answer(inUse, op.payment), false
	case e.op == nil:
		e.op, e.print = op, print
		op.entry = e
		return reply{}, true
	case !e.ended:
		return l.dialect.answer(inUse, op.payment), false
	}
	return l.dialect.repeat(e.op.reply, e.op.payment), false
}

// settle stores the reply of the entry's operation, or frees the key for
// another try. The lock is held.
func (l *ledger) settle(e *entry) {
	if e.op.fail && !l.dialect.keepsFailures {
		e.op = nil
		return
	}
	e.ended = true
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
