// Package ai_test puts outbound under the SDKs of AI APIs, whose writes carry no key and whose replies may be streams.
package ai_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/interop/internal/mock"
)

// each runs a test for every vendor.
func each(t *testing.T, test func(*testing.T, vendor)) {
	for _, v := range vendors {
		t.Run(v.name, func(t *testing.T) { test(t, v) })
	}
}

// eachInABubble runs a test for every vendor, in virtual time.
func eachInABubble(t *testing.T, test func(*testing.T, vendor)) {
	each(t, func(t *testing.T, v vendor) {
		synctest.Test(t, func(t *testing.T) { test(t, v) })
	})
}

// rig is an SDK over outbound, with its own retries turned off, before a server.
type rig struct {
	*mock.Server
	sdk
	client *mock.Client
}

func newRig(t *testing.T, v vendor, faults ...mock.Fault) rig {
	t.Helper()
	s := mock.Loopback(t, mock.Always(200, v.reply), faults...)
	client := mock.NewClient(t, mock.Quick(s.Base, v.profile()))
	return rig{Server: s, client: client, sdk: v.open(s.URL, client.Client, false)}
}

// streaming is a rig in a bubble, over outbound's own defaults.
func streaming(t *testing.T, v vendor, next http.Handler) rig {
	t.Helper()
	s := mock.InMemory(t, next)
	client := mock.NewClient(t, outbound.Config{Base: s.Base, Provider: v.profile()})
	return rig{Server: s, client: client, sdk: v.open(s.URL, client.Client, false)}
}

// No attempt carries a key, and all carry the same request. The SDK's response tells how the call ended.
func TestNoKeyOnTheWire(t *testing.T) {
	each(t, func(t *testing.T, v vendor) {
		r := newRig(t, v, mock.Answer(429, v.refusal), mock.Answer(429, v.refusal))
		text, resp, err := r.ask(t.Context())
		require.NoError(t, err)
		assert.Equal(t, v.text, text)
		requests := r.Requests()
		require.Len(t, requests, 3)
		for _, req := range requests {
			assert.Equal(t, requests[0], req)
			for name := range req.Header {
				assert.NotContains(t, strings.ToLower(name), "idempotency")
			}
		}
		report, ok := outbound.ReportOf(resp, nil)
		require.True(t, ok)
		assert.Equal(t, outbound.OutcomeSucceeded, report.Outcome)
		assert.Empty(t, report.IdempotencyKey)
		assert.Len(t, report.Attempts, 3)
		assert.Equal(t, report, r.client.Report(t))
	})
}

// A reply that is lost is one generation that may be billed. It is not asked for again, and called unknown.
func TestLostReplyIsNotRepeated(t *testing.T) {
	each(t, func(t *testing.T, v vendor) {
		r := newRig(t, v, mock.LoseReply)
		_, _, err := r.ask(t.Context())
		require.ErrorIs(t, err, outbound.ErrNotRetryable)
		require.ErrorIs(t, err, io.EOF)
		report, ok := outbound.ReportOf(nil, err)
		require.True(t, ok)
		assert.Equal(t, outbound.OutcomeUnknown, report.Outcome)
		assert.Len(t, r.Requests(), 1)
		assert.NotContains(t, err.Error(), secret)
	})
}

// Over HTTP/2 nothing of that differs.
func TestOverHTTP2(t *testing.T) {
	each(t, func(t *testing.T, v vendor) {
		s := mock.OverHTTP2(t, mock.Drip("text/event-stream", v.event, 3, 0), mock.Answer(429, v.refusal), mock.Pass, mock.LoseReply)
		client := mock.NewClient(t, mock.Quick(s.Base, v.profile()))
		api, pieces := v.open(s.URL, client.Client, false), 0
		resp, err := api.stream(t.Context(), func(string) { pieces++ })
		require.NoError(t, err)
		assert.Equal(t, 3, pieces)
		assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, nil))
		_, _, err = api.ask(t.Context())
		require.ErrorIs(t, err, outbound.ErrNotRetryable)
		assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(nil, err))
		require.Len(t, s.Requests(), 3)
		for _, req := range s.Requests() {
			assert.Equal(t, "HTTP/2.0", req.Proto)
			assert.Empty(t, req.Key())
		}
	})
}

