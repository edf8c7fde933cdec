package outbound

import (
	"math"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type plainBase struct{}

func (plainBase) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed }

type pointerBase struct{}

func (*pointerBase) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, http.ErrServerClosed
}

func dialsItself() *http.Transport {
	return &http.Transport{Dial: func(string, string) (net.Conn, error) { return nil, net.ErrClosed }}
}

func TestConfigRefusesContradictions(t *testing.T) {
	rows := map[string]struct {
		cfg   Config
		names string
	}{
		"MaxAttempts":             {Config{Retry: RetryPolicy{MaxAttempts: -1}}, "Retry.MaxAttempts is -1"},
		"Budget.Burst":            {Config{Retry: RetryPolicy{Budget: BudgetPolicy{Burst: -1}}}, "Retry.Budget.Burst is -1"},
		"Budget.Ratio":            {Config{Retry: RetryPolicy{Budget: BudgetPolicy{Ratio: -0.1}}}, "Retry.Budget.Ratio is -0.1"},
		"Budget.Ratio NaN":        {Config{Retry: RetryPolicy{Budget: BudgetPolicy{Ratio: math.NaN()}}}, "Retry.Budget.Ratio is NaN"},
		"Budget.Ratio infinite":   {Config{Retry: RetryPolicy{Budget: BudgetPolicy{Ratio: math.Inf(1)}}}, "Retry.Budget.Ratio is +Inf"},
		"MaxInFlight":             {Config{Bulkhead: BulkheadPolicy{MaxInFlight: -1}}, "Bulkhead.MaxInFlight is -1"},
		"Cap below Base":          {Config{Retry: RetryPolicy{Backoff: FullJitter{Base: 2, Cap: 1}}}, "Cap (1ns) is below Base (2ns)"},
		"Cap below Base, pointer": {Config{Retry: RetryPolicy{Backoff: &FullJitter{Base: 2, Cap: 1}}}, "Cap (1ns) is below Base (2ns)"},
		"negative Base":           {Config{Retry: RetryPolicy{Backoff: FullJitter{Base: -1}}}, "FullJitter.Base is -1ns"},
		"negative Cap":            {Config{Retry: RetryPolicy{Backoff: FullJitter{Cap: -1}}}, "FullJitter.Cap is -1ns"},
		"nil Backoff":             {Config{Retry: RetryPolicy{Backoff: (*FullJitter)(nil)}}, "Retry.Backoff is a nil *outbound.FullJitter"},
		"connect over attempt":    {Config{ConnectTimeout: 2, AttemptTimeout: 1}, "ConnectTimeout (2ns) is above AttemptTimeout (1ns)"},
		"attempt over total":      {Config{AttemptTimeout: 2, TotalTimeout: 1}, "AttemptTimeout (2ns) is above TotalTimeout (1ns)"},
		"connect over total":      {Config{ConnectTimeout: 2, TotalTimeout: 1}, "ConnectTimeout (2ns) is above TotalTimeout (1ns)"},
		"short window":            {Config{AttemptTimeout: time.Second, Breaker: BreakerPolicy{Window: 1999 * time.Millisecond}}, "Breaker.Window (1.999s) is below twice"},
		"ratio over 1":            {Config{Breaker: BreakerPolicy{FailureRatio: 1.01}}, "FailureRatio is 1.01"},
		"ratio below 0":           {Config{Breaker: BreakerPolicy{FailureRatio: -0.1}}, "FailureRatio is -0.1"},
		"ratio NaN":               {Config{Breaker: BreakerPolicy{FailureRatio: math.NaN()}}, "FailureRatio is NaN"},
		"ConsecutiveFailures":     {Config{Breaker: BreakerPolicy{ConsecutiveFailures: -1}}, "Breaker.ConsecutiveFailures is -1"},
		"MinRequests":             {Config{Breaker: BreakerPolicy{MinRequests: -1}}, "Breaker.MinRequests is -1"},
		"Probes":                  {Config{Breaker: BreakerPolicy{Probes: -1}}, "Breaker.Probes is -1"},
		"MaxCircuits":             {Config{Breaker: BreakerPolicy{MaxCircuits: -1}}, "Breaker.MaxCircuits is -1"},
		"OpenFor":                 {Config{Breaker: BreakerPolicy{OpenFor: -1}}, "Breaker.OpenFor is -1ns"},
		"typed-nil Base":          {Config{Base: (*http.Transport)(nil)}, "Base is a nil *http.Transport"},
		"typed-nil other Base":    {Config{Base: (*pointerBase)(nil)}, "Base is a nil *outbound.pointerBase"},
		"ConnectTimeout and Base": {Config{ConnectTimeout: 1, Base: plainBase{}}, "ConnectTimeout (1ns) cannot be applied to a Base of type outbound.plainBase"},
		"KeyHeader":               {Config{Provider: Provider{KeyHeader: "Idem Key"}}, `Provider.KeyHeader "Idem Key"`},
		"ReplayHeader":            {Config{Provider: Provider{ReplayHeader: "a:b"}}, `Provider.ReplayHeader "a:b"`},
		"MaxKeyLength":            {Config{Provider: Provider{MaxKeyLength: -1}}, "Provider.MaxKeyLength is -1"},
		"MinKeyLength":            {Config{Provider: Provider{MinKeyLength: -1}}, "Provider.MinKeyLength is -1"},
		"MinKeyLength above":      {Config{Provider: Provider{MinKeyLength: 20, MaxKeyLength: 10}}, "Provider.MinKeyLength (20) is above MaxKeyLength (10)"},
		"MinKeyLength above 255":  {Config{Provider: Provider{MinKeyLength: 256}}, "Provider.MinKeyLength (256) is above MaxKeyLength (255)"},
		"KeyRoutes, no path":      {Config{Provider: Provider{KeyRoutes: []string{"POST /a"}}}, `Provider.KeyRoutes has "POST /a"`},
		"KeyRoutes, open brace":   {Config{Provider: Provider{KeyRoutes: []string{"/a", "/a/{"}}}, `Provider.KeyRoutes has "/a/{"`},
		"KeyRoutes, half a name":  {Config{Provider: Provider{KeyRoutes: []string{"/a/{id}b"}}}, `Provider.KeyRoutes has "/a/{id}b"`},
		"KeyRoutes, no name":      {Config{Provider: Provider{KeyRoutes: []string{"/a/{}"}}}, `Provider.KeyRoutes has "/a/{}"`},
		"KeyRoutes, rest":         {Config{Provider: Provider{KeyRoutes: []string{"/a/{rest...}"}}}, `Provider.KeyRoutes has "/a/{rest...}"`},
		"KeyRoutes, not clean":    {Config{Provider: Provider{KeyRoutes: []string{"/a//b"}}}, `Provider.KeyRoutes has "/a//b"`},
		"KeyRoutes, dots":         {Config{Provider: Provider{KeyRoutes: []string{"/a/../b"}}}, `Provider.KeyRoutes has "/a/../b"`},
		"KeyRoutes, escaped":      {Config{Provider: Provider{KeyRoutes: []string{"/%61"}}}, `Provider.KeyRoutes has "/%61"`},
		"KeyRoutes, only slashes": {Config{Provider: Provider{KeyRoutes: []string{"//"}}}, `Provider.KeyRoutes has "//"`},
		"KeyRoutes, exact end":    {Config{Provider: Provider{KeyRoutes: []string{"/a/{$}"}}}, `Provider.KeyRoutes has "/a/{$}"`},
		"KeyRoutes, constraint":   {Config{Provider: Provider{KeyRoutes: []string{"/a/{id:[0-9]+}"}}}, `Provider.KeyRoutes has "/a/{id:[0-9]+}"`},
		"KeyRoutes, star":         {Config{Provider: Provider{KeyRoutes: []string{"/a/*"}}}, `Provider.KeyRoutes has "/a/*"`},
		"KeyRoutes, colon":        {Config{Provider: Provider{KeyRoutes: []string{"/a/:id"}}}, `Provider.KeyRoutes has "/a/:id"`},
		"KeyRoutes, query":        {Config{Provider: Provider{KeyRoutes: []string{"/a?b"}}}, `Provider.KeyRoutes has "/a?b"`},
		"KeyOf, NoKeys":           {Config{Provider: Provider{KeyOf: noKey, NoKeys: true}}, "Provider.KeyOf"},
		"KeyOf, KeyHeader":        {Config{Provider: Provider{KeyOf: noKey, KeyHeader: "K"}}, "Provider.KeyOf"},
		"KeyOf, QuoteKey":         {Config{Provider: Provider{KeyOf: noKey, QuoteKey: true}}, "Provider.KeyOf"},
		"KeyMethods":              {Config{Provider: Provider{KeyMethods: []string{"GET"}}}, `Provider.KeyMethods has "GET"`},
		"KeyMethods, lower case":  {Config{Provider: Provider{KeyMethods: []string{"post"}}}, `Provider.KeyMethods has "post"`},
		"reserved KeyHeader":      {Config{Provider: Provider{KeyHeader: "host"}}, `Provider.KeyHeader "host"`},
		"short key window":        {Config{AttemptTimeout: 2, Provider: Provider{KeyWindow: 1}}, "AttemptTimeout (2ns) is above Provider.KeyWindow (1ns)"},
		"window below connect":    {Config{ConnectTimeout: 30, Breaker: BreakerPolicy{Window: 40}}, "below twice ConnectTimeout (30ns)"},
		"Base that dials its way": {Config{ConnectTimeout: 1, Base: dialsItself()}, "Base with Dial or DialTLS"},
	}
	var all []error
	for name, row := range rows {
		tr, err := New(row.cfg)
		require.Error(t, err, name)
		assert.Nil(t, tr, name)
		assert.ErrorContains(t, err, row.names, name)
		assert.ErrorContains(t, err, "outbound: ", name)
		client, err := NewClient(row.cfg)
		assert.Error(t, err, name)
		assert.Nil(t, client, name)
		all = append(all, row.cfg.faults()...)
	}
	assert.Len(t, all, len(rows), "one fault a row, no more")
}

