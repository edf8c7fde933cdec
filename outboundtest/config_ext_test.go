package outboundtest_test

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ot "github.com/outbound-go/outbound/outboundtest"
)

func TestBadConfigNamesEveryMistake(t *testing.T) {
	worded := ot.RateLimited
	worded.Point, worded.Status = ot.InBody, 418
	_, err := ot.Start(ot.Config{
		Dialect:   99,
		KeyHeader: "X Key",
		Work:      -time.Second,
		Script: ot.Script{
			ot.OK,
			{Point: 99, End: -1, Delay: -1, BusyFor: -2},
			ot.Answer(600),
			{Status: 503},
			{Body: "x"},
			{Header: http.Header{"A": {"b"}}},
			{Point: ot.BeforeWork, FailWork: true},
			{Point: ot.BeforeWork, Status: 204, Body: "x"},
			worded,
		},
		Mix: ot.Mix{Rates: []ot.FaultRate{
			{Fault: ot.LoseReply, Rate: -0.1},
			{Fault: ot.LoseReply, Rate: math.NaN()},
			{Fault: ot.Answer(99), Rate: 0.5},
			{Fault: ot.LoseReply, Rate: 0.9},
			{Fault: ot.CutBody, Rate: 0.2},
		}},
	})
	require.Error(t, err)
	for _, want := range []string{
		"bad config",
		"unknown Dialect(99)", "a KeyHeader, where Dialect(99) has its own", `KeyHeader "X Key" is no header name`,
		"negative Work -1s",
		"script[1]: unknown Point(99)", "unknown End(-1)", "negative Delay -1ns", "negative BusyFor -2",
		"script[2]: the Status 600 is not between 200 and 599",
		"script[3]: a Status needs Point before-work or after-work, not none",
		"script[4]: a Header and a Body need a Status",
		"script[5]: a Header and a Body need a Status",
		"script[6]: no work to fail or be busy with before-work",
		"script[7]: the Status 204 has no body",
		"script[8]: a Status needs Point before-work or after-work, not in-body", "a Status, Header or Body, where rate limited has the dialect's",
		"mix rate 0: the Rate -0.1 is not between 0 and 1",
		"mix rate 1: the Rate NaN is not between 0 and 1",
		"mix rate 2: the Status 99",
		"the mix rates sum to 1.1, more than 1",
	} {
		assert.ErrorContains(t, err, want)
	}
	assert.NotContains(t, err.Error(), "script[0]")
}

func TestNameWithoutAValueIsRefused(t *testing.T) {
	lone := []string{"X-A", "b", "Retry-After"}
	_, err := ot.Start(ot.Config{Script: ot.Script{ot.Answer(429, lone...)}})
	require.ErrorContains(t, err, `the headers ["Retry-After"] have no name or no value`)
}

func TestFaultStrings(t *testing.T) {
	for want, f := range map[string]ot.Fault{
		"ok":                            ot.OK,
		"before-accept rst":             ot.ResetOnAccept,
		"after-work silence, after 1s":  ot.Hang.After(time.Second),
		"answer 503 before-work":        ot.Answer(503),
		"answer overloaded before-work": ot.Overloaded,
		"ok, failing work, busy for 2":  {FailWork: true, BusyFor: 2},
		"Point(-1) fin":                 {Point: -1},
		"in-body End(7)":                ot.CutBody.By(7),
	} {
		assert.Equal(t, want, f.String())
	}
}

func TestGatewayKeepsItsOwnCopyOfAFault(t *testing.T) {
	f := ot.Answer(429, "Retry-After", "1")
	gw := ot.NewGateway(t, script(f, f))
	post(t, gw, "k1", order7)
	gw.Requests()[0].Fault.Header.Set("Retry-After", "9")
	f.Header.Set("Retry-After", "9")
	assert.Equal(t, "1", post(t, gw, "k1", order7).header.Get("Retry-After"))
	assert.Equal(t, "1", gw.Requests()[0].Fault.Header.Get("Retry-After"))
}
