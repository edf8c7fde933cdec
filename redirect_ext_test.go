package outbound_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// do sends a keyed payment through an http.Client, which follows redirects.
func do(t *testing.T, tr *outbound.Transport, ctx context.Context) (*http.Response, error) {
	t.Helper()
	resp, err := (&http.Client{Transport: tr}).Do(newRequest(t, ctx, http.MethodPost, "https://pay.test/a", `{"amount":42}`))
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	return resp, err
}

func quick(base http.RoundTripper) outbound.Config {
	return outbound.Config{Base: base, Retry: outbound.RetryPolicy{Backoff: fixed(time.Second)}}
}

func TestRedirectGoesOnWithTheAction(t *testing.T) {
	for _, status := range []int{307, 308} {
		bubble(t, func(t *testing.T) {
			base := playing(answers(429), answers(status, "Location", "/b"), answers(503), answers(201))
			resp, err := do(t, newTransport(t, quick(base)), t.Context())
			require.NoError(t, err)
			r := reportOf(t, resp, err)
			assert.Equal(t, outbound.OutcomeSucceeded, r.Outcome)
			require.Len(t, r.Attempts, 4, "the ledger goes on")
			assert.Equal(t, "https://pay.test/b", r.URL)
			assert.Equal(t, "https://pay.test/a", r.Attempts[0].URL)
			assert.Equal(t, 4, r.Attempts[3].Number)
			assert.Equal(t, 2*time.Second, r.Elapsed)
			for _, seen := range base.seen {
				assert.Equal(t, []string{r.IdempotencyKey}, seen.keys())
				assert.Equal(t, `{"amount":42}`, seen.body)
			}
		})
	}
}

func TestRetriesAreSharedByTheHops(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := quick(playing(answers(429), answers(307, "Location", "/b"), answers(429), answers(307, "Location", "/c"), answers(429)))
		cfg.Retry.MaxAttempts = 3
		resp, err := do(t, newTransport(t, cfg), t.Context())
		require.NoError(t, err)
		assert.Equal(t, 429, resp.StatusCode)
		r := reportOf(t, resp, err)
		assert.Len(t, r.Attempts, 5, "two retries, and the free first attempt of each of three hops")
		assert.ErrorIs(t, r.Stopped, outbound.ErrAttemptsExhausted)
		assert.Equal(t, outbound.OutcomeRejected, r.Outcome)
	})
}

func TestRedirectKeepsTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(slowly(8*time.Second, answers(307, "Location", "/b")), slowly(8*time.Second, answers(307, "Location", "/c")), hangs())
		cfg := quick(base)
		cfg.TotalTimeout = 20 * time.Second
		start := time.Now()
		resp, err := do(t, newTransport(t, cfg), t.Context())
		require.ErrorIs(t, err, outbound.ErrTotalTimeout)
		assert.Equal(t, 20*time.Second, time.Since(start))
		assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, err))
		assert.Equal(t, 3, base.hits())
	})
}

func TestMaybePerformedWriteIsNotTakenToAnotherHost(t *testing.T) {
	for name, row := range map[string]struct {
		location string
		followed bool
	}{
		"same host":               {"/b", true},
		"same host, port spelled": {"https://PAY.test:443/b", true},
		"another host":            {"https://other.test/b", false},
		"another port":            {"https://pay.test:8443/b", false},
		"another scheme, so port": {"http://pay.test/b", false},
	} {
		bubble(t, func(t *testing.T) {
			base := playing(answers(503), answers(307, "Location", row.location), answers(201))
			resp, err := do(t, newTransport(t, quick(base)), t.Context())
			if row.followed {
				require.NoError(t, err, name)
				assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, err), name)
				return
			}
			require.ErrorIs(t, err, outbound.ErrNotRetryable, name)
			assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(resp, err), name)
			assert.Equal(t, 2, base.hits(), name)
		})
	}
	bubble(t, func(t *testing.T) {
		base := playing(answers(429), answers(308, "Location", "https://other.test/b"), answers(201))
		resp, err := do(t, newTransport(t, quick(base)), t.Context())
		require.NoError(t, err, "nothing was performed yet")
		assert.Equal(t, outbound.OutcomeSucceeded, outbound.OutcomeOf(resp, err))
		assert.Equal(t, base.seen[0].keys(), base.seen[2].keys())
	})
}

// TestHopThatBecameAReadSaysNothingOfTheWrite, and carries no key of ours.
func TestHopThatBecameAReadSaysNothingOfTheWrite(t *testing.T) {
	for _, status := range []int{301, 302, 303} {
		for _, last := range []int{200, 404} {
			bubble(t, func(t *testing.T) {
				base := playing(answers(status, "Location", "/result"), answers(503), answers(last))
				resp, err := do(t, newTransport(t, quick(base)), t.Context())
				require.NoError(t, err)
				r := reportOf(t, resp, err)
				assert.Equal(t, outbound.OutcomeUnknown, r.Outcome, "%d, %d", status, last)
				assert.NotEmpty(t, r.IdempotencyKey, "needed to reconcile")
				require.Equal(t, 3, base.hits())
				for _, seen := range base.seen[1:] {
					assert.Equal(t, http.MethodGet, seen.method)
					assert.Empty(t, seen.keys())
					assert.Empty(t, seen.body)
				}
			})
		}
	}
}

