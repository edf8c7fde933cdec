package outbound

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// call is one redirect hop of an action on its way down the chain: what is sent, within which limits, and what came of it
// so far. A hop starts with what the hop before left: key, deadline, standing, attempts and retries.
type call struct {
	t      *Transport
	req    *http.Request // the caller's, only read
	place  place         // as it was at the start
	text   string        // that place, where the call failed
	method string
	ctx    context.Context // the caller's, marked as ours
	above  *call           // the one in whose attempt this one is made, a token refresh say; nil for none
	limits limits
	start  time.Time // of the first hop

	action      *Action // nil: none in the context
	countedUses int32   // how many of the action's uses are this call's

	key        string // unquoted; empty where none is sent
	wire       string // the key as it is sent
	ownKey     bool   // the key is ours; it is made with the first attempt
	write      bool
	honoured   bool // by the API, if the request carries a key
	keyed      bool
	repeatable bool
	replayable bool // no body, or GetBody
	header     http.Header
	wireValue  [1]string

	deadline   time.Time // zero: none
	standing   standing
	afterWrite bool // a hop that became a read: its answers say nothing of the write
	attempts   []Attempt
	first      [1]Attempt // backs attempts, so that a call without retries allocates none
	inherited  int        // how many of the attempts earlier hops made
	retries    int
	staleUsed  bool
	pause      *time.Timer // of the waits; nil before the first

	target    *target     // nil: none
	counted   atomic.Bool // among the target's calls
	placed    bool        // it holds a place of the target's bulkhead
	reserved  bool        // a token of the budget, for a retry that is not sent yet
	spent     bool        // a token, for the retry that is out
	current   *attempt
	initial   attempt // the first one; it lives in the call, which saves an allocation
	bodyGiven bool    // Base has had the caller's body, and closes it
	returned  bool

	inBase  atomic.Bool  // Base's RoundTrip is on the stack: what asks now with this context is below us
	handed  http.Request // what the caller finds in its response; in the call, likewise
	hopped  atomic.Bool  // the one hop that may follow has begun
	elapsed time.Duration
	stopped error
	hint    time.Duration
	replay  bool
	last    *attempt // whose reply was handed over
	failure *failure // what RoundTrip returns without a reply
}

// failure holds what a refused call returns, in one allocation.
type failure struct {
	err     Error
	refusal CircuitOpenError
}

// limits are what Config and Override together allow this call; a duration of 0 is off.
type limits struct {
	maxAttempts          int
	attempt, total, idle time.Duration
	streaming            bool
}

type callKey struct{}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// Override changes limits for the requests that carry it in their context. Zero fields inherit from Config. The context's
// deadline, if it has one, holds besides.
type Override struct {
	// MaxAttempts replaces RetryPolicy.MaxAttempts; 1: never retry. Negative counts as 1.
	MaxAttempts int
	// AttemptTimeout replaces Config.AttemptTimeout; what is left of the total timeout bounds it. Negative: off.
	AttemptTimeout time.Duration
	// TotalTimeout replaces Config.TotalTimeout. A redirect hop keeps the deadline of the first. Negative: off.
	TotalTimeout time.Duration
	// Streaming treats a success as a stream, whatever its type: bound by the attempt timeout until its headers, then by
	// Config.IdleTimeout, and never read inside the attempt.
	Streaming bool
}

type overrideKey struct{}

// WithOverride returns a context with other limits for the requests that carry it. It replaces an earlier Override whole.
func WithOverride(ctx context.Context, o Override) context.Context {
	return context.WithValue(ctx, overrideKey{}, o)
}

func newCall(t *Transport, req *http.Request, above *call, now time.Time) *call {
	c := t.takeSpare()
	c.t, c.req, c.above, c.method, c.start = t, req, above, methodOf(req), now
	if !isToken(c.method) {
		c.method = "INVALID" // it may be anything, so it is not repeated in a report
	}
	if place := placeOf(req.URL); place != c.place {
		c.place, c.text = place, ""
	}
	c.write = isWrite(c.method)
	c.replayable = !hasBody(req) || req.GetBody != nil
	return c
}

