package outbound

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/google/uuid"
)

// clockSkew is how far in the future an action may have started before its clock is not believed.
const clockSkew = 5 * time.Minute

// NewIdempotencyKey returns a random UUID, version 4 (RFC 9562). Safe for concurrent use.
func NewIdempotencyKey() string { return newKey() }

// newKey makes a version 4 UUID by way of crypto/rand, which can't fail, and so without uuid.NewRandom's error.
func newKey() string {
	var id uuid.UUID
	_, _ = rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // the variant of RFC 9562
	return id.String()
}

// Action is one thing the user wants done, once: its key and its clock. Make one with [NewAction], store it as JSON before
// the first byte leaves, bound to its request with [Action.Bind], put it under the request's context with [WithAction], and
// after a crash resume with what was stored: the same key goes out again and nothing is done twice. An action without one
// is made for each request.
//
// A redirect of an action to another host, or to where its key does not count, is refused with ErrNotRetryable: when it is
// resumed the redirect may be gone, and it would be done at both.
//
// An Action may be used by several calls at once; only one of them counts as the first. Its fields must not be changed
// while a call uses it. Copies share their history.
type Action struct {
	// Key is the idempotency key, unquoted: 1 to Provider.MaxKeyLength visible ASCII characters, and no e-mail address. Only
	// the one that NewAction made is known to be new; with any other even a refused connection is unknown.
	Key string `json:"key"`
	// Started is when the action began. Provider.KeyWindow counts from it; zero counts as expired.
	Started time.Time `json:"started"`
	// Fingerprint is a hash over method, URL and body, set by [Action.Bind] or by the first send. A request that differs
	// from it is refused with ErrActionMismatch. Empty: not bound yet.
	Fingerprint string `json:"fingerprint,omitempty"`

	history *actionHistory // nil: not made by NewAction, so nothing is known of its past
}

// actionHistory is shared by all copies of an action that this process made.
type actionHistory struct {
	key  string
	uses atomic.Int32
}

// NewAction returns an action with a new key, started now. It is fresh: until its first use it is known that no server
// has seen its key.
func NewAction() *Action {
	history := &actionHistory{key: NewIdempotencyKey()}
	histories.Store(history.key, weak.Make(history))
	runtime.AddCleanup(history, func(key string) { histories.Delete(key) }, history.key)
	return &Action{Key: history.key, Started: time.Now(), history: history}
}

// histories finds the actions that this process made and still holds by their key, so that a use of the key under another
// name (an action read back, a header) takes the freshness from them too.
var histories sync.Map // of string to weak.Pointer[actionHistory]

// noteUse counts a call that begins with a key that is not its own action's.
func noteUse(key string) {
	if p, ok := histories.Load(key); ok {
		if history := p.(weak.Pointer[actionHistory]).Value(); history != nil {
			history.uses.Add(1)
		}
	}
}

// Bind sets the fingerprint from the request's method, URL and body, so that it is stored with the action. The first send
// binds an unbound action; but one that was stored before that accepts any request when it is resumed, so bind, then store.
// The body is read from GetBody, the request stays as it was. Errors: ErrBodyNotReplayable for a body without GetBody,
// ErrActionMismatch where the action is bound to another request, or what GetBody and its reader return. Safe for
// concurrent use.
func (a *Action) Bind(req *http.Request) error {
	if req.URL == nil {
		return why(errRequest, "it has no URL")
	}
	print, err := fingerprint(req)
	if err != nil {
		return err
	}
	return a.bind(print)
}

// bindMu guards the Fingerprint of all actions. It is held for a comparison and an assignment.
var bindMu sync.Mutex

func (a *Action) bind(print string) error {
	bindMu.Lock()
	defer bindMu.Unlock()
	if a.Fingerprint == "" {
		a.Fingerprint = print
	}
	if a.Fingerprint != print {
		return ErrActionMismatch
	}
	return nil
}

// MarshalJSON writes the form to store. It may be called while a first send binds the action.
func (a *Action) MarshalJSON() ([]byte, error) {
	type stored Action
	bindMu.Lock()
	s := stored(*a)
	bindMu.Unlock()
	return json.Marshal(s)
}

// UnmarshalJSON reads the stored form. What was read back counts as resumed, whatever the action was before.
func (a *Action) UnmarshalJSON(data []byte) error {
	type stored Action
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("outbound: an action is a JSON object with key and started: %w", err)
	}
	*a = Action(s)
	return nil
}

// fresh reports whether this process made the key and no call has begun with it.
func (a *Action) fresh() bool { return a.made() && a.history.uses.Load() == 0 }

// made reports whether this process made the key for this action.
func (a *Action) made() bool { return a.history != nil && a.history.key == a.Key }

// use counts a call that begins with the action, and reports whether it is the first and the action is fresh.
func (a *Action) use() bool {
	if !a.made() {
		noteUse(a.Key)
		return false
	}
	return a.history.uses.Add(1) == 1
}

// usedBy reports whether more calls than these have begun with the action's key, as far as this process knows.
func (a *Action) usedBy(more int32) bool { return !a.made() || a.history.uses.Load() > more }

// age is the larger of wall and monotonic time since the start: either clock may have stood still.
func age(started, now time.Time) time.Duration {
	return max(now.Sub(started), now.Round(0).Sub(started.Round(0)))
}

// expired reports whether a key that started then can be forgotten before an attempt that begins now is over.
func expired(started, now time.Time, attempt, window time.Duration) bool {
	if window == 0 {
		return false
	}
	if now.Round(0).Sub(started.Round(0)) < -clockSkew {
		return true
	}
	return age(started, now) > window-attempt
}

type actionKey struct{}

// WithAction returns a context that carries the action for writes made with it. Other requests with that context do not
// use it. A nil action takes away what the parent carried.
func WithAction(ctx context.Context, a *Action) context.Context {
	return context.WithValue(ctx, actionKey{}, a)
}

func actionFrom(ctx context.Context) *Action {
	a, _ := ctx.Value(actionKey{}).(*Action)
	return a
}

// fingerprint hashes method, URL and body. User info and fragment are no part of what is asked for.
func fingerprint(req *http.Request) (string, error) {
	h := sha256.New()
	u := *req.URL
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	u.Scheme, u.Host = normalOrigin(req.URL)
	fmt.Fprintf(h, "%s\n%s\n", methodOf(req), u.String())
	if err := hashBody(h, req); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

func hashBody(w io.Writer, req *http.Request) error {
	if !hasBody(req) {
		return nil
	}
	if req.GetBody == nil {
		return why(ErrBodyNotReplayable, "an action needs a body that can be read again")
	}
	body, err := req.GetBody()
	if err != nil {
		return errBody.causedBy(err)
	}
	if body == nil {
		return nil
	}
	defer func() { _ = body.Close() }()
	if _, err := io.Copy(w, body); err != nil {
		return errBody.causedBy(err)
	}
	return nil
}
