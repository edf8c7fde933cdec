// Package provider has ready profiles of payment and AI APIs for [outbound.Config]: where the idempotency key goes, how long
// it is remembered, and how the API words its answers.
//
//	transport, err := outbound.New(outbound.Config{Provider: provider.Stripe()})
//
// A profile is a plain [outbound.Provider]. Change it before it goes into a Config, where your contract or your endpoint differs:
//
//	p := provider.PayPal(6 * time.Hour)
//	p.KeyWindow = 72 * time.Hour // where PayPal has agreed to remember the keys of your orders for so long
//
// One Transport per API: they can share a Base.
//
// # What a profile says, and what it does not
//
// It says only what differs from the default rules, and only what the API's own documents or client libraries say. Keys count
// where these say so, operation by operation if they differ; elsewhere a write is not repeated once it may have been done. Where
// they are silent a profile assumes what does no harm if it is wrong (a stop, no claim, a key refused), and one thing that may:
// that keys are remembered for an hour, where nobody says how long. Its comment then has the words "assumed, not documented".
// An API can change its ways, so read the sources that each comment names before you trust money to a profile.
//
// The outcome is that of the call. A payment that was made and then declined by the bank, or that waits for the customer, is
// [outbound.OutcomeSucceeded]: the API did what it was asked. What became of the money is in the body.
//
// # A profile of your own
//
// [Rules] makes a Judge of a table of [Rule] rows. [JSONKey], [FormKey] and [QueryKey] find a key that is not in a header;
// [UUID], [UUIDv4] and [Word] check its form.
package provider