// It is asked for again where the caller said that a generation may be billed twice.
func TestDuplicatesMayBeAllowed(t *testing.T) {
	each(t, func(t *testing.T, v vendor) {
		s := mock.Loopback(t, mock.Always(200, v.reply), mock.LoseReply, mock.Answer(503, v.refusal))
		p := v.profile()
		p.AllowDuplicates = true
		client := mock.NewClient(t, mock.Quick(s.Base, p))
		text, _, err := v.open(s.URL, client.Client, false).ask(t.Context())
		require.NoError(t, err)
		assert.Equal(t, v.text, text)
		assert.Len(t, s.Requests(), 3)
	})
}

// A reply that breaks off after its headers reaches the SDK as one, and the response that it holds says unknown.
func TestBrokenReply(t *testing.T) {
	each(t, func(t *testing.T, v vendor) {
		r := newRig(t, v, mock.CutReply)
		_, resp, err := r.ask(t.Context())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, nil))
		assert.Len(t, r.Requests(), 1)
	})
}

func TestRefusedDial(t *testing.T) {
	each(t, func(t *testing.T, v vendor) {
		client := mock.NewClient(t, mock.Quick(nil, v.profile()))
		_, _, err := v.open(mock.Nowhere, client.Client, false).ask(t.Context())
		require.ErrorIs(t, err, outbound.ErrAttemptsExhausted)
		report, ok := outbound.ReportOf(nil, err)
		require.True(t, ok)
		assert.Equal(t, outbound.OutcomeNotSent, report.Outcome)
		assert.Len(t, report.Attempts, 4)
	})
}

// A final answer reaches the SDK as a response, whatever its status, and becomes its own error, which holds the response.
func TestTypedErrors(t *testing.T) {
	rows := map[int]struct {
		requests int
		outcome  outbound.Outcome
	}{
		402: {1, outbound.OutcomeRejected},
		422: {1, outbound.OutcomeRejected},
		429: {4, outbound.OutcomeRejected},
		503: {1, outbound.OutcomeUnknown},
		529: {1, outbound.OutcomeUnknown},
	}
	each(t, func(t *testing.T, v vendor) {
		for status, row := range rows {
			s := mock.Loopback(t, mock.Always(status, v.refusal))
			client := mock.NewClient(t, mock.Quick(s.Base, v.profile()))
			_, _, err := v.open(s.URL, client.Client, false).ask(t.Context())
			got, code, resp, ok := v.refused(err)
			require.True(t, ok, "%d: %v", status, err)
			assert.Equal(t, status, got)
			assert.Equal(t, v.code, code)
			assert.Len(t, s.Requests(), row.requests, status)
			assert.Equal(t, row.outcome, outbound.OutcomeOf(resp, nil), status)
			assert.Equal(t, row.outcome, client.Report(t).Outcome, status)
		}
	})
}

// A 429 that says that the money is used up is final.
func TestQuotaExhausted(t *testing.T) {
	each(t, func(t *testing.T, v vendor) {
		r := newRig(t, v, mock.Answer(429, v.exhausted))
		_, _, err := r.ask(t.Context())
		status, _, resp, ok := v.refused(err)
		require.True(t, ok)
		assert.Equal(t, 429, status)
		assert.Len(t, r.Requests(), 1)
		assert.Equal(t, outbound.OutcomeRejected, outbound.OutcomeOf(resp, nil))
	})
}

// A server that says not to retry is obeyed, by the header that these SDKs know, too.
func TestShouldRetry(t *testing.T) {
	each(t, func(t *testing.T, v vendor) {
		r := newRig(t, v, mock.Answer(429, v.refusal, "X-Should-Retry", "false"))
		_, _, err := r.ask(t.Context())
		_, _, _, ok := v.refused(err)
		require.True(t, ok)
		assert.Len(t, r.Requests(), 1)
	})
}

// A stream goes on far past the total timeout, as long as events keep coming.
func TestStreamOutlastsTheTotalTimeout(t *testing.T) {
	eachInABubble(t, func(t *testing.T, v vendor) {
		const events, pause = 20, 50 * time.Second
		r := streaming(t, v, mock.Drip("text/event-stream", v.event, events, pause))
		start, pieces := time.Now(), 0
		resp, err := r.stream(t.Context(), func(text string) {
			assert.Equal(t, v.text, text)
			assert.Equal(t, time.Duration(pieces)*pause, time.Since(start)) // each as it comes
			pieces++
		})
		require.NoError(t, err)
		assert.Equal(t, events, pieces)
		assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, nil))
		assert.Len(t, r.Requests(), 1)
	})
}

