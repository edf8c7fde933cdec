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
	// QuoteKey sends the key as a quoted string, as draft-ietf-httpapi-idempotency-key-header asks. Default: raw, as every
	// large provider documents it. Reports and actions hold the key unquoted.
	QuoteKey bool
	// KeyMethods are the methods on which the API honours a key. Default: POST and PATCH. A method that is no write (GET,
	// HEAD, OPTIONS, TRACE) is refused by New.
	KeyMethods []string
	// MaxKeyLength is the longest key, in bytes, without the quotes. Default: 255. Negative: refused by New. A key made
	// here has 36.
	MaxKeyLength int
	// KeyWindow is how long the API remembers a key, counted from Action.Started. After it nothing is sent: the same key
	// would act again. It covers the coming attempt's timeout. Default: 24 h. Negative: no limit.
	KeyWindow time.Duration
	// NoKeys says that the API ignores keys. None is sent, not even one that the caller set in KeyHeader, and a write
	// other than PUT and DELETE is repeated only where it was not sent or was refused with 429.
	NoKeys bool
	// ReplayHeader is the header whose value "true" marks a stored answer to an earlier request with the same key.
	// Default: "Idempotent-Replayed".
	ReplayHeader string
	// Judge is the API's own reading of an answer; it comes before all other rules. It sees the first 64 KiB of the body of
	// an answer outside 2xx, or the whole body of an answer that is read inside the attempt; nil of any other. The body
	// stays readable for the caller. It is not asked about an answer whose body broke off before that. It is called on the
	// caller's goroutine, must be safe for concurrent use, and must neither read nor keep the response's Body. Default: nil.
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
	// NextRetry asks for another attempt, within the limits of RetryPolicy. A write that may not be repeated (no key, and
	// not PUT or DELETE) is repeated only together with SaysRejected.
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

// withDefaults fills what was left unset; a negative KeyWindow becomes 0, no limit.
func (p Provider) withDefaults() Provider {
	p.KeyHeader = http.CanonicalHeaderKey(orDefault(p.KeyHeader, "Idempotency-Key"))
	p.ReplayHeader = http.CanonicalHeaderKey(orDefault(p.ReplayHeader, "Idempotent-Replayed"))
	p.MaxKeyLength = orDefault(p.MaxKeyLength, 255)
	p.KeyWindow = max(orDefault(p.KeyWindow, 24*time.Hour), 0)
	if len(p.KeyMethods) == 0 {
		p.KeyMethods = []string{http.MethodPost, http.MethodPatch}
	}
	p.KeyMethods = slices.Clone(p.KeyMethods)
	return p
}

// honoursKey reports whether a request with this method carries a key that counts.
func (p *Provider) honoursKey(method string) bool {
	return !p.NoKeys && slices.Contains(p.KeyMethods, method)
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
