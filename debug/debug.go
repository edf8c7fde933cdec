// Package debug serves what an outbound.Transport knows of its targets, as a page for people and as JSON for programs: the
// state of each circuit, its counts, when the next probe may go, the retries left and the calls in flight.
//
//	http.Handle("GET /debug/outbound", debug.Handler(map[string]*outbound.Transport{"stripe": stripe, "mail": mail}))
//
// The page refreshes itself every two seconds and loads nothing from elsewhere. Add ?format=json, or ask with
// "Accept: application/json", for JSON. Like net/http/pprof it belongs on a port that only you can reach: it names the hosts
// you call.
package debug

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/outbound-go/outbound"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// Handler serves the targets of the transports, which are told apart by the names given here. It takes a snapshot for each
// request and moves no circuit. A nil transport is left out. Safe for concurrent use; the map must not be changed afterwards.
func Handler(transports map[string]*outbound.Transport) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		now := time.Now()
		targets := snapshot(transports)
		w.Header().Set("Cache-Control", "no-store")
		if wantsJSON(req) {
			writeJSON(w, targets)
			return
		}
		writePage(w, view{Now: now.UTC().Format("2006-01-02 15:04:05 UTC"), Rows: rowsOf(targets, now)})
	})
}

// Target is one target of one transport, as the JSON has it.
type Target struct {
	Transport string `json:"transport"` // the name given to Handler
	Target    string `json:"target"`    // scheme://host:port, or what Config.Target returned
	Circuit   string `json:"circuit"`   // closed, half-open or open

	Since     *time.Time `json:"since,omitempty"`      // when the circuit came into this state
	NextProbe *time.Time `json:"next_probe,omitempty"` // when an open circuit lets the next probe through

	ConsecutiveFailures int `json:"consecutive_failures"`
	Successes           int `json:"successes"`        // while closed those of the rolling window
	Failures            int `json:"failures"`         // likewise
	CallsInFlight       int `json:"calls_in_flight"`  // whose reply is not done with
	Pending             int `json:"attempts_pending"` // without a verdict yet
	BudgetLeft          int `json:"budget_left"`      // retries that may be made now; -1: no budget
}

func snapshot(transports map[string]*outbound.Transport) []Target {
	targets := []Target{}
	for _, name := range slices.Sorted(maps.Keys(transports)) {
		if transports[name] == nil {
			continue
		}
		for _, c := range transports[name].Circuits() {
			targets = append(targets, newTarget(name, c))
		}
	}
	return targets
}

func newTarget(transport string, c outbound.Circuit) Target {
	return Target{
		Transport: transport, Target: c.Target, Circuit: c.State.String(),
		Since: given(c.Since), NextProbe: given(c.NextProbe),
		ConsecutiveFailures: c.ConsecutiveFailures, Successes: c.Successes, Failures: c.Failures,
		CallsInFlight: c.CallsInFlight, Pending: c.Pending, BudgetLeft: c.BudgetLeft,
	}
}

func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func wantsJSON(req *http.Request) bool {
	if format := req.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	return strings.Contains(req.Header.Get("Accept"), "application/json")
}

func writeJSON(w http.ResponseWriter, targets []Target) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(targets) // the reader has gone away
}

func writePage(w http.ResponseWriter, v view) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_ = page.Execute(w, v) // the reader has gone away
}

// view is what the page shows.
type view struct {
	Now  string
	Rows []row
}

// row is a target with what the page says of it in words.
type row struct {
	Target
	For    string // how long the circuit has been in its state
	Probe  string // when the next probe may go
	Budget string // the retries left
}

func rowsOf(targets []Target, now time.Time) []row {
	rows := make([]row, len(targets))
	for i, t := range targets {
		rows[i] = row{Target: t, For: stateFor(t, now), Probe: probe(t, now), Budget: budget(t)}
	}
	return rows
}

func stateFor(t Target, now time.Time) string {
	if t.Since == nil {
		return "–"
	}
	return short(now.Sub(*t.Since))
}

func probe(t Target, now time.Time) string {
	switch {
	case t.NextProbe == nil:
		return "–"
	case !now.Before(*t.NextProbe):
		return "with the next call"
	default:
		return "in " + short(t.NextProbe.Sub(now))
	}
}

func budget(t Target) string {
	if t.BudgetLeft < 0 {
		return "no limit"
	}
	return fmt.Sprint(t.BudgetLeft)
}

func short(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
