package outbound

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzRetryHint(f *testing.F) {
	for _, seed := range []string{"7", "0.314", "0", "-1", "1e3", "NaN", "Inf", "1m0s", "370ms", "99999999999999999999", "Wed, 21 Oct 2026 07:28:00 GMT", "soon", ""} {
		f.Add(seed, seed, seed, "Wed, 21 Oct 2026 07:28:00 GMT")
	}
	now := time.Date(2026, time.October, 21, 7, 28, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, ms, azure, after, date string) {
		h := http.Header{"Retry-After-Ms": {ms}, "X-Ms-Retry-After-Ms": {azure}, "Retry-After": {after}, "Date": {date}}
		hint, ok := retryHint(h, now)
		if hint < 0 || !ok && hint != 0 {
			t.Fatalf("%q: %v, %v", h, hint, ok)
		}
		for _, backoff := range []time.Duration{0, time.Second, math.MaxInt64} {
			if wait := spread(hint, backoff); wait < hint {
				t.Fatalf("a wait of %v for a hint of %v", wait, hint)
			}
		}
		if d, ok := parseDecimal(after, time.Second); ok && strings.Trim(strings.TrimSpace(after), "0123456789.") != "" {
			t.Fatalf("%q read as %v", after, d)
		}
	})
}

func FuzzKey(f *testing.F) {
	for _, seed := range []string{"", "order-42", "a b", "jo@example.com", `with"quote`, `back\slash`, "\x00", "käse", strings.Repeat("k", 256)} {
		f.Add(seed, 255, true)
	}
	f.Fuzz(func(t *testing.T, key string, limit int, quoted bool) {
		if checkKey(key, limit) != nil {
			return
		}
		if key == "" || len(key) > limit || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Fatalf("%q passed", key)
		}
		wire := quoteKey(key, quoted)
		if !isFieldValue(wire) {
			t.Fatalf("%q cannot be sent", wire)
		}
		if back, err := unquoteKey(wire, quoted); err != nil || back != key {
			t.Fatalf("%q became %q, %v", key, back, err)
		}
		p := Provider{QuoteKey: quoted}.withDefaults()
		got, sent, given, err := headerKey(http.Header{"idempotency-KEY": {wire}}, &p)
		if got != key || sent != wire || !given || err != nil {
			t.Fatalf("%q was found as %q, %q, %v", wire, got, sent, err)
		}
	})
}

func FuzzUnquoteKey(f *testing.F) {
	for _, seed := range []string{`"a"`, `"a\"b"`, `"`, `"a`, `"a"b`, `"\x"`, `a`, ``} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, wire string) {
		key, err := unquoteKey(wire, true)
		if err == nil && strings.HasPrefix(wire, `"`) && quoteKey(key, true) != wire {
			t.Fatalf("%q was read as %q", wire, key)
		}
	})
}