// A stream that falls silent is cut by the idle timeout, and the SDK's stream ends with that error.
func TestSilentStreamIsCut(t *testing.T) {
	eachInABubble(t, func(t *testing.T, v vendor) {
		r := streaming(t, v, mock.Drip("text/event-stream", v.event, 3, time.Hour))
		start, pieces := time.Now(), 0
		resp, err := r.stream(t.Context(), func(string) { pieces++ })
		require.ErrorIs(t, err, outbound.ErrIdleTimeout)
		assert.Equal(t, 1, pieces)
		assert.Equal(t, 60*time.Second, time.Since(start))
		report, ok := outbound.ReportOf(resp, nil)
		require.True(t, ok)
		assert.Equal(t, outbound.OutcomeUnknown, report.Outcome)
		// Hooks.Done fired when the headers were in: it cannot know.
		assert.Equal(t, outbound.OutcomeSucceeded, r.client.Report(t).Outcome)
	})
}

// A stream that nobody reads is not silent: a slow consumer is no fault of the server's.
func TestSlowConsumer(t *testing.T) {
	eachInABubble(t, func(t *testing.T, v vendor) {
		r := streaming(t, v, mock.Drip("text/event-stream", v.event, 3, 0))
		pieces := 0
		_, err := r.stream(t.Context(), func(string) {
			pieces++
			time.Sleep(time.Hour)
		})
		require.NoError(t, err)
		assert.Equal(t, 3, pieces)
	})
}

// Until its headers are in, a stream is a call like any other.
func TestStreamIsRetriedBeforeItBegins(t *testing.T) {
	eachInABubble(t, func(t *testing.T, v vendor) {
		r := streaming(t, v, mock.Drip("text/event-stream", v.event, 2, time.Second))
		r.Spoil(mock.Answer(429, v.refusal, "Retry-After", "7"))
		start, pieces := time.Now(), 0
		resp, err := r.stream(t.Context(), func(string) { pieces++ })
		require.NoError(t, err)
		assert.Equal(t, 2, pieces)
		assert.GreaterOrEqual(t, time.Since(start), 9*time.Second)
		report, _ := outbound.ReportOf(resp, nil)
		assert.Len(t, report.Attempts, 2)
		assert.Len(t, r.Requests(), 2)
	})
}

func TestTypedErrorOfAStream(t *testing.T) {
	each(t, func(t *testing.T, v vendor) {
		r := newRig(t, v, mock.Answer(422, v.refusal))
		_, err := r.stream(t.Context(), func(string) { assert.Fail(t, "a piece of a refusal") })
		status, code, _, ok := v.refused(err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, 422, status)
		assert.Equal(t, v.code, code)
	})
}

// When the caller's context ends, these SDKs return its error and drop ours, and with it the report. Hooks.Done has it.
func TestCancel(t *testing.T) {
	eachInABubble(t, func(t *testing.T, v vendor) {
		r := streaming(t, v, mock.Always(429, v.refusal, "Retry-After", "20"))
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(time.Second, cancel).Stop()
		_, _, err := r.ask(ctx)
		require.ErrorIs(t, err, context.Canceled)
		_, ok := outbound.ReportOf(nil, err)
		assert.False(t, ok, "the SDK keeps our error by now: say so")
		report := r.client.Report(t)
		assert.Equal(t, outbound.OutcomeRejected, report.Outcome)
		assert.ErrorIs(t, report.Stopped, context.Canceled)
		assert.Len(t, report.Attempts, 1)
	})
}

// Left on, the SDK's retries repeat what we would not: a generation whose reply was lost is made three times, and a 429 is asked
// twelve times.
func TestRetriesOfTheSDK(t *testing.T) {
	for _, row := range []struct {
		name    string
		fault   func(vendor) mock.Fault
		on, off int
	}{
		{"lost replies", func(vendor) mock.Fault { return mock.LoseReply }, 3, 1},
		{"rate limit", func(v vendor) mock.Fault { return mock.Answer(429, v.refusal) }, 12, 4},
	} {
		t.Run(row.name, func(t *testing.T) {
			eachInABubble(t, func(t *testing.T, v vendor) {
				for retries, want := range map[bool]int{true: row.on, false: row.off} {
					s := mock.InMemory(t, mock.Always(200, v.reply), slices.Repeat([]mock.Fault{row.fault(v)}, row.on)...)
					client := mock.NewClient(t, mock.Quick(s.Base, v.profile()))
					_, _, err := v.open(s.URL, client.Client, retries).ask(t.Context())
					require.Error(t, err)
					assert.Len(t, s.Requests(), want)
				}
			})
		})
	}
}
