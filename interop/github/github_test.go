// Package github_test puts outbound under go-github, which stands for the plain REST SDKs: it makes no keys and never retries, but keeps
// a memory of rate limits.
package github_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-github/v89/github"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/interop/internal/mock"
	"github.com/outbound-go/outbound/provider"
)

const (
	token   = "ghp_123"
	repo    = `{"id":7,"name":"hello"}`
	invalid = `{"message":"Validation Failed","errors":[{"resource":"Issue","field":"title","code":"missing_field"}]}`
)

// rig is go-github over outbound, before a server.
type rig struct {
	*mock.Server
	client *mock.Client
	api    *github.Client
}

func newRig(t *testing.T, s *mock.Server) rig {
	t.Helper()
	client := mock.NewClient(t, mock.Quick(s.Base, provider.Keyless()))
	return rig{Server: s, client: client, api: newAPI(t, s.URL, client.Client)}
}

// newAPI is how go-github is given a client of ours. It copies the client and puts its own RoundTripper for the token above it.
func newAPI(t *testing.T, url string, client *http.Client) *github.Client {
	t.Helper()
	base := url + "/"
	api, err := github.NewClient(github.WithHTTPClient(client), github.WithAuthToken(token), github.WithURLs(&base, &base))
	require.NoError(t, err)
	return api
}

func (r rig) get(ctx context.Context) (*github.Repository, *github.Response, error) {
	return r.api.Repositories.Get(ctx, "octo", "hello")
}

func (r rig) open(ctx context.Context) (*github.Issue, *github.Response, error) {
	return r.api.Issues.Create(ctx, "octo", "hello", &github.IssueRequest{Title: github.Ptr("It broke")})
}

// A read is retried, and go-github's response tells how the call ended.
func TestRead(t *testing.T) {
	r := newRig(t, mock.Loopback(t, mock.Always(200, repo), mock.LoseReply, mock.Answer(503, `{}`)))
	got, resp, err := r.get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "hello", got.GetName())
	require.Len(t, r.Requests(), 3)
	for _, req := range r.Requests() {
		assert.Equal(t, "Bearer "+token, req.Header.Get("Authorization"))
	}
	report, ok := outbound.ReportOf(resp.Response, nil)
	require.True(t, ok)
	assert.Equal(t, outbound.OutcomeSucceeded, report.Outcome)
	assert.Len(t, report.Attempts, 3)
}

// A write without a key is repeated only where it was refused.
func TestWrite(t *testing.T) {
	for name, row := range map[string]struct {
		fault    mock.Fault
		requests int
		want     outbound.Outcome
	}{
		"refused":    {mock.Answer(429, `{}`), 2, outbound.OutcomeSucceeded},
		"fails":      {mock.Answer(503, `{}`), 1, outbound.OutcomeUnknown},
		"reply lost": {mock.LoseReply, 1, outbound.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, mock.Loopback(t, mock.Always(201, `{"number":3}`), row.fault))
			_, _, err := r.open(t.Context())
			assert.Equal(t, row.want == outbound.OutcomeSucceeded, err == nil)
			assert.Equal(t, row.want, r.client.Report(t).Outcome)
			require.Len(t, r.Requests(), row.requests)
			for _, req := range r.Requests() {
				assert.Empty(t, req.Key())
				assert.JSONEq(t, `{"title":"It broke"}`, req.Body)
			}
		})
	}
}

// When no reply comes, go-github returns our error as http.Client wrapped it. Nobody reads a token in it.
func TestErrorOfOursIsFound(t *testing.T) {
	client := mock.NewClient(t, mock.Quick(nil, provider.Keyless()))
	_, _, err := newAPI(t, mock.Nowhere, client.Client).Issues.Create(t.Context(), "octo", "hello", &github.IssueRequest{Title: github.Ptr("It broke")})
	require.ErrorIs(t, err, outbound.ErrAttemptsExhausted)
	assert.Equal(t, outbound.OutcomeNotSent, outbound.OutcomeOf(nil, err))
	assert.NotContains(t, err.Error(), token)
}

