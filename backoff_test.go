package outbound

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFullJitterReference: base 0.5 s, cap 8 s, five retries wait at most 15.5 s and 7.75 s on average.
func TestFullJitterReference(t *testing.T) {
	const rounds = 20_000
	j := FullJitter{Base: 500 * time.Millisecond, Cap: 8 * time.Second}
	var sum, longest time.Duration
	for range rounds {
		var wait time.Duration
		for retry := range 5 {
			wait += j.Delay(retry)
		}
		sum += wait
		longest = max(longest, wait)
	}
	assert.LessOrEqual(t, longest, 15500*time.Millisecond)
	assert.InDelta(t, 7.75, (sum / rounds).Seconds(), 0.1)
}

func TestFullJitterDefaultsAreTheReference(t *testing.T) {
	assert.Equal(t, FullJitter{Base: 500 * time.Millisecond, Cap: 8 * time.Second}, jitterOf(FullJitter{}.bounds()))
	assert.Equal(t, FullJitter{Base: time.Minute, Cap: time.Minute}, jitterOf(FullJitter{Base: time.Minute}.bounds()), "the cap adapts")
	assert.Equal(t, FullJitter{Base: time.Millisecond, Cap: time.Millisecond}, jitterOf(FullJitter{Cap: time.Millisecond}.bounds()), "the base adapts")
}

func jitterOf(base, limit time.Duration) FullJitter { return FullJitter{Base: base, Cap: limit} }

func TestFullJitterStaysInBounds(t *testing.T) {
	durations := []time.Duration{math.MinInt64, -time.Second, 0, 1, time.Millisecond, time.Second, time.Hour, math.MaxInt64 - 1, math.MaxInt64}
	for _, base := range durations {
		for _, limit := range durations {
			for _, retry := range []int{math.MinInt, -1, 0, 1, 5, 30, 62, 63, 64, 1000, math.MaxInt} {
				j := FullJitter{Base: base, Cap: limit}
				_, ceiling := j.bounds()
				d := j.Delay(retry)
				require.True(t, d >= 0 && d <= ceiling, "%+v retry %d: %v", j, retry, d)
			}
		}
	}
}

// TestFullJitterGrowsAndKeepsItsJitterAtTheCap looks at the spread of draws: evenly up to the ceiling of each retry.
func TestFullJitterGrowsAndKeepsItsJitterAtTheCap(t *testing.T) {
	j := FullJitter{Base: 100 * time.Millisecond, Cap: time.Second}
	for retry, ceiling := range map[int]time.Duration{0: 100 * time.Millisecond, 1: 200 * time.Millisecond, 3: 800 * time.Millisecond, 4: time.Second, 30: time.Second} {
		least, most, sum := time.Duration(math.MaxInt64), time.Duration(0), time.Duration(0)
		for range 2000 {
			d := j.Delay(retry)
			least, most, sum = min(least, d), max(most, d), sum+d
		}
		assert.Less(t, least, ceiling/10, "retry %d", retry)
		assert.Greater(t, most, ceiling*9/10, "retry %d", retry)
		assert.LessOrEqual(t, most, ceiling, "retry %d", retry)
		assert.InDelta(t, float64(ceiling/2), float64(sum/2000), float64(ceiling)/20, "retry %d", retry)
	}
}

func TestRetryHint(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	date := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	rows := []struct {
		name   string
		header http.Header
		want   time.Duration
		ok     bool
	}{
		{"none", http.Header{}, 0, false},
		{"seconds", http.Header{"Retry-After": {"7"}}, 7 * time.Second, true},
		{"fraction", http.Header{"Retry-After": {"0.314"}}, 314 * time.Millisecond, true},
		{"blanks around", http.Header{"Retry-After": {" 7 "}}, 7 * time.Second, true},
		{"zero", http.Header{"Retry-After": {"0"}}, 0, true},
		{"date", http.Header{"Retry-After": {date(7 * time.Second)}}, 7 * time.Second, true},
		{"RFC 850 date", http.Header{"Retry-After": {now.Add(7 * time.Second).Format("Monday, 02-Jan-06 15:04:05 GMT")}}, 7 * time.Second, true},
		{"asctime date", http.Header{"Retry-After": {now.Add(7 * time.Second).Format(time.ANSIC)}}, 7 * time.Second, true},
		{"past date", http.Header{"Retry-After": {date(-time.Hour)}}, 0, true},
		{"date by the server's clock", http.Header{"Retry-After": {date(time.Hour + 10*time.Second)}, "Date": {date(time.Hour)}}, 10 * time.Second, true},
		{"date with an unreadable Date", http.Header{"Retry-After": {date(10 * time.Second)}, "Date": {"today"}}, 10 * time.Second, true},
		{"milliseconds", http.Header{"Retry-After-Ms": {"250"}}, 250 * time.Millisecond, true},
		{"milliseconds win", http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"1"}}, 250 * time.Millisecond, true},
		{"Azure's milliseconds", http.Header{"X-Ms-Retry-After-Ms": {"300"}, "Retry-After": {"1"}}, 300 * time.Millisecond, true},
		{"unreadable milliseconds fall through", http.Header{"Retry-After-Ms": {"NaN"}, "Retry-After": {"1"}}, time.Second, true},
		{"negative milliseconds fall through", http.Header{"Retry-After-Ms": {"-1"}, "Retry-After": {"1"}}, time.Second, true},
		{"too large", http.Header{"Retry-After": {"99999999999999999999"}}, math.MaxInt64, true},
		{"far too large", http.Header{"Retry-After": {string(make400Nines())}}, math.MaxInt64, true},
	}
	for _, row := range rows {
		got, ok := retryHint(row.header, now)
		assert.Equal(t, row.ok, ok, row.name)
		assert.InDelta(t, float64(row.want), float64(got), 1, row.name)
		assert.GreaterOrEqual(t, got, row.want, "%s: never below what was asked", row.name)
	}
}

func make400Nines() []byte {
	b := make([]byte, 400)
	for i := range b {
		b[i] = '9'
	}
	return b
}

func TestMalformedHintIsNoHint(t *testing.T) {
	for _, value := range []string{
		"-1", "-1.5", "+5", "soon", "Wed, 99 Foo 2026", "", ",", "NaN", "Inf", "infinity", "1e3", "0x10", "1_000", ".5", "5.",
		"1m0s", "2m59s", "370ms", "100invalid", "5 seconds", "5;q=1", "1.2.3", "1,5", string(make([]byte, 4096)),
	} {
		_, ok := retryHint(http.Header{"Retry-After": {value}}, time.Now())
		assert.False(t, ok, "%q", value)
	}
}

// TestSpreadNeverShortens: a wait with a hint is never below it, and at most the larger of backoff and a third of it above.
func TestSpreadNeverShortens(t *testing.T) {
	for _, hint := range []time.Duration{1, time.Millisecond, 3 * time.Second, time.Hour, math.MaxInt64 - 1, math.MaxInt64} {
		for _, backoff := range []time.Duration{0, time.Second, math.MaxInt64} {
			for range 100 {
				wait := spread(hint, backoff)
				require.GreaterOrEqual(t, wait, hint)
				if most := max(backoff, hint/3); hint < math.MaxInt64-most {
					require.LessOrEqual(t, wait, hint+most)
					require.GreaterOrEqual(t, wait, hint+backoff)
				}
			}
		}
	}
}