func TestRedirectHandedOverIsRejected(t *testing.T) {
	tr := newTransport(t, outbound.Config{Base: playing(answers(307, "Location", "/b"))})
	resp, err := post(t, tr, t.Context())
	require.NoError(t, err)
	assert.Equal(t, outbound.OutcomeRejected, outbound.OutcomeOf(resp, err))
}

// TestHopIsRecognisedOnce: what is sent later with the same response behind it is an action of its own.
func TestHopIsRecognisedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(307, "Location", "/b"), answers(201))
		tr := newTransport(t, quick(base))
		moved, err := post(t, tr, t.Context())
		require.NoError(t, err)
		hop := func() []string {
			req := newRequest(t, t.Context(), http.MethodPost, "https://pay.test/b", `{"amount":42}`)
			req.Response = moved
			resp, err := send(tr, req)
			require.NoError(t, err)
			return []string{reportOf(t, resp, err).IdempotencyKey}
		}
		first, second := hop(), hop()
		assert.Equal(t, base.seen[0].keys(), first)
		assert.NotEqual(t, first, second)
	})
}

// TestLateHopIsRefused: it would begin anew, under a new key and a new deadline.
func TestLateHopIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		first   []step
		outcome outbound.Outcome
	}{
		"a write not performed":   {[]step{answers(307, "Location", "/b"), answers(201)}, outbound.OutcomeRejected},
		"a write maybe performed": {[]step{answers(503), answers(308, "Location", "/b"), answers(201)}, outbound.OutcomeUnknown},
		"a read after a write":    {[]step{answers(303, "Location", "/b"), answers(200)}, outbound.OutcomeUnknown},
	} {
		bubble(t, func(t *testing.T) {
			base := playing(row.first...)
			client := &http.Client{Transport: newTransport(t, quick(base)), CheckRedirect: func(*http.Request, []*http.Request) error {
				time.Sleep(30 * time.Second)
				return nil
			}}
			resp, err := client.Do(newRequest(t, t.Context(), http.MethodPost, "https://pay.test/a", "x"))
			require.ErrorIs(t, err, outbound.ErrTotalTimeout, name)
			assert.Equal(t, row.outcome, outbound.OutcomeOf(resp, err), name)
			assert.Equal(t, len(row.first)-1, base.hits(), name)
		})
	}
}

// TestOnlyARedirectIsFollowed: a request that merely points at an earlier answer is an action of its own.
func TestOnlyARedirectIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(200), answers(422))
		tr := newTransport(t, quick(base))
		paid, err := post(t, tr, t.Context())
		require.NoError(t, err)
		req := newRequest(t, t.Context(), http.MethodPost, "https://pay.test/refund", "y")
		req.Response = paid
		resp, err := send(tr, req)
		require.NoError(t, err)
		assert.Equal(t, outbound.OutcomeRejected, outbound.OutcomeOf(resp, err))
		assert.NotEqual(t, base.seen[0].keys(), base.seen[1].keys())
	})
}

// TestOnlyAnAnswerOfOursIsFollowed: not one of another client, nor of another Transport.
func TestOnlyAnAnswerOfOursIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(307, "Location", "/b"), answers(201))
		other, err := post(t, newTransport(t, quick(base)), t.Context())
		require.NoError(t, err)
		tr := newTransport(t, quick(base))
		for name, behind := range map[string]*http.Response{
			"another Transport's": other,
			"another client's":    {StatusCode: 307, Request: newRequest(t, t.Context(), http.MethodPost, "https://pay.test/a", "")},
			"one without request": {StatusCode: 307},
		} {
			req := newRequest(t, t.Context(), http.MethodPost, "https://pay.test/b", "x")
			req.Response = behind
			resp, err := send(tr, req)
			require.NoError(t, err, name)
			r := reportOf(t, resp, err)
			assert.Len(t, r.Attempts, 1, name)
			assert.NotEqual(t, base.seen[0].keys(), []string{r.IdempotencyKey}, name)
		}
	})
}

func TestHopOfAnActionNeedsABodyThatCanBeReadAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(307, "Location", "/b"), answers(201))
		tr := newTransport(t, quick(base))
		moved, err := post(t, tr, with(t, outbound.NewAction()))
		require.NoError(t, err)
		req := newRequest(t, t.Context(), http.MethodPost, "https://pay.test/b", "x")
		req.Response, req.GetBody = moved, nil
		_, err = send(tr, req)
		require.ErrorIs(t, err, outbound.ErrBodyNotReplayable)
		assert.Equal(t, 1, base.hits())
	})
}

// TestCopyOfTheRepliesRequestIsNoHop: resp.Request bears no mark that a later use could trip over.
func TestCopyOfTheRepliesRequestIsNoHop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		base := playing(answers(201))
		tr := newTransport(t, quick(base))
		resp, err := post(t, tr, t.Context())
		require.NoError(t, err)
		again := resp.Request.Clone(resp.Request.Context())
		again.Body, _ = again.GetBody()
		second, err := send(tr, again)
		require.NoError(t, err)
		assert.NotEqual(t, base.seen[0].keys(), base.seen[1].keys())
		assert.Len(t, reportOf(t, second, nil).Attempts, 1)

		foreign := &http.Response{StatusCode: 500, Request: again}
		_, ok := outbound.ReportOf(foreign, nil)
		assert.False(t, ok, "the report goes with the request that was handed over, not with its copies")
	})
}
