package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
)

// The whole demo, as a stranger runs it.
func TestRun(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run(&stdout, &stderr)
	out := stdout.String()
	if code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit status %d, stderr %q, stdout:\n%s", code, &stderr, out)
	}
	for n := range batchSize {
		if found := strings.Count(out, ticket(n+1)+" "); found != 1 {
			t.Errorf("%q has %d rows, want 1", ticket(n+1), found)
		}
	}
	for _, want := range []string{
		answerTo(aboutPayments) + "\n   succeeded; replies: 429, 200; waited: 0.",
		"   Because this API would ignore it: whatever is ...\n   Cut (outbound: idle timeout)",
		"\n   unknown; replies: 200; waited: -; billed once\n",
		"18 succeeded, 0 rejected, 0 not sent, 2 unknown.",
		"429, 429, 200",
		"no answer, paid for once",
		"the answer, paid for twice",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Log("\n" + out)
	}
}

// asExpected is what a good run finds, with the least that a batch can be.
func asExpected() findings {
	ended := func(prompt string, outcome outbound.Outcome, billed int, statuses ...int) ending {
		e := ending{prompt: prompt, ledger: entry{requests: len(statuses), billed: billed}}
		e.report.Outcome = outcome
		for _, s := range statuses {
			e.report.Attempts = append(e.report.Attempts, outbound.Attempt{Status: s})
		}
		if outcome == outbound.OutcomeSucceeded {
			e.answer = answerTo(prompt)
		} else {
			e.err = errors.New("no answer")
		}
		return e
	}
	f := findings{
		streamed: ended(aboutPayments, outbound.OutcomeSucceeded, 1, 429, 200),
		stalled:  ended(aboutPrompts, outbound.OutcomeUnknown, 1, 200),
		lost:     ended(aboutPrompts, outbound.OutcomeUnknown, 1, 0),
		repeated: ended(aboutPrompts, outbound.OutcomeSucceeded, 2, 0, 200),
		batch: []ending{
			ended(ticket(1), outbound.OutcomeSucceeded, 1, 200),
			ended(ticket(2), outbound.OutcomeRejected, 0, 429),
			ended(ticket(3), outbound.OutcomeNotSent, 0),
		},
		peak: inFlight,
	}
	f.stalled.err = fmt.Errorf("reading: %w", outbound.ErrIdleTimeout)
	return f
}

// The exit status can be 1: each claim is found to be false where it is, and no other.
func TestFalseClaimFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		tamper func(*findings)
		begins string // how the one false claim begins; empty: none is
	}{
		{"all as expected", func(*findings) {}, ""},
		{"too many in flight", func(f *findings) { f.peak = inFlight + 1 }, "at most 5 prompts"},
		{"billed twice", func(f *findings) { f.batch[0].ledger.billed = 2 }, "by default none was billed twice"},
		{"success not billed", func(f *findings) { f.batch[0].ledger.billed = 0 }, "each success was billed"},
		{"success without its end", func(f *findings) { f.batch[0].answer = "The" }, "each success was billed"},
		{"success with an error", func(f *findings) { f.batch[0].err = errors.New("cut") }, "each success was billed"},
		{"rejected and billed", func(f *findings) { f.batch[1].ledger.billed = 1 }, "each success was billed"},
		{"not sent and billed", func(f *findings) { f.batch[2].ledger.billed = 1 }, "each success was billed"},
		{"a request too many", func(f *findings) { f.batch[1].ledger.requests = 2 }, "each attempt was one request"},
		{"sent for all that", func(f *findings) { f.batch[2].ledger.requests = 1 }, "each attempt was one request"},
		{"came back too soon", func(f *findings) { f.streamed.ledger.early = 1 }, "each attempt was one request"},
		{"stream cut by something else", func(f *findings) { f.stalled.err = errors.New("EOF") }, "the stream"},
		{"cut stream called rejected", func(f *findings) {
			f.stalled.report.Outcome, f.stalled.ledger.billed = outbound.OutcomeRejected, 0
		}, "the stream"},
		{"lost reply called not sent", func(f *findings) {
			f.lost.report.Outcome, f.lost.ledger.billed = outbound.OutcomeNotSent, 0
		}, "after a lost reply"},
		{"not repeated where it may be", func(f *findings) {
			f.repeated.report.Outcome = outbound.OutcomeUnknown
		}, "after a lost reply"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := asExpected()
			tt.tamper(&f)
			var out bytes.Buffer
			code := f.conclude(&out)
			wantCode, wantFalse := 1, 1
			if tt.begins == "" {
				wantCode, wantFalse = 0, 0
			}
			marked := strings.Count(out.String(), "\n  FALSE ")
			if code != wantCode || marked != wantFalse || !strings.Contains(out.String(), "  FALSE  "+tt.begins) && wantFalse == 1 {
				t.Errorf("exit status %d, want %d; %d claims are false, want %d (%q):\n%s",
					code, wantCode, marked, wantFalse, tt.begins, &out)
			}
		})
	}
}

func startTestAPI(t *testing.T, faults map[string][]fault) *api {
	t.Helper()
	a, err := startAPI(faults)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a
}

// The API's count of requests in flight is right: streams that have begun and wait for ever are all at work.
func TestAPICountsInFlight(t *testing.T) {
	t.Parallel()
	a := startTestAPI(t, map[string][]fault{"wait": slices.Repeat([]fault{stall}, inFlight+2)})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for range inFlight + 2 {
		body := strings.NewReader(`{"stream":true,"messages":[{"content":"wait"}]}`)
		resp, err := client.Post(a.url+"chat/completions", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
			t.Fatalf("the stream begins with %q, %v", line, err)
		}
	}
	if peak := a.mostInFlight(); peak != inFlight+2 {
		t.Errorf("%d were in flight at most, want %d", peak, inFlight+2)
	}
}

// The ledger is right: what is turned away is not billed, all else is, and who comes too soon is noticed.
func TestAPIKeepsItsLedger(t *testing.T) {
	t.Parallel()
	a := startTestAPI(t, map[string][]fault{"p": {busy, overloaded, loseReply, stall}})
	var met []fault
	for range 5 {
		met = append(met, a.admit("p"))
	}
	if want := []fault{busy, overloaded, loseReply, stall, none}; !slices.Equal(met, want) {
		t.Errorf("met %v, want %v", met, want)
	}
	if e := a.entry("p"); e.requests != 5 || e.billed != 3 {
		t.Errorf("%d requests, %d billed, want 5 and 3", e.requests, e.billed)
	}
	a.closedTo["q"] = time.Now().Add(time.Hour)
	a.admit("q")
	a.closedTo["q"] = time.Now()
	a.admit("q")
	if early := a.entry("q").early; early != 1 {
		t.Errorf("%d came too soon, want 1", early)
	}
}
