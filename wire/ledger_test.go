package wire

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soon bounds what takes no time at all unless something is broken.
const soon = 10 * time.Second

// field is one header line, in the spelling that was sent.
type field struct{ name, value string }

// seen is one request as the server saw it.
type seen struct {
	conn     int    // which connection, counted from 1
	nth      int    // which request on it, counted from 1
	line     string // the request line; over HTTP/2 method and path
	method   string
	fields   []field // in the order sent; over HTTP/2 without the pseudo-fields
	trailers []field
	body     string
	ended    bool // the body came whole
}

// named are the fields of that name in any spelling.
func (s *seen) named(name string) []field {
	return slices.DeleteFunc(slices.Clone(s.fields), func(f field) bool { return !strings.EqualFold(f.name, name) })
}

func (s *seen) value(name string) string {
	if found := s.named(name); len(found) > 0 {
		return found[0].value
	}
	return ""
}

// ledger is what a server saw and what it is told to do, both by path. S is one step of a script.
type ledger[S any] struct {
	mu      sync.Mutex
	changed sync.Cond
	seen    map[string][]*seen
	scripts map[string][]S
	conns   int // ever accepted
	live    int
}

func (l *ledger[S]) init() {
	l.changed.L = &l.mu
	l.seen = map[string][]*seen{}
	l.scripts = map[string][]S{}
}

// script says what happens to the requests for a path, in turn. The last step holds for all that follow.
func (l *ledger[S]) script(path string, steps ...S) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scripts[path] = steps
}

// arrive enters a request whose head is in, and returns what to do with it.
func (l *ledger[S]) arrive(path string, s *seen) (step S) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[path] = append(l.seen[path], s)
	l.changed.Broadcast()
	steps := l.scripts[path]
	if len(steps) > 1 {
		l.scripts[path] = steps[1:]
	}
	if len(steps) > 0 {
		step = steps[0]
	}
	return step
}

// update changes an entry.
func (l *ledger[S]) update(s *seen, change func(*seen)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(s)
}

// on is what was seen of a path so far.
func (l *ledger[S]) on(path string) []seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []seen
	for _, s := range l.seen[path] {
		all = append(all, *s)
	}
	return all
}

func (l *ledger[S]) opened() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns++
	l.live++
	l.changed.Broadcast()
	return l.conns
}

func (l *ledger[S]) closed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live--
	l.changed.Broadcast()
}

// await waits until the condition holds, which is asked under the lock.
func (l *ledger[S]) await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !holds() && ctx.Err() == nil {
		l.changed.Wait()
	}
	require.True(t, holds(), "the server still waits: %s", what)
}
