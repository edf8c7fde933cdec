package fleet

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheServersQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(Setup{Shape: Shape{Processes: 10, PerSecond: 10}, After: time.Minute}, time.Now())
		taken := 0
		for ; taken < 1000; taken++ {
			wait, ok := s.enqueue(time.Now())
			if !ok {
				break
			}
			if want := time.Duration(taken+1) * s.service; wait != want {
				t.Fatalf("request %d waits %v, not %v", taken, wait, want)
			}
		}
		if taken < 300 || taken > 302 {
			t.Errorf("it took %d requests in, and 2 s of 150 a second are 300", taken)
		}
		time.Sleep(time.Second)
		for again := 0; ; again++ {
			if _, ok := s.enqueue(time.Now()); !ok {
				if again < 149 || again > 151 {
					t.Errorf("after a second there was room for %d, not 150", again)
				}
				return
			}
		}
	})
}

// sums makes running totals of n bins that hold the same, but for those given.
func sums(n int, each int64, but map[int]int64) []int64 {
	s := []int64{0}
	for i := range n {
		v, ok := but[i]
		if !ok {
			v = each
		}
		s = append(s, s[i]+v)
	}
	return s
}

func TestRecoveryIsTheStartOfFiveGoodSeconds(t *testing.T) {
	calls := sums(2000, 10, nil)
	if got := recovery(calls, sums(2000, 10, nil)); got != 0 {
		t.Errorf("a fleet that never failed recovered after %v", got)
	}
	if got := recovery(calls, sums(2000, 0, nil)); got != Never {
		t.Errorf("a fleet that always failed recovered after %v", got)
	}
	// 11 lost calls of the thousand in a second are too many, as long as the second holds them all.
	if got := recovery(calls, sums(2000, 10, map[int]int64{100: 0, 150: 9})); got != 1010*time.Millisecond {
		t.Errorf("recovered after %v", got)
	}
	if got := recovery(calls, sums(2000, 10, map[int]int64{100: 0})); got != 0 {
		t.Errorf("99 %% is enough, and it recovered after %v", got)
	}
}

func TestPeakIsTheBusiestTenBins(t *testing.T) {
	if got := peak(sums(100, 1, map[int]int64{40: 7, 45: 7, 60: 9})); got != 22 {
		t.Errorf("the peak is %v, not 22", got)
	}
}

func TestMissesNameWhatIsMissed(t *testing.T) {
	good := Result{Amplification: 1.2, Peak: 1.25, Recovery: 2500 * time.Millisecond, Later: 0.94}
	if misses := good.Misses(); len(misses) != 0 {
		t.Errorf("at its limits it misses %q", misses)
	}
	bad := Result{Setup: Setup{Outage: Announces}, Amplification: 1.21, Peak: 2.01, Recovery: Never, Later: 0.93}
	if misses := bad.Misses(); len(misses) != 4 || !strings.Contains(misses[2], "never") {
		t.Errorf("it misses %q", misses)
	}
}

func TestWorstKeepsTheWorstOfEach(t *testing.T) {
	a := &Result{Amplification: 1, Peak: 3, Recovery: time.Second, Rescued: 0.2, Later: 0.9}
	b := &Result{Amplification: 2, Peak: 1, Recovery: Never, Rescued: 0.1, Later: 0.95}
	w := Worst([]*Result{a, b})
	if w.Amplification != 2 || w.Peak != 3 || w.Recovery != Never || w.Rescued != 0.1 || w.Later != 0.9 {
		t.Errorf("the worst is %+v", *w)
	}
	if a.Amplification != 1 {
		t.Error("it changed a result")
	}
}

func TestAChartIsWellFormed(t *testing.T) {
	t.Parallel()
	s := Setup{Shape: Shape{Processes: 5, PerSecond: 10}, Outage: Announces, Before: 5 * time.Second, During: 10 * time.Second, After: 30 * time.Second}
	var results []*Result
	for _, p := range []Policy{NoRetry, Letter, Defaults, Untouched} {
		s.Policy = p
		results = append(results, Run(t, s))
	}
	var svg, table bytes.Buffer
	if err := WriteChart(&svg, results); err != nil {
		t.Fatal(err)
	}
	PrintTable(&table, results)
	text := svg.String()
	for d := xml.NewDecoder(&svg); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range results {
		if !strings.Contains(text, r.Setup.Policy.Name) || !strings.Contains(table.String(), "| "+r.Setup.Policy.Name+" |") {
			t.Errorf("chart or table leaves out %q", r.Setup.Policy.Name)
		}
	}
}

func TestPoliciesHaveNamesOfTheirOwn(t *testing.T) {
	var names []string
	for _, p := range Policies {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(Policies) {
		t.Errorf("two policies share a name: %q", names)
	}
}
