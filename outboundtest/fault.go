package outboundtest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Fault is what befalls one request. The zero Fault befalls none: the request
// is served as it should be. A Fault is a value, and a gateway keeps its own copy.
type Fault struct {
	// Point is where the fault strikes. None leaves the connection whole.
	Point Point
	// End is how the connection ends at the point; FIN if zero. It means
	// nothing with Point None or with a Status.
	End End
	// Status, if not zero, answers at the point instead of ending the
	// connection, as a proxy in front of the server would: 200 to 599. The
	// point must then be BeforeWork (nothing is done) or AfterWork (the work
	// is done, whatever the answer says).
	Status int
	// Header is sent with Status. Nil sends no header but the usual ones.
	Header http.Header
	// Body is sent with Status. It may be empty.
	Body string
	// Delay is waited before the point, or before the reply with Point None.
	// Zero waits not at all.
	Delay time.Duration
	// FailWork makes the work fail: nothing is charged, and the answer is the
	// dialect's for that. Plain, Stripe and Adyen store and replay it like any
	// other; after the others' the same key does the work. Without a key it is
	// not stored.
	FailWork bool
	// BusyFor answers this request and the key's next BusyFor-1 as if the key
	// were in use (409 with Plain), although nothing is at work. Zero is none.
	// It means nothing without a key.
	BusyFor int

	word occasion // the dialect's answer at the point, like Status; 0 is none
}

// Faults for a script to read like a table.
var (
	// OK is no fault at all.
	OK = Fault{}
	// ResetOnAccept resets the connection as soon as it is accepted. The client
	// may hear of it while it is still dialling.
	ResetOnAccept = Fault{Point: BeforeAccept, End: RST}
	// DropUnread closes the connection when the request starts to arrive.
	DropUnread = Fault{Point: BeforeRead}
	// LoseRequest reads the request, does nothing, and closes.
	LoseRequest = Fault{Point: BeforeWork}
	// LeaveWorking closes while the work goes on: a retry finds the key in use
	// until it is done, then meets the result.
	LeaveWorking = Fault{Point: DuringWork}
	// LoseReply does the work and closes without a reply.
	LoseReply = Fault{Point: AfterWork}
	// CutHeaders does the work and closes halfway through the headers.
	CutHeaders = Fault{Point: InHeaders}
	// CutBody does the work and closes halfway through the body.
	CutBody = Fault{Point: InBody}
	// Hang does the work and goes silent.
	Hang = Fault{Point: AfterWork, End: Silence}
)

// Faults whose answers have the words of the dialect. Where the API shows none
// for it, the answer is the bare status.
var (
	// RateLimited is a 429 with the hints that the API is known to give, of
	// one or two seconds, in front of the server, with nothing done.
	RateLimited = Fault{Point: BeforeWork, word: rateLimited}
	// Overloaded is a 503, or Anthropic's 529, in front of the server, with
	// nothing done.
	Overloaded = Fault{Point: BeforeWork, word: overloaded}
	// QuotaExhausted is a 429 that no short wait helps against, because the
	// money or the day's quota has run out, with nothing done.
	QuotaExhausted = Fault{Point: BeforeWork, word: exhausted}
	// ServerError fails the work: a 500, and nothing is charged. Whether it is
	// stored and replayed is up to the dialect; see Fault.FailWork.
	ServerError = Fault{FailWork: true}
)

// Answer is an answer given in front of the server, with nothing done. The
// headers are pairs of name and value; a name without a value is refused where
// the fault is put to use.
func Answer(status int, headers ...string) Fault {
	return Fault{Point: BeforeWork, Status: status, Header: pairs(headers)}
}

// AnswerAfterWork is an answer given in front of the server after the work was
// done, such as a proxy's 502. The headers are as with [Answer].
func AnswerAfterWork(status int, headers ...string) Fault {
	return Fault{Point: AfterWork, Status: status, Header: pairs(headers)}
}

