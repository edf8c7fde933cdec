package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/outbound-go/outbound/outboundtest"
)

// The whole demo, as a stranger runs it: outbound keeps its promise for every seed, and the table adds up.
func TestRun(t *testing.T) {
	for _, tt := range []struct {
		n    int
		seed uint64
		live bool
	}{
		{n: 1, seed: 1},
		{n: 40, seed: 1},
		{n: 40, seed: 2, live: true},
		{n: 60, seed: 0},
		{n: 25, seed: 18446744073709551615},
	} {
		t.Run(fmt.Sprintf("n %d seed %d", tt.n, tt.seed), func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			args := []string{"-n", strconv.Itoa(tt.n), "-seed", strconv.FormatUint(tt.seed, 10)}
			code := run(args, display{w: &stdout, live: tt.live}, &stderr)
			if code != 0 || stderr.Len() > 0 {
				t.Fatalf("exit status %d, stderr %q, stdout:\n%s", code, &stderr, &stdout)
			}
			checkSums(t, stdout.String(), tt.n)
			if strings.Contains(stdout.String(), "\r") != tt.live {
				t.Errorf("carriage returns only, and always, on a terminal:\n%q", &stdout)
			}
		})
	}
}

// checkSums reads the printed table: every order is charged once, more often or never, and something is claimed of every
// order, at first and at last.
func checkSums(t *testing.T, out string, n int) {
	t.Helper()
	for client := range 2 {
		charged := figureOf(t, out, "orders charged once")[client] +
			figureOf(t, out, "orders charged twice or more")[client] +
			figureOf(t, out, "orders never charged")[client]
		if asked := figureOf(t, out, "payments asked for")[client]; asked != n || charged != n {
			t.Errorf("client %d: asked for %d, charges of %d orders, want %d:\n%s", client, asked, charged, n, out)
		}
		_, claims, _ := strings.Cut(out, "when their calls returned")
		first, last, _ := strings.Cut(claims, "after reconciliation")
		for _, part := range []string{first, last} {
			claimed := 0
			for _, name := range []string{"success / succeeded", "error", "rejected", "not sent", "unknown"} {
				claimed += figureOf(t, part, name)[3*client]
			}
			if claimed != n {
				t.Errorf("client %d: claims of %d orders, want %d:\n%s", client, claimed, n, part)
			}
		}
	}
}

// figureOf returns the numbers in the row of that name. A dash is none.
func figureOf(t *testing.T, out, name string) (figures []int) {
	t.Helper()
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+" ")
		if !ok {
			continue
		}
		for _, word := range strings.Fields(rest) {
			n, err := strconv.Atoi(word)
			if err != nil && word != "-" {
				t.Fatalf("%q is no number in the row %q", word, line)
			}
			figures = append(figures, n)
		}
		return figures
	}
	t.Fatalf("no row %q in:\n%s", name, out)
	return nil
}

// The demo has a point only if the hand-written client does charge twice.
func TestHandWrittenClientChargesTwice(t *testing.T) {
	sum, code, out := playWith(t, 100, gatewayConfig(1), nil)
	if sum.hand.more == 0 || code != 0 {
		t.Errorf("charged twice: %d orders, exit status %d:\n%s", sum.hand.more, code, out)
	}
	if want := fmt.Sprintf("charged %d of 100 orders twice or more", sum.hand.more); !strings.Contains(out, want) {
		t.Errorf("no %q in:\n%s", want, out)
	}
}

// playWith runs the demo with outbound's gateway as configured and its ledger doctored.
func playWith(t *testing.T, n int, cfg outboundtest.Config, doctor func([]outboundtest.Payment) []outboundtest.Payment) (
	summary, int, string,
) {
	t.Helper()
	var out bytes.Buffer
	gw := doctored{outboundtest.NewGateway(t, cfg), doctor}
	sum, err := demo(n, outboundtest.NewGateway(t, gatewayConfig(1)), gw, display{w: &out})
	if err != nil {
		t.Fatal(err)
	}
	code := sum.report(&out)
	return sum, code, out.String()
}

// doctored is a gateway whose ledger somebody has been at.
type doctored struct {
	*outboundtest.Gateway
	doctor func([]outboundtest.Payment) []outboundtest.Payment
}

func (d doctored) Payments() []outboundtest.Payment {
	if d.doctor == nil {
		return d.Gateway.Payments()
	}
	return d.doctor(d.Gateway.Payments())
}

// The check can fail: with a ledger that was tampered with, and with gateways that nobody can keep the promise with.
func TestBrokenPromiseFails(t *testing.T) {
	always := func(f outboundtest.Fault) outboundtest.Config {
		return outboundtest.Config{Mix: outboundtest.Mix{Rates: []outboundtest.FaultRate{{Fault: f, Rate: 1}}}}
	}
	for _, tt := range []struct {
		name   string
		cfg    outboundtest.Config
		doctor func([]outboundtest.Payment) []outboundtest.Payment
		want   string
	}{
		{"a charge too many", outboundtest.Config{}, func(ps []outboundtest.Payment) []outboundtest.Payment {
			return append(ps, ps[0])
		}, "charged 1 of 5 orders twice or more"},
		{"a charge too few", outboundtest.Config{}, func(ps []outboundtest.Payment) []outboundtest.Payment {
			return ps[1:]
		}, "reported 1 as paid that had not been charged"},
		{"a rejected order charged", always(outboundtest.ServerError), func(ps []outboundtest.Payment) []outboundtest.Payment {
			return append(ps, outboundtest.Payment{Order: "order-3"})
		}, "reported 1 as failed that had been charged"},
		{"a 4xx after the work", always(outboundtest.AnswerAfterWork(403)), nil,
			"reported 5 as failed that had been charged"},
		{"keys ignored", outboundtest.Config{IgnoreKeys: true, Script: outboundtest.Script{outboundtest.LoseReply}}, nil,
			"charged 1 of 5 orders twice or more"},
		{"never an answer", always(outboundtest.LoseRequest), nil, "left 5 unresolved"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, code, out := playWith(t, 5, tt.cfg, tt.doctor)
			if code != 1 || !strings.Contains(out, "the shop "+tt.want) {
				t.Errorf("exit status %d, want 1 and %q:\n%s", code, tt.want, out)
			}
		})
	}
}

// The footnote promises that no fault of the mix is a lie.
func TestMixHasNoRejectionAfterWork(t *testing.T) {
	for _, r := range gatewayConfig(1).Mix.Rates {
		if f := r.Fault; f.Point == outboundtest.AfterWork && f.Status >= 400 && f.Status < 500 {
			t.Errorf("%v: a 4xx after the work was done", f)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"-n 0", 2, "-n is 0; it must be between 1 and 10000"},
		{"-n -3", 2, "-n is -3; it must be between 1 and 10000"},
		{"-n 10001", 2, "-n is 10001; it must be between 1 and 10000"},
		{"-n many", 2, `invalid value "many" for flag -n`},
		{"-seed -1", 2, `invalid value "-1" for flag -seed`},
		{"300", 2, `unexpected argument "300"`},
		{"-x", 2, "flag provided but not defined: -x"},
		{"-h", 0, "how many payments to make with each client"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(strings.Fields(tt.args), display{w: &stdout}, &stderr)
			if code != tt.code || !strings.Contains(stderr.String(), tt.want) || stdout.Len() > 0 {
				t.Errorf("exit status %d, want %d; stderr %q, want %q; stdout %q", code, tt.code, &stderr, tt.want, &stdout)
			}
		})
	}
}
