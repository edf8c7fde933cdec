package outbound

import (
	"net/http"
	"slices"
	"time"
)

// Provider says what an API does with idempotency keys and how it words its answers. The zero value is an API that honours
// the Idempotency-Key header on POST and PATCH for at least a day. Safe for concurrent use once given to New.
type Provider struct {
	// Name appears in nothing but your own logs. Default: empty.
	Name string
	// KeyHeader is the header that carries the key. Default: "Idempotency-Key".
	KeyHeader string
	// KeyOf finds the key where an API takes it elsewhere: in a member of the body, a form field, the query. Empty: this
	// request has none. No header carries a key then, not even an Idempotency-Key that the caller set, and none is made: an
	// action's key must already be in the request. It is asked about each write, on the caller's goroutine, must be safe
	// for concurrent use, and must read a body through GetBody only. Its error refuses the call with ErrInvalidKey and is
	// printed there. Default: nil, KeyHeader.
	KeyOf func(*http.Request) (string, error)
	// QuoteKey sends the key as a quoted string, as draft-ietf-httpapi-idempotency-key-header asks. Default: raw, as every
	// large provider documents it. Reports and actions hold the key unquoted.
	QuoteKey bool
	// KeyMethods are the methods on which the API honours a key. Default: POST and PATCH. A method that is no write (GET,
	// HEAD, OPTIONS, TRACE) is refused by New.
	KeyMethods []string
	// KeyRoutes are the paths on which the API honours a key: "/payments", "/payments/{id}/refunds", where {id} stands for
	// any one part, or "/v2/" for all below it. On any other path a key protects nothing: none is made, and a write is repeated
	// as if it had none. So it is where a path is not clean, or escaped in an unusual way. Default: nil, every path.
	KeyRoutes []string
	// MinKeyLength is the shortest key, in bytes, without the quotes. Default: 1. Negative: refused by New.
	MinKeyLength int
	// MaxKeyLength is the longest key, in bytes, without the quotes. Default: 255. Negative: refused by New. A key made
	// here has 36.
	MaxKeyLength int
	// CheckKey refuses keys of the wrong form, before anything is sent: its error is printed with ErrInvalidKey, so it
	// should not quote the key. It must be safe for concurrent use. Default: nil, any visible ASCII.
	CheckKey func(key string) error
	// KeyWindow is how long the API remembers a key, counted from Action.Started. After it nothing is sent: the same key
	// would act again. It covers the coming attempt's timeout. Default: 24 h. Negative: no limit.
	KeyWindow time.Duration
	// NoKeys says that the API ignores keys. None is sent, not even one that the caller set in KeyHeader, and a write
	// other than PUT and DELETE is repeated only where it was not sent or was refused with 429, but see AllowDuplicates.
	NoKeys bool
	// AllowDuplicates lets a write that no key protects be repeated although it may have been done: you accept that the
	// work is done, and paid for, twice. For APIs where that costs little, such as a generated text. It is for the attempts of
	// one call: an action that was used before is refused where no key is sent. Default: false, such a write is repeated
	// only where it was not sent or was refused with 429.
	AllowDuplicates bool
	// ReplayHeader is the header whose value "true" marks a stored answer to an earlier request with the same key.
	// Default: "Idempotent-Replayed".
	ReplayHeader string
	// Judge is the API's own reading of an answer; it comes before all other rules. It sees the first 64 KiB of the body of
	// an answer outside 2xx, or the whole body of an answer that is read inside the attempt; nil of any other. The body
	// stays readable for the caller, and the response's Request is what was sent. Both are as they are on the wire: a body
	// is compressed where the caller asked for that. Of an answer outside 2xx whose body broke off, or was too slow, it
	// sees nil, of one without a body an empty one; it is not asked about a success that broke off. It is called on the caller's goroutine, must be safe
	// for concurrent use, and must neither read nor keep the response's Body. Default: nil.
	Judge func(resp *http.Response, body []byte) Verdict
}

// Verdict is what Provider.Judge makes of an answer. Its zero value leaves all to the default rules, field by field.
//
//	switch code {
//	case "in_progress": return Verdict{Next: NextRetry, Says: SaysUnknown, MinWait: 30 * time.Second}
//	case "already_done": return Verdict{Next: NextStop, Says: SaysSucceeded}
//	}
type Verdict struct {
	Next    Next          // whether to try again
	Says    Says          // what the answer proves
	MinWait time.Duration // the shortest wait before a retry, treated like a Retry-After of the server; zero or negative: none
}

// Next is Judge's word on a further attempt.
type Next uint8

const (
	// NextDefault leaves it to the hints and the retry table.
	NextDefault Next = iota
	// NextRetry asks for another attempt, within the limits of RetryPolicy. A write that may not be repeated (no key, not
	// PUT or DELETE, no AllowDuplicates) is repeated only together with SaysRejected.
	NextRetry
	// NextStop makes this the last attempt.
	NextStop
)

// Says is Judge's word on what an answer proves. An answer can't say that nothing was sent.
type Says uint8

const (
	// SaysDefault leaves it to the status.
	SaysDefault Says = iota
	// SaysUnknown: the work may or may not have been done.
	SaysUnknown
	// SaysRejected: the work was not done, and no earlier attempt did it.
	SaysRejected
	// SaysSucceeded: the work is done, by this attempt or an earlier one.
	SaysSucceeded
)

func (s Says) outcome() Outcome {
	switch s {
	case SaysRejected:
		return OutcomeRejected
	case SaysSucceeded:
		return OutcomeSucceeded
	default:
		return OutcomeUnknown
	}
}

const defaultMaxKeyLength = 255

// withDefaults fills what was left unset; a negative KeyWindow becomes 0, no limit.
func (p Provider) withDefaults() Provider {
	p.KeyHeader = http.CanonicalHeaderKey(orDefault(p.KeyHeader, "Idempotency-Key"))
	p.ReplayHeader = http.CanonicalHeaderKey(orDefault(p.ReplayHeader, "Idempotent-Replayed"))
	p.MinKeyLength = orDefault(p.MinKeyLength, 1)
	p.MaxKeyLength = orDefault(p.MaxKeyLength, defaultMaxKeyLength)
	p.KeyWindow = max(orDefault(p.KeyWindow, 24*time.Hour), 0)
	if len(p.KeyMethods) == 0 {
		p.KeyMethods = []string{http.MethodPost, http.MethodPatch}
	}
	p.KeyMethods, p.KeyRoutes = slices.Clone(p.KeyMethods), slices.Clone(p.KeyRoutes)
	return p
}

// honoursKey reports whether a key would count for this request.
func (t *Transport) honoursKey(req *http.Request) bool {
	p := &t.provider
	return !p.NoKeys && slices.Contains(p.KeyMethods, methodOf(req)) &&
		(len(t.keyRoutes) == 0 || slices.ContainsFunc(t.keyRoutes, func(r keyRoute) bool { return r.leadsTo(req.URL) }))
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
