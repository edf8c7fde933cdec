package provider

import (
	"time"

	"github.com/outbound-go/outbound"
)

// undocumented is the KeyWindow where an API does not say how long it remembers a key: short, because after it the same key
// acts again, and enough for the retries of one call.
const undocumented = time.Hour

// What rows mean, more than once.
var (
	stop   = outbound.Verdict{Next: outbound.NextStop}
	done   = outbound.Verdict{Next: outbound.NextStop, Says: outbound.SaysSucceeded}
	again  = outbound.Verdict{Next: outbound.NextRetry}
	atWork = outbound.Verdict{Next: outbound.NextRetry, Says: outbound.SaysUnknown}
)

// IETF is an API that follows draft-ietf-httpapi-idempotency-key-header: the key is a quoted string in Idempotency-Key, 409
// says that the first request with it is still at work, 422 that it was used with another payload, 400 that it is missing.
// The default rules read these answers so. An API that only borrowed the header's name takes the key raw: use the zero
// [outbound.Provider] there.
//
// The draft has each API publish how long it remembers a key. Set KeyWindow to that; assumed, not documented: an hour.
//
// Source, read in November 2026: the editor's copy, github.com/ietf-wg-httpapi/idempotency.
func IETF() outbound.Provider {
	return outbound.Provider{Name: "ietf", QuoteKey: true, KeyWindow: undocumented}
}

// Keyless is an API that ignores idempotency keys, or of which nobody knows better. None is sent, and a write other than
// PUT and DELETE is repeated only where it was not sent or was refused with 429.
func Keyless() outbound.Provider {
	return outbound.Provider{Name: "keyless", NoKeys: true}
}