// A final answer reaches go-github as a response, and becomes its own error. The response in that one has another body, and says
// how the call ended all the same.
func TestErrorResponse(t *testing.T) {
	for status, row := range map[int]struct {
		requests int
		want     outbound.Outcome
	}{
		422: {1, outbound.OutcomeRejected},
		429: {4, outbound.OutcomeRejected},
		503: {1, outbound.OutcomeUnknown},
	} {
		r := newRig(t, mock.Loopback(t, mock.Always(status, invalid)))
		_, _, err := r.open(t.Context())
		var got *github.ErrorResponse
		require.ErrorAs(t, err, &got)
		assert.Equal(t, status, got.Response.StatusCode)
		assert.Equal(t, "Validation Failed", got.Message)
		require.Len(t, got.Errors, 1)
		assert.Equal(t, "missing_field", got.Errors[0].Code)
		assert.Len(t, r.Requests(), row.requests)
		assert.Equal(t, row.want, outbound.OutcomeOf(got.Response, nil))
	}
}

// GitHub's rate limits come as 403 or 429 with the time when they end. The first is final for us, and go-github asks nothing more until
// that time: those calls never reach us.
func TestRateLimit(t *testing.T) {
	for status, requests := range map[int]int{403: 1, 429: 4} {
		reset := strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)
		r := newRig(t, mock.Loopback(t, mock.Always(status, `{"message":"No."}`, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", reset)))
		for range 2 {
			_, _, err := r.get(t.Context())
			var limited *github.RateLimitError
			require.ErrorAs(t, err, &limited)
		}
		assert.Len(t, r.Requests(), requests)
		assert.Len(t, r.client.Reports(), 1)
	}
}

// A secondary rate limit says how long to wait. A wait of up to a minute is ours, a longer one go-github's.
func TestSecondaryRateLimit(t *testing.T) {
	const secondary = `{"message":"No.","documentation_url":"https://docs.example/secondary-rate-limits"}`
	for wait, served := range map[time.Duration]bool{30 * time.Second: true, 5 * time.Minute: false} {
		t.Run(wait.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seconds := strconv.Itoa(int(wait.Seconds()))
				s := mock.InMemory(t, mock.Always(200, repo), mock.Answer(429, secondary, "Retry-After", seconds))
				cfg := mock.Quick(s.Base, provider.Keyless())
				cfg.TotalTimeout = 10 * time.Minute
				client := mock.NewClient(t, cfg)
				start := time.Now()
				_, _, err := newAPI(t, s.URL, client.Client).Repositories.Get(t.Context(), "octo", "hello")
				if served {
					require.NoError(t, err)
					assert.GreaterOrEqual(t, time.Since(start), wait)
					return
				}
				var limited *github.AbuseRateLimitError
				require.ErrorAs(t, err, &limited)
				assert.Equal(t, wait, limited.GetRetryAfter())
				report, ok := outbound.ReportOf(limited.Response, nil)
				require.True(t, ok)
				assert.Equal(t, wait, report.RetryAfter)
				assert.Less(t, time.Since(start), time.Second)
			})
		})
	}
}

// A repository that moved answers 301, which http.Client follows above us and below go-github: one call, two hops.
func TestRedirect(t *testing.T) {
	r := newRig(t, mock.Loopback(t, mock.Always(200, repo), mock.Answer(301, `{}`, "Location", "/repositories/7"), mock.Answer(503, `{}`)))
	got, resp, err := r.get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "hello", got.GetName())
	requests := r.Requests()
	require.Len(t, requests, 3)
	assert.Equal(t, "/repos/octo/hello", requests[0].Path)
	assert.Equal(t, "/repositories/7", requests[1].Path)
	assert.Equal(t, "/repositories/7", requests[2].Path)
	report, ok := outbound.ReportOf(resp.Response, nil)
	require.True(t, ok)
	assert.Len(t, report.Attempts, 3)
	assert.Len(t, r.client.Reports(), 2)
}

// When the caller's context ends, go-github returns its error and drops ours. Hooks.Done has the report.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mock.InMemory(t, mock.Always(429, `{}`, "Retry-After", "20")))
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(time.Second, cancel).Stop()
		_, _, err := r.get(ctx)
		require.ErrorIs(t, err, context.Canceled)
		var ours *outbound.Error
		assert.False(t, errors.As(err, &ours), "go-github keeps our error by now: say so")
		report := r.client.Report(t)
		assert.ErrorIs(t, report.Stopped, context.Canceled)
		assert.Equal(t, outbound.OutcomeRejected, report.Outcome)
	})
}
