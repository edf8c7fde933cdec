package soak

import (
	"strings"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/outboundtest"
)

func TestMain(m *testing.M) {
	RunChild()
	m.Run()
}

// The whole soak, short: every promise is kept, over both protocols, and there was something to keep it against.
func TestLoad(t *testing.T) {
	watched := 0
	r, err := Load(t.Context(), LoadConfig{
		For: 3 * time.Second, Round: 1500 * time.Millisecond, Concurrency: 24, Seed: 7,
		Watch: func(Progress) { watched++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r.Print(&out)
	if err := r.Verdict(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, kind := range []string{"gateway: ", "network: ", "front: ", "restart: ", "unknown: "} {
		if countOf(r.Faults, kind) == 0 {
			t.Errorf("no %q at all:\n%s", kind, &out)
		}
	}
	for _, kind := range laneKinds {
		if r.Lanes[kind.name] == 0 {
			t.Errorf("nothing was paid over %s:\n%s", kind.name, &out)
		}
	}
	if watched == 0 {
		t.Error("nobody was told how far it is")
	}
}

func countOf(by map[string]int, prefix string) (n int) {
	for kind, count := range by {
		if strings.HasPrefix(kind, prefix) {
			n += count
		}
	}
	return n
}

// The whole soak can fail: against a gateway that ignores keys nobody can keep the promise.
func TestLoadAgainstGatewayThatIgnoresKeys(t *testing.T) {
	r, err := Load(t.Context(), LoadConfig{
		For: time.Second, Concurrency: 16, Seed: 7,
		tamper: func(c *outboundtest.Config) { c.IgnoreKeys = true },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Audit.DoubleCharged == 0 || len(r.Audit.Examples) == 0 || r.Audit.Good() {
		t.Errorf("nothing was charged twice: %+v", r.Audit)
	}
	if err := r.Verdict(); err == nil || !strings.Contains(err.Error(), "orders were charged more than once") {
		t.Errorf("verdict: %v", err)
	}
}

func TestLoadRefusesNonsense(t *testing.T) {
	_, err := Load(t.Context(), LoadConfig{})
	if err == nil || !strings.Contains(err.Error(), "more than 0s") || !strings.Contains(err.Error(), "concurrency is 0") {
		t.Errorf("got %v", err)
	}
}

func TestKills(t *testing.T) {
	r, err := Kills(t.Context(), KillConfig{Kills: 20, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verdict(); err != nil || r.Kills != 20 || r.Charges != r.Orders || r.Resumed == 0 {
		t.Errorf("%v\n%+v", err, r)
	}
}

// fewer is n, or a tenth of it under the race detector.
func fewer(n int) int {
	if underRace {
		return n / 10
	}
	return n
}

func TestCancels(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			r, err := Cancels(CancelConfig{Calls: fewer(5000), HTTP2: http2})
			if err != nil {
				t.Fatal(err)
			}
			// The second that they have is measured by the command: a test on a busy machine must not depend on it.
			if err := r.Sound(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHosts(t *testing.T) {
	r, err := Hosts(HostConfig{Hosts: 20_000, Calls: fewer(100_000)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verdict(); err != nil || r.Most != maxCircuits || r.Refused != 0 {
		t.Errorf("%v\n%+v", err, r)
	}
}

// Open circuits are never given up before their time, so that they alone fill the table.
func TestHostsThatFail(t *testing.T) {
	r, err := Hosts(HostConfig{Hosts: 14_000, Calls: 28_000, Failing: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Verdict(); err != nil || r.Open != maxCircuits || r.Refused == 0 {
		t.Errorf("%v\n%+v", err, r)
	}
}

// The audit can fail, and says of which order.
func TestCheck(t *testing.T) {
	const succeeded, rejected, notSent, unknown = outbound.OutcomeSucceeded, outbound.OutcomeRejected,
		outbound.OutcomeNotSent, outbound.OutcomeUnknown
	paid := outboundtest.Payment{Order: "a", Key: "ka"}
	one := func(said, last outbound.Outcome) []Claim { return []Claim{{"a", "ka", said, last}} }
	for _, tt := range []struct {
		name   string
		claims []Claim
		ledger []outboundtest.Payment
		want   Audit
		says   string
	}{
		{"paid once", one(unknown, succeeded), []outboundtest.Payment{paid}, Audit{}, ""},
		{"not paid", one(unknown, rejected), nil, Audit{}, ""},
		{"refused", one(notSent, notSent), nil, Audit{}, ""},
		{"charged twice", one(succeeded, succeeded), []outboundtest.Payment{paid, paid}, Audit{DoubleCharged: 1}, "charged more than once"},
		{"never charged", one(succeeded, succeeded), nil, Audit{FalseClaims: 1}, "the claim is false"},
		{"rejected and charged", one(rejected, rejected), []outboundtest.Payment{paid}, Audit{FalseClaims: 1}, "the claim is false"},
		{"not sent and charged", one(notSent, notSent), []outboundtest.Payment{paid}, Audit{FalseClaims: 1}, "the claim is false"},
		{"a first claim taken back", one(rejected, succeeded), []outboundtest.Payment{paid}, Audit{FalseClaims: 1}, "the claim is false"},
		{"lost", one(unknown, unknown), nil, Audit{Lost: 1}, "lost"},
		{"lost and charged", one(unknown, unknown), []outboundtest.Payment{paid}, Audit{Lost: 1}, "lost"},
		{"an order of nobody", nil, []outboundtest.Payment{paid}, Audit{Strays: 1}, "not its own"},
		{"under another key", one(succeeded, succeeded), []outboundtest.Payment{{Order: "a", Key: "kb"}}, Audit{Strays: 1}, "not its own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := Check(tt.claims, tt.ledger)
			got := Audit{DoubleCharged: a.DoubleCharged, FalseClaims: a.FalseClaims, Lost: a.Lost, Strays: a.Strays}
			if got.DoubleCharged != tt.want.DoubleCharged || got.FalseClaims != tt.want.FalseClaims ||
				got.Lost != tt.want.Lost || got.Strays != tt.want.Strays {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if a.Good() != (tt.says == "") || !strings.Contains(strings.Join(a.Examples, "\n"), tt.says) {
				t.Errorf("good %v, examples %q, want %q", a.Good(), a.Examples, tt.says)
			}
		})
	}
}
