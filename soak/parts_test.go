package soak

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
)

// Everything that breaks a promise is in the verdict.
func TestVerdict(t *testing.T) {
	good := Report{Latency: &Histogram{}}
	good.Audit.Last[outbound.OutcomeSucceeded].add(1)
	if err := good.Verdict(); err != nil {
		t.Errorf("a good report: %v", err)
	}
	for want, spoil := range map[string]func(*Report){
		"1 orders were charged more than once": func(r *Report) { r.Audit.DoubleCharged = 1 },
		"2 claims are false":                   func(r *Report) { r.Audit.FalseClaims = 2 },
		"3 payments are lost":                  func(r *Report) { r.Audit.Lost = 3 },
		"4 charges belong to no payment":       func(r *Report) { r.Audit.Strays = 4 },
		"no payment was made":                  func(r *Report) { r.Audit.Last = [4]Tally{} },
		"5 goroutines are left":                func(r *Report) { r.Leaked = 5 },
		"the heap grew by 10.0 MiB":            func(r *Report) { r.After.Heap = maxHeapGrowth + 1 },
	} {
		bad := good
		spoil(&bad)
		if err := bad.Verdict(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestCancelVerdict(t *testing.T) {
	good := CancelReport{Calls: 5, InFlight: 5, Returned: 5, Took: time.Second, Plain: time.Millisecond}
	if err := good.Verdict(); err != nil {
		t.Errorf("a good report: %v", err)
	}
	for want, spoil := range map[string]func(*CancelReport){
		"only 4 of 5 calls were in flight":   func(r *CancelReport) { r.InFlight = 4 },
		"only 3 of 5 calls returned":         func(r *CancelReport) { r.Returned = 3 },
		"2 calls did not end as cancelled":   func(r *CancelReport) { r.Wrong = 2 },
		"1 goroutines are left":              func(r *CancelReport) { r.Left = 1 },
		"1.50 s after the cancel, more than": func(r *CancelReport) { r.Took = 1500 * time.Millisecond },
	} {
		bad := good
		spoil(&bad)
		if err := bad.Verdict(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestGoroutinesGone(t *testing.T) {
	before := measure()
	stuck := make(chan struct{})
	go func() { <-stuck }()
	left, stacks := goroutinesGone(before.Goroutines, 10*time.Millisecond)
	if left != 1 || !strings.Contains(stacks, "TestGoroutinesGone") {
		t.Errorf("%d left, want 1, with its stack:\n%s", left, stacks)
	}
	close(stuck)
	if left, _ := goroutinesGone(before.Goroutines, 10*time.Second); left != 0 {
		t.Errorf("%d left", left)
	}
}

// What a kill leaves of the last line was never finished, so nothing was sent on its account.
func TestJournalCutsTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, records, err := openJournal(path)
	if err != nil || len(records) != 0 {
		t.Fatal(records, err)
	}
	must(t, j.append(record{Order: "a", Action: outbound.NewAction(), Life: 1}))
	must(t, j.append(record{Order: "b", Action: outbound.NewAction(), Life: 1}))
	must(t, j.append(record{Order: "c", Action: outbound.NewAction(), Life: 1}))
	must(t, j.append(record{Order: "a", Life: 1}))
	must(t, j.append(record{Order: "c", Life: 2}))
	_, err = j.f.WriteString(`{"order":"torn","action":{"ke`)
	must(t, err)
	j.close()

	j, records, err = openJournal(path)
	must(t, err)
	defer j.close()
	h := read(records)
	if len(h.orders) != 3 || len(h.unpaid) != 1 || h.unpaid[0].Order != "b" || h.resumed != 1 {
		t.Errorf("%+v", h)
	}
	must(t, j.append(record{Order: "b", Life: 3}))
	records, err = readJournal(path)
	if err != nil || len(read(records).unpaid) != 0 {
		t.Error(records, err)
	}
}

func TestJournalTellsOfNonsense(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	must(t, os.WriteFile(path, []byte("{}\nnonsense\n"), 0o600))
	if _, _, err := openJournal(path); err == nil || !strings.Contains(err.Error(), "line 2 of the journal") {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Max() != 0 {
		t.Error("an empty histogram knows a duration")
	}
	for ms := range 1000 {
		h.Add(time.Duration(ms+1) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 500, 0.9: 900, 0.99: 990, 1: 1000} {
		want *= time.Millisecond
		if got := h.Quantile(q); got < want || got > want+want/40 {
			t.Errorf("quantile %g is %v, want %v and at most 2 %% more", q, got, want)
		}
	}
	h.Add(100 * time.Hour)
	if h.Max() != 100*time.Hour {
		t.Error(h.Max())
	}
}

// A proxy that can't be opened is told of, and no process stays behind.
func TestProxiesRefuseNonsense(t *testing.T) {
	_, err := startProxies([]proxySpec{{Name: "p", Upstream: "127.0.0.1:1", Toxics: []toxic{down("no such toxic", 1, nil)}}})
	if err == nil || !strings.Contains(err.Error(), `opening the proxy "p"`) {
		t.Error(err)
	}
}

func TestEachOfStopsAfterError(t *testing.T) {
	broken := errors.New("broken")
	items := make([]int, 1000)
	done := 0
	err := eachOf(1, items, func(int) error {
		done++
		return broken
	})
	if !errors.Is(err, broken) || done != 1 {
		t.Errorf("%v after %d items", err, done)
	}
}

func TestSwitchboardWithoutRoute(t *testing.T) {
	if _, err := (&switchboard{}).dial(t.Context(), "tcp", "localhost:80"); !errors.Is(err, errNoRoute) {
		t.Error(err)
	}
}