// TestConfigNamesEveryFault: all faults come in one error, each by its name.
func TestConfigNamesEveryFault(t *testing.T) {
	_, err := New(Config{
		Base: plainBase{}, ConnectTimeout: 3 * time.Second, AttemptTimeout: 2 * time.Second, TotalTimeout: time.Second,
		Retry:    RetryPolicy{MaxAttempts: -1, Backoff: FullJitter{Base: 2, Cap: 1}},
		Breaker:  BreakerPolicy{ConsecutiveFailures: -1, FailureRatio: 2, MinRequests: -1, Window: time.Second, OpenFor: -1, Probes: -1, MaxCircuits: -1},
		Provider: Provider{KeyHeader: "a b", ReplayHeader: "c d", MaxKeyLength: -1, KeyMethods: []string{"HEAD", "PO ST"}},
	})
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(t, ok)
	assert.Len(t, joined.Unwrap(), 17)
	for _, name := range []string{
		"ConnectTimeout (3s) cannot be applied", "ConnectTimeout (3s) is above AttemptTimeout", "AttemptTimeout (2s) is above TotalTimeout",
		"Window", "MaxAttempts", "Cap", "ConsecutiveFailures", "FailureRatio", "MinRequests", "OpenFor", "Probes", "MaxCircuits",
		"KeyHeader", "ReplayHeader", "MaxKeyLength", `"HEAD"`, `"PO ST"`,
	} {
		assert.ErrorContains(t, err, name)
	}
}

