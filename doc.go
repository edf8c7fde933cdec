// Package outbound is a resilient outbound HTTP client for calls that must not be done twice: to payment gateways, AI APIs
// and the like. It is a plain [http.RoundTripper] that fits under any *http.Client, so under any SDK that takes one. It
// bounds connect, attempt and total time, gives each action one idempotency key, retries by default only network errors, 409,
// 429 and 5xx, with capped full-jitter backoff that honours Retry-After, and opens a circuit on sustained failures.
//
// A call over a network ends in one of four ways, and the caller is told which:
//
//   - [OutcomeNotSent]: proven: no attempt of this action ever reached a server. Call it failed.
//   - [OutcomeRejected]: the server answered, and did not do it. Call it failed.
//   - [OutcomeSucceeded]: the server answered, and did it. Call it done.
//   - [OutcomeUnknown]: it may or may not have been done. Keep the key, ask the server later; never start a new action.
//
// No certainty is claimed without proof, and one action carries one key from its first attempt to its last: across retries,
// redirects, and restarts of the process (see [Action]).
//
// The one assumption is that the API honours the key header. An API that ignores it needs Provider.NoKeys.
//
// # The chain
//
// A request walks down; nothing calls upward.
//
//	http.Client                redirects, cookies (each hop is one more RoundTrip of the same action)
//	 └ Transport.RoundTrip     opens the call: action, key, deadline, report          once per hop
//	    └ bulkhead             at most N calls in flight per target                   once per hop
//	       └ retry             the loop: replay the body, judge, wait, budget         once per hop
//	          └ guard          one circuit per target                                 per attempt
//	             └ sendTo      timers, send proof, reply                              per attempt
//	                └ Base     http.Transport with the connect timeout                per attempt
//
// # Where to start
//
// [NewClient] makes an *http.Client, [New] the Transport alone. [OutcomeOf] and [ReportOf] tell how a call ended. [WithAction]
// makes an action survive a restart. Leave http.Client.Timeout at zero, close every response body, and turn an SDK's own
// retries off: exactly one layer retries.
package outbound
