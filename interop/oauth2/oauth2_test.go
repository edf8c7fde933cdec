// Package oauth2_test puts golang.org/x/oauth2 above outbound and below it.
package oauth2_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/interop/internal/mock"
)

const lifetime = time.Minute

// issuer hands out tokens, each with a number, and takes payments from whoever has one.
func issuer() http.Handler {
	var issued atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"t%d","token_type":"Bearer","expires_in":%d}`, issued.Add(1), int(lifetime.Seconds()))
	})
	mux.Handle("POST /pay", mock.Always(201, `{}`))
	return mux
}

func credentials(url string) *clientcredentials.Config {
	return &clientcredentials.Config{
		ClientID: "shop", ClientSecret: "secret", TokenURL: url + "/token", AuthStyle: oauth2.AuthStyleInHeader,
	}
}

// over makes oauth2 ask for its tokens with that client.
func over(ctx context.Context, client *http.Client) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, client)
}

func pay(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/pay", strings.NewReader(`{}`))
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// to are the requests to that path.
func to(path string, all []mock.Request) []mock.Request {
	var some []mock.Request
	for _, r := range all {
		if r.Path == path {
			some = append(some, r)
		}
	}
	return some
}

func authorizations(requests []mock.Request) (all []string) {
	for _, r := range requests {
		all = append(all, r.Header.Get("Authorization"))
	}
	return all
}

func sameKey(t *testing.T, requests []mock.Request) string {
	t.Helper()
	require.NotEmpty(t, requests)
	for _, r := range requests {
		require.NotEmpty(t, r.Key())
		require.Equal(t, requests[0].Key(), r.Key())
	}
	return requests[0].Key()
}

// Above, oauth2 gets a token once per call, and every attempt carries it. The token and the payment are two actions.
func TestAbove(t *testing.T) {
	s := mock.Loopback(t, issuer(), mock.LoseReply, mock.Pass, mock.LoseReply)
	ours := mock.NewClient(t, mock.Quick(s.Base, outbound.Provider{}))
	client := credentials(s.URL).Client(over(t.Context(), ours.Client))
	resp, err := pay(t.Context(), client, s.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	tokens, payments := to("/token", s.Requests()), to("/pay", s.Requests())
	assert.Len(t, tokens, 2)
	assert.Equal(t, []string{"Bearer t2", "Bearer t2"}, authorizations(payments))
	assert.NotEqual(t, sameKey(t, tokens), sameKey(t, payments))
	report, ok := outbound.ReportOf(resp, nil)
	require.True(t, ok)
	assert.Equal(t, outbound.OutcomeSucceeded, report.Outcome)
	assert.Len(t, report.Attempts, 2)
	assert.Len(t, ours.Reports(), 2)
}

// A wait for a retry may outlast a token. Above, the last attempt goes out with the stale one; below, each attempt has one that holds,
// under the one key of the payment all the same.
func TestTokenExpiresInAWait(t *testing.T) {
	for name, row := range map[string]struct {
		client func(*testing.T, *mock.Server) *http.Client
		want   []string
	}{
		"above": {func(t *testing.T, s *mock.Server) *http.Client {
			return credentials(s.URL).Client(over(t.Context(), patient(t, s.Base)))
		}, []string{"Bearer t1", "Bearer t1"}},
		"below": {func(t *testing.T, s *mock.Server) *http.Client {
			source := credentials(s.URL).TokenSource(over(t.Context(), &http.Client{Transport: s.Base}))
			return patient(t, &oauth2.Transport{Source: source, Base: s.Base})
		}, []string{"Bearer t1", "Bearer t2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := mock.InMemory(t, issuer(), mock.Pass, mock.Answer(503, `{}`, "Retry-After", "60"))
				resp, err := pay(t.Context(), row.client(t, s), s.URL)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.Equal(t, 201, resp.StatusCode)
				payments := to("/pay", s.Requests())
				assert.Equal(t, row.want, authorizations(payments))
				sameKey(t, payments)
			})
		})
	}
}

// patient is a client that waits longer than a token lives.
func patient(t *testing.T, base http.RoundTripper) *http.Client {
	t.Helper()
	return mock.NewClient(t, outbound.Config{Base: base, TotalTimeout: 5 * lifetime}).Client
}

// refresher gets a token in each attempt, over the same Transport that the attempt belongs to, under the attempt's context.
type refresher struct {
	config *clientcredentials.Config
	client func() *http.Client
	base   http.RoundTripper
}

func (r refresher) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path == "/token" {
		return r.base.RoundTrip(req)
	}
	token, err := r.config.Token(over(req.Context(), r.client()))
	if err != nil {
		_ = req.Body.Close()
		return nil, err
	}
	own := req.Clone(req.Context())
	token.SetAuthHeader(own)
	return r.base.RoundTrip(own)
}

// A token that is refreshed inside an attempt is an action of its own: with its own key, its own retries and its own report.
func TestRefreshInsideAnAttempt(t *testing.T) {
	s := mock.Loopback(t, issuer(), mock.LoseReply, mock.Pass, mock.LoseReply, mock.Answer(503, `{}`))
	var ours *mock.Client
	ours = mock.NewClient(t, mock.Quick(refresher{
		config: credentials(s.URL), client: func() *http.Client { return ours.Client }, base: s.Base,
	}, outbound.Provider{}))
	resp, err := pay(t.Context(), ours.Client, s.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	tokens, payments := to("/token", s.Requests()), to("/pay", s.Requests())
	require.Len(t, tokens, 4)   // lost, t2; then 503, t3
	require.Len(t, payments, 2) // lost, 201
	assert.Equal(t, []string{"Bearer t2", "Bearer t3"}, authorizations(payments))
	key := sameKey(t, payments)
	assert.Equal(t, sameKey(t, tokens[:2]), tokens[1].Key())
	assert.Equal(t, sameKey(t, tokens[2:]), tokens[3].Key())
	assert.NotEqual(t, tokens[0].Key(), tokens[2].Key())
	assert.NotEqual(t, key, tokens[0].Key())
	reports := ours.Reports()
	require.Len(t, reports, 3)
	for i, path := range []string{"/token", "/token", "/pay"} {
		assert.Equal(t, s.URL+path, reports[i].URL)
		assert.Len(t, reports[i].Attempts, 2)
		assert.Equal(t, outbound.OutcomeSucceeded, reports[i].Outcome)
	}
}

// Below, a refresh that fails is the attempt's error, found under ours with all that it holds, and printed as its type only. oauth2 asks
// for tokens out of httptrace's sight, so that nothing is proven: the payment is unknown, although it was never sent.
func TestRefreshFails(t *testing.T) {
	s := mock.Loopback(t, mock.Always(401, `{"error":"invalid_client","error_description":"no such shop"}`))
	source := credentials(s.URL).TokenSource(over(t.Context(), &http.Client{Transport: s.Base}))
	ours := mock.NewClient(t, mock.Quick(&oauth2.Transport{Source: source, Base: s.Base}, outbound.Provider{}))
	_, err := pay(t.Context(), ours.Client, s.URL)
	require.ErrorIs(t, err, outbound.ErrAttemptsExhausted)
	var refused *oauth2.RetrieveError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, "invalid_client", refused.ErrorCode)
	assert.NotContains(t, err.Error(), "no such shop")
	assert.Equal(t, outbound.OutcomeUnknown, outbound.OutcomeOf(nil, err))
	assert.Empty(t, to("/pay", s.Requests()))
}

// Above, a refresh that fails is oauth2's error, and we are never asked to pay.
func TestRefreshFailsAbove(t *testing.T) {
	s := mock.Loopback(t, mock.Always(401, `{"error":"invalid_client"}`))
	ours := mock.NewClient(t, mock.Quick(s.Base, outbound.Provider{}))
	_, err := pay(t.Context(), credentials(s.URL).Client(over(t.Context(), ours.Client)), s.URL)
	var refused *oauth2.RetrieveError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, outbound.OutcomeRejected, outbound.OutcomeOf(refused.Response, nil)) // of the token
	assert.Equal(t, s.URL+"/token", ours.Report(t).URL)
}

// Through its RoundTripper the proof of NotSent holds.
func TestProofHoldsThroughIt(t *testing.T) {
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "t"})
	ours := mock.NewClient(t, mock.Quick(&oauth2.Transport{Source: source, Base: new(http.Transport)}, outbound.Provider{}))
	_, err := pay(t.Context(), ours.Client, mock.Nowhere)
	require.ErrorIs(t, err, outbound.ErrAttemptsExhausted)
	assert.Equal(t, outbound.OutcomeNotSent, outbound.OutcomeOf(nil, err))
}