// TestUnsetLimitsAdapt: only what was set explicitly can contradict.
func TestUnsetLimitsAdapt(t *testing.T) {
	rows := map[string]struct {
		cfg  Config
		want timeouts
	}{
		"nothing":       {Config{}, timeouts{2 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, time.Minute}},
		"total 5s":      {Config{TotalTimeout: 5 * time.Second}, timeouts{2 * time.Second, 5 * time.Second, 5 * time.Second, time.Minute, time.Minute}},
		"total 1s":      {Config{TotalTimeout: time.Second}, timeouts{time.Second, time.Second, time.Second, time.Minute, time.Minute}},
		"attempt 1s":    {Config{AttemptTimeout: time.Second}, timeouts{time.Second, time.Second, 3 * time.Second, time.Minute, time.Minute}},
		"attempt 1m":    {Config{AttemptTimeout: time.Minute}, timeouts{2 * time.Second, time.Minute, 3 * time.Minute, time.Minute, 2 * time.Minute}},
		"connect 20s":   {Config{ConnectTimeout: 20 * time.Second}, timeouts{20 * time.Second, 20 * time.Second, time.Minute, time.Minute, time.Minute}},
		"window 4s":     {Config{Breaker: BreakerPolicy{Window: 4 * time.Second}}, timeouts{2 * time.Second, 2 * time.Second, 6 * time.Second, time.Minute, 4 * time.Second}},
		"window off":    {Config{Breaker: BreakerPolicy{Window: -1}}, timeouts{2 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 0}},
		"connect off":   {Config{ConnectTimeout: -1}, timeouts{0, 10 * time.Second, 30 * time.Second, time.Minute, time.Minute}},
		"attempt off":   {Config{AttemptTimeout: -1}, timeouts{2 * time.Second, 0, 30 * time.Second, time.Minute, time.Minute}},
		"total off":     {Config{TotalTimeout: -1}, timeouts{2 * time.Second, 10 * time.Second, 0, time.Minute, time.Minute}},
		"idle off":      {Config{IdleTimeout: -1}, timeouts{2 * time.Second, 10 * time.Second, 30 * time.Second, 0, time.Minute}},
		"attempt huge":  {Config{AttemptTimeout: math.MaxInt64}, timeouts{2 * time.Second, math.MaxInt64, math.MaxInt64, time.Minute, math.MaxInt64}},
		"equal limits":  {Config{ConnectTimeout: time.Second, AttemptTimeout: time.Second, TotalTimeout: time.Second, Breaker: BreakerPolicy{Window: 2 * time.Second}}, timeouts{time.Second, time.Second, time.Second, time.Minute, 2 * time.Second}},
		"all off":       {Config{ConnectTimeout: -1, AttemptTimeout: -1, TotalTimeout: -1, IdleTimeout: -1}, timeouts{0, 0, 0, 0, time.Minute}},
		"connect, 2 on": {Config{ConnectTimeout: time.Second, TotalTimeout: 5 * time.Second}, timeouts{time.Second, 5 * time.Second, 5 * time.Second, time.Minute, time.Minute}},
	}
	for name, row := range rows {
		_, err := New(row.cfg)
		require.NoError(t, err, name)
		assert.Equal(t, row.want, adapt(row.cfg), name)
	}
}