// takeSpare is a zero call, but for the place of the one that it was before.
func (t *Transport) takeSpare() *call {
	if t.spare.Load() != nil {
		if c := t.spare.Swap(nil); c != nil {
			return c
		}
	}
	return new(call)
}

// spareCall keeps one call that was refused, for the next: an open circuit refuses many, and a call is large. Nothing else
// holds it, as nothing of it was handed to Base, to the caller, to a timer or to the circuit.
func (c *call) spareCall() {
	t, place, text := c.t, c.place, c.text
	*c = call{}
	c.place, c.text = place, text
	t.spare.Store(c)
}

// safeURL is the request's place in a report. It may be asked for at once by many.
func (c *call) safeURL() string {
	if c.text != "" {
		return c.text
	}
	return c.place.String()
}

// open settles what is sent and within which limits. With an error nothing may be sent; the call is good for a report all
// the same.
func (c *call) open(now time.Time) error {
	c.limits = c.limitsInForce()
	if err := c.identify(now); err != nil {
		return err
	}
	if err := c.callerCause(); err != nil {
		return err
	}
	return nil
}

// prepare makes what all attempts of the call share, when the first of them is sent.
func (c *call) prepare() {
	if c.ownKey && c.key == "" {
		c.key = newKey()
		c.wire = c.t.provider.wireKey(c.key)
	}
	c.ctx = context.WithValue(c.req.Context(), callKey{}, c)
	c.handed = *c.req.WithContext(c.ctx)
	c.prepareHeader()
}

// circuit is that of the call's target; nil where there is none.
func (c *call) circuit() *circuit {
	if c.target == nil || c.target.circuit.breaker == nil {
		return nil
	}
	return &c.target.circuit
}

// aim finds the call's target and counts the call there, which keeps the target in the registry.
func (c *call) aim(now time.Time) {
	for {
		t := c.t.targetOf(c.req, now)
		if t == nil {
			return
		}
		if t.calls.Add(1) > 0 {
			c.target = t
			c.counted.Store(true)
			return
		}
		t.calls.Add(-1)
	}
}

// openUntil is until when the target's circuit is open, without moving it; zero where it would let an attempt through.
func (c *call) openUntil(now time.Time) time.Time {
	if c.target == nil {
		return time.Time{}
	}
	return c.target.circuit.openUntil(now)
}

// limitsInForce are those of the Config, as far as an Override does not change them. An Override, like an action, belongs to
// the request that it was given with, not to what a Base asks meanwhile under the same context.
func (c *call) limitsInForce() limits {
	t := c.t
	l := limits{maxAttempts: t.retry.MaxAttempts, attempt: t.timeouts.attempt, total: t.timeouts.total, idle: t.timeouts.idle}
	o := c.req.Context().Value(overrideKey{})
	if o == nil || c.above != nil && o == c.above.req.Context().Value(overrideKey{}) {
		return l
	}
	return l.changedBy(o.(Override))
}

func (l limits) changedBy(o Override) limits {
	if o.MaxAttempts != 0 {
		l.maxAttempts = max(o.MaxAttempts, 1)
	}
	if o.AttemptTimeout != 0 {
		l.attempt = max(o.AttemptTimeout, 0)
	}
	if o.TotalTimeout != 0 {
		l.total = max(o.TotalTimeout, 0)
	}
	l.streaming = o.Streaming
	return l
}

