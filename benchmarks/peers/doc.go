// Package peers runs the same work through outbound and through the other resilient HTTP clients of the field, configured
// alike, so that what each adds to net/http can be read side by side.
//
//	go test -bench . ./benchmarks/peers       # any one of the cases, as Go benchmarks
//	go run ./benchmarks/cmd/compare           # all of them in interleaved rounds, against the goals
//
// # Configured alike
//
// Each peer that can makes 3 attempts, waits by its own exponential backoff from 1 ns to 1 ms, bounds an attempt at 30 s, and
// opens its breaker after 10 consecutive failures for an hour. What a peer lacks, it is not given: go-retryablehttp, rehttp,
// resty v2 and heimdall have no breaker here, and only the hand-written chain and outbound send an idempotency key.
//
// outbound runs with all that it does by default: key, send proof, ledger, rolling window, retry budget. The budget is off
// where a case retries all the time, since it would be empty after ten calls.
//
// # Equal work
//
// A whole call builds a request, sends it, reads the reply to its end and closes it. The smoke test checks that each peer got
// the same status and the same bytes, with the same number of requests on the wire.
//
// # A bias
//
// http.Client.Timeout over anything but an *http.Transport takes an old path of net/http: a goroutine, a timer and two
// channels for each request. So go-retryablehttp, heimdall, resty v2 and net/http with a timeout look some 2 µs and 9
// allocations worse in memory than over a network. Over loopback there is no such bias.
package peers