func FuzzActionJSON(f *testing.F) {
	for _, seed := range []string{`{}`, `{"key":"k","started":"2026-10-21T07:28:00Z","fingerprint":"sha256:00"}`, `[]`, `{"key":7}`, `null`, `{"key":"k","started":"2026-10-21T07:28:00.123456789+02:00"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := NewAction()
		if json.Unmarshal(data, a) != nil || string(bytes.TrimSpace(data)) == "null" {
			return
		}
		if a.fresh() {
			t.Fatal("what was read back must not count as fresh")
		}
		stored, err := json.Marshal(a)
		if err != nil {
			return // a year that JSON cannot write
		}
		again := new(Action)
		if err := json.Unmarshal(stored, again); err != nil {
			t.Fatal(err)
		}
		if again.Key != a.Key || !again.Started.Equal(a.Started) || again.Fingerprint != a.Fingerprint {
			t.Fatalf("%+v became %+v", a, again)
		}
	})
}

// FuzzFingerprint: the same request has the same fingerprint, and what differs in method, URL or body has another.
func FuzzFingerprint(f *testing.F) {
	f.Add("POST", "https://pay.test/v1?a=b", []byte("x"), "PUT", "http://pay.test/v1", []byte("y"))
	f.Add("POST", "https://pay.test/v1", []byte("x"), "POST", "https://PAY.test:443/v1#f", []byte("x"))
	f.Fuzz(func(t *testing.T, m1, u1 string, b1 []byte, m2, u2 string, b2 []byte) {
		one, err1 := http.NewRequest(m1, u1, bytes.NewReader(b1))
		two, err2 := http.NewRequest(m2, u2, bytes.NewReader(b2))
		if err1 != nil || err2 != nil {
			return
		}
		f1, f2 := mustFingerprint(t, one), mustFingerprint(t, two)
		if again := mustFingerprint(t, one); again != f1 {
			t.Fatal("not stable")
		}
		if (methodOf(one) != methodOf(two) || !bytes.Equal(b1, b2)) && f1 == f2 {
			t.Fatalf("%s %s and %s %s have the same fingerprint", m1, u1, m2, u2)
		}
		if m1 == m2 && u1 == u2 && bytes.Equal(b1, b2) && f1 != f2 {
			t.Fatal("equal requests differ")
		}
	})
}

func mustFingerprint(t *testing.T, req *http.Request) string {
	t.Helper()
	print, err := fingerprint(req)
	if err != nil {
		t.Fatal(err)
	}
	return print
}

func FuzzFullJitter(f *testing.F) {
	f.Add(int64(500*time.Millisecond), int64(8*time.Second), 0)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), 63)
	f.Add(int64(-1), int64(0), -1)
	f.Fuzz(func(t *testing.T, base, limit int64, retry int) {
		j := FullJitter{Base: time.Duration(base), Cap: time.Duration(limit)}
		b, c := j.bounds()
		d := j.Delay(retry)
		if d < 0 || d > c {
			t.Fatalf("%+v, retry %d: %v", j, retry, d)
		}
		if retry <= 0 && d > b {
			t.Fatalf("%+v: the first retry waits %v", j, d)
		}
		if retry > 0 && retry < 62 && b > 0 && b < c>>retry && d > b<<retry {
			t.Fatalf("%+v: retry %d waits %v", j, retry, d)
		}
	})
}

// FuzzAnswer sends arbitrary answers through the whole chain, with a Judge that says anything, and holds the result against
// what may never happen.
func FuzzAnswer(f *testing.F) {
	f.Add(201, "Retry-After", "1", []byte(`{}`), "POST", byte(0), byte(0))
	f.Add(409, "Idempotent-Replayed", "true", []byte(`x`), "POST", byte(1), byte(3))
	f.Add(200, "X-Should-Retry", "true", []byte(``), "PATCH", byte(2), byte(1))
	f.Add(503, "Content-Type", "text/event-stream", []byte(`data: x`), "DELETE", byte(1), byte(2))
	f.Add(0, "", "", []byte(nil), "GET", byte(0), byte(0))
	f.Add(204, "", "", []byte("x"), "POST", byte(0), byte(0))
	f.Add(200, "", "", []byte("x"), "HEAD", byte(0), byte(0))
	f.Fuzz(func(t *testing.T, status int, name, value string, body []byte, method string, next, says byte) {
		requests := 0
		base := fuzzBase(func(req *http.Request) (*http.Response, error) {
			requests++
			return &http.Response{
				StatusCode: status, Header: http.Header{http.CanonicalHeaderKey(name): {value}, "Content-Type": {"application/json"}},
				Body: io.NopCloser(bytes.NewReader(body)), ContentLength: -1, Request: req,
			}, nil
		})
		tr, err := New(Config{
			Base: base, Retry: RetryPolicy{Backoff: FullJitter{Base: 1, Cap: 1}, MaxRetryAfter: 1},
			Provider: Provider{Judge: func(*http.Response, []byte) Verdict { return Verdict{Next: Next(next % 4), Says: Says(says % 5)} }},
		})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequest(method, "https://pay.test/", strings.NewReader("x"))
		if err != nil {
			return
		}
		resp, err := tr.RoundTrip(req)
		report, ok := ReportOf(resp, err)
		if !ok || (resp == nil) == (err == nil) {
			t.Fatalf("%v, %v", resp, err)
		}
		if resp == nil {
			return
		}
		if bodiless(status) || method == http.MethodHead {
			body = nil // by RFC 9110 such an answer has none, whatever Base says
		}
		got, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if !bytes.Equal(got, body) {
			t.Fatalf("the body %q became %q", body, got)
		}
		if len(report.Attempts) != requests || requests > 4 {
			t.Fatalf("%d requests, %d attempts", requests, len(report.Attempts))
		}
		if says%5 == 0 && status >= 200 && status < 300 && (report.Outcome == OutcomeRejected || report.Outcome == OutcomeNotSent) {
			t.Fatalf("%d became %v", status, report.Outcome)
		}
	})
}

type fuzzBase func(*http.Request) (*http.Response, error)

func (b fuzzBase) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return b(req)
}

// FuzzDecision holds the decision against a plain restatement of the rules, written from their text and sharing no code.
func FuzzDecision(f *testing.F) {
	f.Add(503, "POST", true, false, false, false, false, false, byte(0), byte(0), byte(0))
	f.Add(409, "POST", false, false, false, false, false, true, byte(1), byte(1), byte(2))
	f.Fuzz(func(t *testing.T, status int, method string, keyed, failed, maybeSent, hopeless, broken, replayed bool, adv, next, says byte) {
		write := method != "GET" && method != "HEAD" && method != "OPTIONS" && method != "TRACE"
		keyed = keyed && write
		e := evidence{
			write: write, keyed: keyed, repeatable: !isWrite(method) || isIdempotent(method) || keyed,
			failed: failed, maybeSent: maybeSent && failed, hopeless: hopeless && failed,
			advice: advice(adv % 3), verdict: Verdict{Next: Next(next % 3), Says: Says(says % 4)},
		}
		if failed {
			e.advice, e.verdict = adviceNone, Verdict{}
		} else {
			e.status, e.replayed, e.broken = status, replayed && keyed, broken
		}
		if got, want := e.ruling() == allowed, retryRestated(e, method); got != want {
			t.Fatalf("%s %+v: retry %v, and the rules say %v", method, e, got, want)
		}
	})
}

// retryRestated is the text of the rules once more: Judge first, then the hints, then the table.
func retryRestated(e evidence, method string) bool {
	safe := method == "GET" || method == "HEAD" || method == "OPTIONS" || method == "TRACE" || method == "PUT" || method == "DELETE" || e.keyed
	if e.verdict.Next == NextStop {
		return false
	}
	if e.verdict.Next == NextRetry {
		return safe || e.verdict.Says == SaysRejected
	}
	if e.failed {
		if e.hopeless {
			return false
		}
		return !e.maybeSent || safe
	}
	if e.advice == adviceStop {
		return false
	}
	if e.advice == adviceRetry && safe && (e.status < 200 || e.status > 299) {
		return true
	}
	if e.broken {
		return safe
	}
	if e.replayed {
		return false
	}
	if e.status == 409 {
		return e.keyed
	}
	if e.status == 429 {
		return true
	}
	if e.status == 501 || e.status == 505 {
		return false
	}
	return e.status >= 500 && safe
}