// identify says which action this is: the one that a redirect goes on with, the one in the context, one that the caller or
// an SDK named in the header, or a new one. It refuses what must not be sent.
func (c *call) identify(now time.Time) error {
	given, wire, present, keyErr := c.t.provider.keyIn(c.req)
	if c.t.provider.KeyOf != nil {
		now = time.Now() // it may have been slow
	}
	prev := c.hopOf()
	if prev == nil {
		c.deadline = deadlineAfter(c.start, c.limits.total)
		c.action = c.ownAction()
		c.standing = begin(c.write, given == "" && keyErr == nil && (c.action == nil || c.action.fresh()))
		c.nameKey()
	} else {
		c.inherit(prev)
	}
	c.repeatable = !c.write || isIdempotent(c.method) || c.t.provider.AllowDuplicates
	keyHeader := ""
	if c.write {
		keyHeader = c.t.provider.KeyHeader
	}
	if err := validate(c.req, keyHeader); err != nil {
		return err
	}
	if err := c.overtime(now, 0); err != nil {
		return err
	}
	c.aim(now)
	if !c.write {
		return nil
	}
	c.honoured = c.t.honoursKey(c.req)
	if keyErr != nil {
		return keyErr
	}
	if prev != nil {
		return c.goOn(prev, given, now)
	}
	if c.action != nil {
		return c.useAction(given, wire, now)
	}
	return c.chooseKey(given, wire, present)
}

// nameKey takes the action's key into the report, whatever becomes of the call: an unknown outcome needs it.
func (c *call) nameKey() {
	if c.action != nil && checkKey(c.action.Key, c.t.provider.MaxKeyLength) == nil {
		c.key = c.action.Key
	}
}

// ownAction is the action in the context, for a write, unless it is that of the call above which this one is made.
func (c *call) ownAction() *Action {
	a := actionFrom(c.req.Context())
	if !c.write || c.above != nil && a == actionFrom(c.above.req.Context()) {
		return nil
	}
	return a
}

// hopOf is the call whose redirect this request follows: its response is a redirect that this Transport returned, followed
// once. A late one counts too, so that it is refused instead of beginning anew under a new key and a new deadline.
func (c *call) hopOf() *call {
	if c.req.Response == nil || c.req.Response.Request == nil {
		return nil
	}
	prev := callFrom(c.req.Response.Request.Context())
	if prev == nil || prev.t != c.t || &prev.handed != c.req.Response.Request || c.write && !prev.write {
		return nil
	}
	if status := prev.attempts[len(prev.attempts)-1].Status; status < 300 || status > 399 {
		return nil
	}
	if !prev.hopped.CompareAndSwap(false, true) {
		return nil
	}
	return prev
}

func (c *call) inherit(prev *call) {
	c.start, c.deadline = prev.start, prev.deadline
	c.action, c.countedUses, c.standing = prev.action, prev.countedUses, prev.standing
	c.attempts, c.retries, c.staleUsed = slices.Clip(prev.told(prev.attempts)), prev.retries, prev.staleUsed
	c.ownKey, c.inherited = prev.ownKey, len(prev.attempts)
	c.afterWrite = prev.write && !c.write || prev.afterWrite
	c.key = prev.key
}

// goOn continues an action at the place that its redirect named.
func (c *call) goOn(prev *call, given string, now time.Time) error {
	if given != "" && given != prev.key {
		return why(ErrInvalidKey, "the key that the redirected request carries is not the action's")
	}
	if given == "" && c.t.provider.KeyOf != nil && c.action != nil {
		return why(ErrInvalidKey, "the redirected request does not carry the action's key")
	}
	if given != "" || c.t.provider.KeyOf == nil {
		c.setKey(prev.key, prev.wire)
	}
	if prev.keyed && !c.keyed && (c.action != nil || c.standing.maybe && !c.repeatable) {
		return why(ErrNotRetryable, "no key protects the write where its redirect leads, and it may have been done, or be sent again")
	}
	if c.action != nil && !c.replayable {
		return why(ErrBodyNotReplayable, "an action needs a body that can be read again")
	}
	if err := c.overtime(now, 0); err != nil {
		return err
	}
	scheme, host := normalOrigin(c.req.URL)
	prevScheme, prevHost := normalOrigin(prev.place.url())
	if (c.standing.maybe || c.action != nil) && (scheme != prevScheme || host != prevHost) {
		return why(ErrNotRetryable, "the write may have been done at %s://%s, or be sent there again, and does not go on to %s://%s",
			prevScheme, prevHost, scheme, host)
	}
	return nil
}