// Busy finds the key in use (409 with Plain) for this request and the key's
// next n-1, then gives the result. Those requests take a fault each from the
// script all the same.
func Busy(n int) Fault { return Fault{BusyFor: n} }

// Slow serves the request and holds the reply back for d.
func Slow(d time.Duration) Fault { return Fault{Delay: d} }

// By returns the fault with another end: LoseReply.By(RST).
func (f Fault) By(e End) Fault {
	f.End = e
	return f
}

// After returns the fault with another delay: LoseReply.After(time.Second).
func (f Fault) After(d time.Duration) Fault {
	f.Delay = d
	return f
}

// String describes the fault in a few words, such as "after-work fin" or
// "answer 503 before-work".
func (f Fault) String() string {
	words := []string{f.what()}
	if f.FailWork {
		words = append(words, "failing work")
	}
	if f.BusyFor != 0 {
		words = append(words, fmt.Sprintf("busy for %d", f.BusyFor))
	}
	if f.Delay != 0 {
		words = append(words, fmt.Sprintf("after %v", f.Delay))
	}
	return strings.Join(words, ", ")
}

func (f Fault) what() string {
	if f.word != 0 {
		return fmt.Sprintf("answer %v %v", f.word, f.Point)
	}
	if f.Status != 0 {
		return fmt.Sprintf("answer %d %v", f.Status, f.Point)
	}
	if f.Point == None {
		return "ok"
	}
	return fmt.Sprintf("%v %v", f.Point, f.End)
}

// validate returns every mistake in the fault, joined.
func (f Fault) validate() error {
	var errs []error
	bad := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(!f.Point.valid(), "unknown %v", f.Point)
	bad(!f.End.valid(), "unknown %v", f.End)
	bad(f.Delay < 0, "negative Delay %v", f.Delay)
	bad(f.BusyFor < 0, "negative BusyFor %d", f.BusyFor)
	bad((f.FailWork || f.BusyFor > 0) && !f.Point.reachesWork(),
		"no work to fail or be busy with %v", f.Point)
	return errors.Join(append(errs, f.validateAnswer()...)...)
}

// answers tells whether the fault gives an answer of its own.
func (f Fault) answers() bool { return f.Status != 0 || f.word != 0 }

func (f Fault) validateAnswer() []error {
	if !f.answers() {
		if f.Body == "" && len(f.Header) == 0 {
			return nil
		}
		return []error{errors.New("a Header and a Body need a Status")}
	}
	var errs []error
	if f.Point != BeforeWork && f.Point != AfterWork {
		errs = append(errs, fmt.Errorf("a Status needs Point before-work or after-work, not %v", f.Point))
	}
	if f.word != 0 {
		return append(errs, f.validateWord())
	}
	if f.Status < 200 || f.Status > 599 {
		errs = append(errs, fmt.Errorf("the Status %d is not between 200 and 599", f.Status))
	}
	if lone, ok := f.Header[""]; ok {
		errs = append(errs, fmt.Errorf("the headers %q have no name or no value: they are pairs of both", lone))
	}
	if f.Body != "" && bodiless(f.Status) {
		errs = append(errs, fmt.Errorf("the Status %d has no body", f.Status))
	}
	return errs
}

func (f Fault) validateWord() error {
	if f.Status == 0 && f.Body == "" && len(f.Header) == 0 {
		return nil
	}
	return fmt.Errorf("a Status, Header or Body, where %v has the dialect's", f.word)
}

func bodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// copied returns the fault with a header of its own.
func (f Fault) copied() Fault {
	f.Header = maps.Clone(f.Header)
	for name, values := range f.Header {
		f.Header[name] = slices.Clone(values)
	}
	return f
}

func pairs(headers []string) http.Header {
	h := http.Header{}
	for pair := range slices.Chunk(headers, 2) {
		if len(pair) == 1 {
			h[""] = pair // for validate to find
			break
		}
		h.Add(pair[0], pair[1])
	}
	return h
}
