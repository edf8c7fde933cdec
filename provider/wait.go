package provider

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// waitIn reads a wait from places in the body; of several, the longest.
func waitIn(parse func(string) time.Duration, pointers ...string) func(*http.Response, []byte) time.Duration {
	return func(_ *http.Response, body []byte) (wait time.Duration) {
		for _, s := range textsIn(body, pointers...) {
			wait = max(wait, parse(s))
		}
		return wait
	}
}

// textsIn are the strings and numbers at places in a JSON body.
func textsIn(body []byte, pointers ...string) (texts []string) {
	doc := parseJSON(body)
	for _, pointer := range pointers {
		for _, value := range lookUp(doc, pointer) {
			if s, ok := text(value); ok {
				texts = append(texts, s)
			}
		}
	}
	return texts
}

func milliseconds(s string) time.Duration { return number(s, time.Millisecond) }

// protoDuration reads a google.protobuf.Duration: seconds and an "s", as in "37.5s".
func protoDuration(s string) time.Duration {
	seconds, ok := strings.CutSuffix(s, "s")
	if !ok {
		return 0
	}
	return number(seconds, time.Second)
}

// number reads a number of units; 0 for one that is not above 0, and the longest duration for one beyond it.
func number(s string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	switch product := n * float64(unit); {
	case !(product > 0):
		return 0
	case product >= math.MaxInt64:
		return math.MaxInt64
	default:
		return time.Duration(product)
	}
}

// resetAt reads a wait from a header that names the moment when requests are taken again. Retry-After goes before it.
func resetAt(header string, parse func(string) (time.Time, error)) func(*http.Response, []byte) time.Duration {
	return func(resp *http.Response, _ []byte) time.Duration {
		if resp.Header.Get("Retry-After") != "" {
			return 0
		}
		at, err := parse(strings.TrimSpace(resp.Header.Get(header)))
		if err != nil {
			return 0
		}
		return max(at.Sub(serverTime(resp.Header)), 0)
	}
}

// httpDate reads a date as HTTP writes it, or with a numeric zone.
func httpDate(s string) (time.Time, error) {
	if at, err := http.ParseTime(s); err == nil {
		return at, nil
	}
	return time.Parse(time.RFC1123Z, s)
}

// unixSeconds reads a number of seconds since 1970.
func unixSeconds(s string) (time.Time, error) {
	seconds, err := strconv.ParseInt(s, 10, 64)
	return time.Unix(seconds, 0), err
}

// serverTime is the answer's own date, so that a moment is right whatever our clock says; our time where it has none.
func serverTime(h http.Header) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return time.Now()
}