// useAction takes the key from the action in the context, after every check that could refuse it.
func (c *call) useAction(given, wire string, now time.Time) error {
	a, p := c.action, &c.t.provider
	c.standing = begin(true, a.fresh())
	if err := c.acceptKey(a.Key); err != nil {
		return err
	}
	if given != "" && given != a.Key {
		return why(ErrInvalidKey, "the action and the request carry different keys")
	}
	if given == "" && p.KeyOf != nil && c.honoured {
		return why(ErrInvalidKey, "the request does not carry the action's key")
	}
	if expired(a.Started, now, c.longestAttempt(now), p.KeyWindow) {
		c.standing = begin(true, false)
		return why(ErrKeyExpired, "the action started at %s, and keys count for %v", a.Started.Format(time.RFC3339), p.KeyWindow)
	}
	if err := a.Bind(c.req); err != nil {
		return err
	}
	c.standing, c.countedUses = begin(true, a.use()), 1
	if !c.honoured {
		if c.standing.maybe {
			return why(ErrNotRetryable, "the action was used before, and no key protects a repeated %s here", c.method)
		}
		c.key, c.wire = given, wire // one that the caller set goes on, and protects nothing
		return nil
	}
	c.setKey(a.Key, p.wireKey(a.Key))
	return nil
}

// chooseKey adopts the key in the header, or makes one where the API honours it. A header without a value means no key.
func (c *call) chooseKey(given, wire string, present bool) error {
	if given == "" && (present || !c.honoured) {
		return nil
	}
	if given == "" {
		return c.dueKey()
	}
	noteUse(given)
	if err := c.acceptKey(given); err != nil {
		return err
	}
	c.setKey(given, wire)
	return nil
}

// acceptKey refuses what the API would not take as a key. Where it takes none, a header must be able to hold it.
func (c *call) acceptKey(key string) error {
	if !c.honoured {
		return checkKey(key, c.t.provider.MaxKeyLength)
	}
	return c.t.provider.acceptKey(key)
}

// dueKey says that the call gets a key of its own. It is made when the first attempt is sent, so that a call that the circuit
// refuses costs none.
func (c *call) dueKey() error {
	if err := c.t.ownKeys; err != nil {
		return err
	}
	c.ownKey, c.keyed, c.repeatable = true, true, true
	return nil
}

// keyStarted is when the key came into use; ok is false for an adopted one, of whose past nothing is known.
func (c *call) keyStarted() (started time.Time, ok bool) {
	if c.action != nil {
		return c.action.Started, true
	}
	return c.start, c.ownKey
}

func (c *call) setKey(key, wire string) {
	c.key, c.wire = key, wire
	c.keyed = key != "" && c.honoured
	c.repeatable = c.repeatable || c.keyed
}

// callerCause is why the caller's context ended; nil while it has not. A deadline counts from its moment on, not from when
// its timer gets to run.
func (c *call) callerCause() error {
	ctx := c.req.Context()
	if err := ctx.Err(); err != nil {
		if cause := context.Cause(ctx); cause != err {
			return &foreign{cause}
		}
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

func deadlineAfter(start time.Time, total time.Duration) time.Time {
	if total == 0 || total == unlimited {
		return time.Time{}
	}
	return start.Add(total)
}

// untilDeadline is what is left of the total timeout.
func (c *call) untilDeadline(now time.Time) time.Duration {
	if c.deadline.IsZero() {
		return unlimited
	}
	return max(c.deadline.Sub(now), 0)
}
