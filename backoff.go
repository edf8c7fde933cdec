package outbound

import (
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Backoff says how long to wait before a retry. It must be stateless and safe for concurrent use: one value serves all calls.
type Backoff interface {
	// Delay is the wait before a retry; retry 0 is the first. A negative result counts as zero.
	Delay(retry int) time.Duration
}

const (
	defaultBackoffBase = 500 * time.Millisecond
	defaultBackoffCap  = 8 * time.Second
)

// FullJitter is exponential backoff with full jitter: a wait drawn evenly from [0, min(Cap, Base·2^retry)], at the cap too.
// Five retries with the defaults wait at most 15.5 s and 7.75 s on average. Safe for concurrent use.
//
// See https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
type FullJitter struct {
	// Base is the largest first wait. Zero: 500 ms. Negative: refused by New; elsewhere no wait at all.
	Base time.Duration
	// Cap is the largest wait. Zero: 8 s, or Base where that is longer. Negative, or below Base: refused by New.
	Cap time.Duration
}

// Delay draws the wait before a retry; 0 is the first. A negative number counts as 0, and no number overflows.
func (f FullJitter) Delay(retry int) time.Duration {
	base, limit := f.bounds()
	ceiling := limit
	if retry = max(retry, 0); retry < 63 && base <= limit>>retry {
		ceiling = base << retry
	}
	return uniform(ceiling)
}

func (f FullJitter) bounds() (base, limit time.Duration) {
	base, limit = f.Base, f.Cap
	if base == 0 {
		base = defaultBackoffBase
		if limit > 0 {
			base = min(base, limit)
		}
	}
	if limit == 0 {
		limit = max(defaultBackoffCap, base)
	}
	return max(base, 0), max(limit, 0)
}

// uniform draws from [0, limit].
func uniform(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(rand.Uint64N(uint64(limit) + 1))
}

// spread adds to a server's hint what keeps the clients that got the same one from coming back as one blow: the larger of
// this retry's backoff and a draw from a third of the hint.
func spread(hint, backoff time.Duration) time.Duration {
	extra := max(backoff, uniform(hint/3))
	if hint > math.MaxInt64-extra {
		return math.MaxInt64
	}
	return hint + extra
}

// retryHint is how long the reply asks to wait. The first header that parses speaks; ok is false where none does. A hint of
// zero, or of a moment that is past, is zero.
func retryHint(h http.Header, now time.Time) (hint time.Duration, ok bool) {
	if hint, ok = parseDecimal(first(h, "Retry-After-Ms"), time.Millisecond); ok {
		return hint, true
	}
	if hint, ok = parseDecimal(first(h, "X-Ms-Retry-After-Ms"), time.Millisecond); ok {
		return hint, true
	}
	value := first(h, "Retry-After")
	if value == "" {
		return 0, false // the usual case; a date that does not parse costs an error for each layout
	}
	if hint, ok = parseDecimal(value, time.Second); ok {
		return hint, true
	}
	at, err := http.ParseTime(strings.TrimSpace(value))
	if err != nil {
		return 0, false
	}
	return max(at.Sub(replyTime(h, now)), 0), true
}

// replyTime is the server's clock, so that a date is right whatever ours says; ours where the reply has no date.
func replyTime(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(first(h, "Date")); err == nil {
		return date
	}
	return now
}

// parseDecimal reads a plain decimal number, whole or not at all: no sign, exponent, unit, NaN or infinity. It rounds up,
// and saturates where the number is too large for a Duration.
func parseDecimal(s string, unit time.Duration) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	whole, fraction, dotted := strings.Cut(s, ".")
	if !digits(whole) || dotted && !digits(fraction) {
		return 0, false
	}
	value, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(value, 1) {
		return 0, false
	}
	value = math.Ceil(value * float64(unit))
	if value >= math.MaxInt64 {
		return math.MaxInt64, true
	}
	return time.Duration(value), true
}

func digits(s string) bool {
	if s == "" {
		return false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
