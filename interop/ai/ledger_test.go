package ai_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/interop/internal/mock"
	"github.com/outbound-go/outbound/outboundtest"
)

// What is billed, by the ledger of a server that speaks like the API: a generation that was lost is billed once and unknown, and one that
// came is billed once.
func TestOneBill(t *testing.T) {
	for name, row := range map[string]struct {
		faults   outboundtest.Script
		attempts int
		bills    int
		want     outbound.Outcome
	}{
		"fine":         {nil, 1, 1, outbound.OutcomeSucceeded},
		"rate limit":   {outboundtest.Script{outboundtest.RateLimited}, 2, 1, outbound.OutcomeSucceeded},
		"lost reply":   {outboundtest.Script{outboundtest.LoseReply}, 1, 1, outbound.OutcomeUnknown},
		"lost request": {outboundtest.Script{outboundtest.LoseRequest}, 1, 0, outbound.OutcomeUnknown},
		"overloaded":   {outboundtest.Script{outboundtest.Overloaded}, 1, 0, outbound.OutcomeUnknown},
		"used up":      {outboundtest.Script{outboundtest.QuotaExhausted}, 1, 0, outbound.OutcomeRejected},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, v vendor) {
				t.Parallel() // the API asks for a second's wait
				gw := outboundtest.NewGateway(t, outboundtest.Config{Dialect: v.dialect, Script: row.faults})
				client := mock.NewClient(t, mock.Quick(nil, v.profile()))
				_, _, err := v.open(gw.URL+v.prefix, client.Client, false).ask(t.Context())
				assert.Equal(t, row.want == outbound.OutcomeSucceeded, err == nil, "%v", err)
				assert.Equal(t, row.attempts, gw.Attempts())
				require.Len(t, gw.Payments(), row.bills)
				assert.Equal(t, row.want, client.Report(t).Outcome)
			})
		})
	}
}
