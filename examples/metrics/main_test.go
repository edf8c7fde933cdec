package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// The whole program, as a stranger runs it: the page has every metric that the excerpt tells of and no other of ours, and
// shows the outage.
func TestRun(t *testing.T) {
	page, err := scrapeAfterABadDay()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := excerpt(&out, page); err != nil {
		t.Fatalf("%v on the page:\n%s", err, page)
	}
	for _, want := range []string{
		`1  outbound_circuit_state="open"`,
		`outbound_outcome="succeeded", outbound_stop_reason="final_answer"`,
		`outbound_outcome="not_sent", outbound_stop_reason="circuit_open"`,
		`outbound_circuit_previous_state="closed", outbound_circuit_state="open"`,
		`error_type="connection_refused"`,
		`340  `,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
	types := regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(string(page), -1)
	if len(types) != len(families) {
		t.Errorf("%d metrics on the page, %d told of: %v", len(types), len(families), types)
	}
	for _, secret := range []string{"/v1/payments", "order-", "EUR"} {
		if bytes.Contains(page, []byte(secret)) {
			t.Errorf("%q is on the page", secret)
		}
	}
}

func TestExcerptOfAnotherPage(t *testing.T) {
	for page, want := range map[string]string{
		"": "no outbound_calls_total on the page",
		"# TYPE a counter\na 1\n# TYPE a counter\n": "second TYPE line",
	} {
		var out bytes.Buffer
		err := excerpt(&out, []byte(page))
		if err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("error %v, want %q; printed %q", err, want, &out)
		}
	}
}
