// Package outboundotel reports what an outbound.Transport does through OpenTelemetry: metrics, and events on the span that
// is in the request's context.
//
//	tel, err := outboundotel.New(outboundotel.Config{})
//	transport, err := outbound.New(outbound.Config{Hooks: tel.Hooks()})
//	watch, err := tel.Observe(transport)
//	defer watch.Unregister()
//
// # Metrics
//
// One metric is OpenTelemetry's, by version 1.43.0 of its semantic conventions; the others are ours, prefix "outbound.".
//
//	http.client.request.duration   histogram, s          each attempt; it counts the attempts, too
//	outbound.calls                 counter               each RoundTrip, by outcome and by why it stopped
//	outbound.call.duration         histogram, s          each RoundTrip, waits included, by outcome
//	outbound.call.attempts         histogram             attempts a call took; 0: it was refused before the first
//	outbound.retries               counter               retries, by what went wrong before
//	outbound.retry.wait            histogram, s          the wait before each retry, as it was planned
//	outbound.circuit.changes       counter               changes of a circuit, by the state before and after
//	outbound.circuits              gauge, by Observe     circuits in each state: 1 and twice 0 for one target
//	outbound.active_calls          gauge, by Observe     calls whose reply is not done with
//	outbound.retry.budget          gauge, by Observe     retries that may be made now; absent where the budget is off
//
// The gauges are observable up-down counters: where one label stands for several targets, they are sums.
//
// A call is counted when RoundTrip returns, so a reply that breaks off while it is read later leaves it as it was. A redirect
// is a call, and each hop after it is another, with the attempts and the time of the hops before it.
//
// # Labels
//
// These are OpenTelemetry's, on all metrics but where a note says otherwise:
//
//	server.address             the host, or what Config.Host makes of it
//	server.port                the port; 0 where server.address is _OTHER, or no port is known
//	url.scheme                 http or https; _OTHER for any other
//	http.request.method        a method of Config.Methods; _OTHER for any other. Not on the gauges and the circuit changes
//	http.response.status_code  only on http.client.request.duration, where a reply came
//	error.type                 only on http.client.request.duration, where the attempt failed or the status is 400 or above
//
// These are ours:
//
//	outbound.outcome           unknown, not_sent, rejected, succeeded
//	outbound.stop.reason       final_answer; redirect, where a client that follows makes another call; or why no further
//	                           attempt was made
//	outbound.retry.reason      error.type of the failed attempt, or its status where that is no error
//	outbound.circuit.state     closed, half_open, open; after a change
//	outbound.circuit.previous_state
//
// error.type is the status of a complete reply, else one of connect_timeout, attempt_timeout, total_timeout, idle_timeout,
// canceled, deadline_exceeded, name_resolution, certificate, tls, connection_refused, connection_closed, timeout, _OTHER.
//
// outbound.stop.reason is, beside the two above, one of attempts_exhausted, not_retryable, body_not_replayable, circuit_open,
// bulkhead_full, budget_exhausted, key_expired, invalid_key, action_mismatch, connect_timeout, attempt_timeout, total_timeout,
// idle_timeout, canceled, deadline_exceeded, _OTHER.
//
// The number of series is bounded whatever is called: see Config. No label and no event holds a path, a query, user info, a
// header, a body, a key or the text of an error; what Config.Host returns is up to it.
//
// # Span events
//
// No span is made. Where the span of the caller's context records, it gets the events outbound.attempt, outbound.retry and
// outbound.done, with the attributes above, http.request.resend_count from the second attempt on, and as our own
// outbound.attempt.duration, outbound.retry.wait, outbound.call.duration (seconds) and outbound.call.attempts. There
// server.address is the host itself.
//
// For a span per attempt put otelhttp.NewTransport below, as outbound.Config.Base. It records http.client.request.duration,
// too: then drop one of the two with a view.
package outboundotel