func TestZeroMeansTheDefault(t *testing.T) {
	tr, err := New(Config{})
	require.NoError(t, err)
	assert.Equal(t, RetryPolicy{MaxAttempts: 4, Backoff: FullJitter{}, Budget: BudgetPolicy{Ratio: 0.1, Burst: 10}, MaxRetryAfter: time.Minute}, tr.retry)
	assert.Equal(t, BreakerPolicy{
		ConsecutiveFailures: 10, FailureRatio: 0.5, MinRequests: 20, Window: time.Minute, OpenFor: 1250 * time.Millisecond, Probes: 1, MaxCircuits: 4096,
	}, tr.breaker)
	assert.Equal(t, Provider{
		KeyHeader: "Idempotency-Key", KeyMethods: []string{"POST", "PATCH"}, MinKeyLength: 1, MaxKeyLength: 255, KeyWindow: 24 * time.Hour,
		ReplayHeader: "Idempotent-Replayed",
	}, tr.provider)
}

// TestDefaultBase: it has the settings that http.DefaultTransport starts with, and leaves that variable alone.
func TestDefaultBase(t *testing.T) {
	tr, err := New(Config{})
	require.NoError(t, err)
	base, ok := tr.base.(*http.Transport)
	require.True(t, ok)
	std := http.DefaultTransport.(*http.Transport)
	assert.NotSame(t, std, base)
	assert.NotNil(t, base.Proxy)
	assert.Equal(t, std.ForceAttemptHTTP2, base.ForceAttemptHTTP2)
	assert.Equal(t, std.MaxIdleConns, base.MaxIdleConns)
	assert.Equal(t, std.IdleConnTimeout, base.IdleConnTimeout)
	assert.Equal(t, std.ExpectContinueTimeout, base.ExpectContinueTimeout)
	assert.Equal(t, 2*time.Second, base.TLSHandshakeTimeout)
}

// TestBaseWithConnectTimeoutIsCloned: the Base that was given stays as it was, and is used as it is without.
func TestBaseWithConnectTimeoutIsCloned(t *testing.T) {
	given := &http.Transport{MaxConnsPerHost: 7}
	tr, err := New(Config{Base: given})
	require.NoError(t, err)
	assert.Same(t, given, tr.base)

	tr, err = New(Config{Base: given, ConnectTimeout: -1})
	require.NoError(t, err)
	assert.Same(t, given, tr.base, "off has nothing to apply")

	tr, err = New(Config{Base: given, ConnectTimeout: time.Second})
	require.NoError(t, err)
	clone := tr.base.(*http.Transport)
	assert.NotSame(t, given, clone)
	assert.Equal(t, 7, clone.MaxConnsPerHost)
	assert.Equal(t, time.Second, clone.TLSHandshakeTimeout)
	assert.Zero(t, given.TLSHandshakeTimeout)
	assert.Nil(t, given.DialContext)
}

func noKey(*http.Request) (string, error) { return "", nil }
