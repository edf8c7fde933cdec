package outbound_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata" // the zones of C19 wherever the tests run

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
)

const caseOwnWait = 123 * time.Millisecond // a backoff that no hint is taken for

// caseHinted is one retry after an answer with these headers: "status, then 200", in virtual time.
func caseHinted(t *testing.T, status int, header ...string) caseResult {
	t.Helper()
	base := caseScript(caseReply(status, header...), caseReply(200))
	r := caseOK(t, caseNew(t, caseWaiting(base, caseOwnWait)), caseGet(t))
	require.Equal(t, 2, base.count())
	require.Equal(t, r.Elapsed, r.Report.Attempts[1].Wait, "what is reported is what was waited")
	require.Equal(t, r.Elapsed, base.all()[1].At.Sub(base.all()[0].At))
	return r
}

// caseSpread holds for the wait after a hint: never below it, and at most the larger of a third of it and the backoff above.
func caseSpread(t *testing.T, hint, wait time.Duration) {
	t.Helper()
	assert.GreaterOrEqual(t, wait, hint)
	assert.LessOrEqual(t, wait, hint+max(hint/3, caseOwnWait))
}

func TestC12_RetryAfterAsDate(t *testing.T) {
	forms := map[string]string{"RFC 1123": http.TimeFormat, "RFC 850": "Monday, 02-Jan-06 15:04:05 GMT", "asctime": time.ANSIC}
	for form, layout := range forms {
		for _, status := range []int{429, 503} {
			caseVirtual(t, fmt.Sprint(form, " ", status), func(t *testing.T) {
				at := time.Now().UTC().Add(7 * time.Second).Format(layout)
				caseSpread(t, 7*time.Second, caseHinted(t, status, "Retry-After", at).Elapsed)
			})
		}
	}
}

func TestC14_MalformedHintIsNoHint(t *testing.T) {
	values := []string{
		"-1", "-1.5", "soon", "Wed, 99 Foo 2026", "", ",", strings.Repeat("9a", 2048),
		"NaN", "Inf", "-Inf", "+5", "1e3", "0x10", ".5", "5.", "1_000", "1 2", "0", "0.0", "Sat, 01 Jan 2000 00:00:00 GMT",
		"Fri, 31 Dec 1999 00:00:00 GMT", "Sat, 01 Jan 2000 01:00:00 +0000",
	}
	for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		for _, value := range values {
			caseVirtual(t, fmt.Sprintf("%s %.20q", name, value), func(t *testing.T) {
				assert.Equal(t, caseOwnWait, caseHinted(t, 429, name, value).Elapsed)
			})
		}
	}
}

func TestC17_HintAboveTheCapStops(t *testing.T) {
	hour := func() string { return time.Now().UTC().Add(time.Hour).Format(http.TimeFormat) }
	rows := map[string]struct {
		method string
		status int
		name   string
		value  func() string
		asked  time.Duration
		limit  time.Duration
	}{
		"3.2 days":    {"GET", 429, "Retry-After", func() string { return "277403" }, 277403 * time.Second, 0},
		"503":         {"GET", 503, "Retry-After", func() string { return "277403" }, 277403 * time.Second, 0},
		"keyed POST":  {"POST", 429, "Retry-After", func() string { return "277403" }, 277403 * time.Second, 0},
		"hour":        {"GET", 429, "Retry-After", hour, time.Hour, 0},
		"ms":          {"GET", 429, "Retry-After-Ms", func() string { return "60001" }, 60001 * time.Millisecond, 0},
		"own cap":     {"GET", 429, "Retry-After", func() string { return "6" }, 6 * time.Second, 5 * time.Second},
		"overflowing": {"GET", 429, "Retry-After", func() string { return strings.Repeat("9", 400) }, math.MaxInt64, 0},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			value := row.value()
			base := caseScript(caseReplyWith(row.status, "slow down", row.name, value), caseReply(200))
			cfg := caseWaiting(base, caseOwnWait)
			cfg.TotalTimeout, cfg.Retry.MaxRetryAfter = -1, row.limit
			r := caseDo(t, caseNew(t, cfg), caseRequest(t, row.method, caseURL, "b"))
			require.NoError(t, r.Err)
			assert.Zero(t, r.Elapsed)
			assert.Equal(t, 1, base.count())
			assert.Equal(t, row.status, r.Status)
			assert.Equal(t, "slow down", r.Body)
			assert.Equal(t, value, r.Resp.Header.Get(row.name))
			assert.Equal(t, row.asked, r.Report.RetryAfter)
			assert.ErrorIs(t, r.Report.Stopped, outbound.ErrNotRetryable)
		})
	}
}

func TestC17_CancelEndsALongHintedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := caseScript(caseReply(429, "Retry-After", "277403"))
		cfg := caseConfig(base)
		cfg.TotalTimeout, cfg.Retry.MaxRetryAfter = -1, -1
		ctx, cancel := caseCancelAfter(t, 50*time.Millisecond)
		defer cancel()
		r := caseDo(t, caseNew(t, cfg), caseGet(t).WithContext(ctx))
		require.ErrorIs(t, r.Err, context.Canceled)
		assert.Equal(t, 50*time.Millisecond, r.Elapsed)
		assert.Equal(t, 1, base.count())
	})
}

func TestC18_HintParsesWholeOrNotAtAll(t *testing.T) {
	for _, value := range []string{"1m0s", "2m59s", "2m59.56s", "370ms", "100invalid", "5 seconds", "5;q=1", "5s", "5,6", "1.2.3"} {
		caseVirtual(t, value, func(t *testing.T) {
			base := caseScript(caseReplyWith(429, "limit", "Retry-After", value))
			cfg := caseWaiting(base, caseOwnWait)
			cfg.Retry.MaxAttempts = 2
			r := caseDo(t, caseNew(t, cfg), casePost(t))
			require.NoError(t, r.Err)
			assert.Equal(t, 429, r.Status)
			assert.Equal(t, "limit", r.Body)
			assert.Equal(t, 2, base.count())
			assert.Equal(t, []time.Duration{caseOwnWait}, caseWaits(r.Report))
			assert.ErrorIs(t, r.Report.Stopped, outbound.ErrAttemptsExhausted)
			assert.Zero(t, r.Report.RetryAfter)
		})
	}
}

const caseZoneEnv = "OUTBOUND_CASE_ZONE"

func TestC19_DatesAreGMTInAnyZone(t *testing.T) {
	if os.Getenv(caseZoneEnv) != "" {
		caseHintInZone(t)
		return
	}
	for zone, offset := range map[string]string{"America/New_York": "-18000", "Asia/Kolkata": "19800"} {
		t.Run(zone, func(t *testing.T) {
			exe, err := os.Executable()
			require.NoError(t, err)
			child := exec.CommandContext(t.Context(), exe, "-test.run=^TestC19_DatesAreGMTInAnyZone$", "-test.count=1", "-test.v")
			child.Env = append(os.Environ(), "TZ="+zone, caseZoneEnv+"="+offset)
			out, err := child.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS: TestC19_")
		})
	}
}

func caseHintInZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, offset := time.Now().Zone()
		require.Equal(t, os.Getenv(caseZoneEnv), fmt.Sprint(offset), "the zone is in force")
		for _, layout := range []string{http.TimeFormat, time.ANSIC} {
			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // a date holds whole seconds
			base := caseScript(caseReply(503, "Retry-After", time.Now().UTC().Add(120*time.Second).Format(layout)), caseReply(200))
			cfg := caseConfig(base)
			cfg.Retry.MaxRetryAfter, cfg.TotalTimeout = 10*time.Minute, -1
			r := caseOK(t, caseNew(t, cfg), caseGet(t))
			require.Len(t, caseWaits(r.Report), 1)
			caseSpread(t, 120*time.Second, caseWaits(r.Report)[0])
		}
	})
}

func TestC20_SkewedClocks(t *testing.T) {
	const ask = 10 * time.Second
	rows := map[string]struct {
		server time.Duration // its clock, ahead of ours
		dated  bool
		check  func(*testing.T, caseResult)
	}{
		"client ahead":             {-time.Hour, true, func(t *testing.T, r caseResult) { caseSpread(t, ask, r.Elapsed) }},
		"client behind":            {time.Hour, true, func(t *testing.T, r caseResult) { caseSpread(t, ask, r.Elapsed) }},
		"client ahead, undated":    {-time.Hour, false, func(t *testing.T, r caseResult) { assert.Equal(t, caseOwnWait, r.Elapsed) }},
		"small lag, undated":       {20 * time.Second, false, func(t *testing.T, r caseResult) { caseSpread(t, 30*time.Second, r.Elapsed) }},
		"client ahead a bit, date": {-time.Second, true, func(t *testing.T, r caseResult) { caseSpread(t, ask, r.Elapsed) }},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			server := time.Now().UTC().Add(row.server)
			header := []string{"Retry-After", server.Add(ask).Format(http.TimeFormat)}
			if row.dated {
				header = append(header, "Date", server.Format(http.TimeFormat))
			}
			base := caseScript(caseReply(503, header...), caseReply(200))
			cfg := caseWaiting(base, caseOwnWait)
			cfg.TotalTimeout = 5 * time.Minute
			row.check(t, caseOK(t, caseNew(t, cfg), caseGet(t)))
		})
	}
}

func TestC20_SkewNeverWaitsAboveTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := caseScript(caseReply(503, "Retry-After", time.Now().UTC().Add(time.Hour+10*time.Second).Format(http.TimeFormat)))
		r := caseDo(t, caseNew(t, caseWaiting(base, caseOwnWait)), caseGet(t))
		assert.Equal(t, 503, r.Status)
		assert.Zero(t, r.Elapsed)
		assert.Equal(t, 1, base.count())
	})
}

func TestC21_FractionsOfASecond(t *testing.T) {
	for value, hint := range map[string]time.Duration{
		"0.314": 314 * time.Millisecond, "1.5": 1500 * time.Millisecond, "0.0000000001": 1, "2.0": 2 * time.Second, " 0.5 ": 500 * time.Millisecond,
	} {
		for _, status := range []int{429, 503} {
			caseVirtual(t, fmt.Sprint(value, " ", status), func(t *testing.T) {
				caseSpread(t, hint, caseHinted(t, status, "Retry-After", value).Elapsed)
			})
		}
	}
}

func TestC22_MillisecondHints(t *testing.T) {
	rows := map[string]struct {
		header []string
		hint   time.Duration
	}{
		"ms wins":              {[]string{"retry-after-ms", "250", "Retry-After", "1"}, 250 * time.Millisecond},
		"ms alone":             {[]string{"Retry-After-Ms", "250"}, 250 * time.Millisecond},
		"fraction":             {[]string{"Retry-After-Ms", "250.5"}, 250500 * time.Microsecond},
		"the second name":      {[]string{"X-Ms-Retry-After-Ms", "250", "Retry-After", "1"}, 250 * time.Millisecond},
		"first name first":     {[]string{"X-Ms-Retry-After-Ms", "900", "Retry-After-Ms", "250"}, 250 * time.Millisecond},
		"negative falls on":    {[]string{"Retry-After-Ms", "-1", "Retry-After", "1"}, time.Second},
		"NaN falls on":         {[]string{"Retry-After-Ms", "NaN", "Retry-After", "1"}, time.Second},
		"letters fall on":      {[]string{"Retry-After-Ms", "abc", "Retry-After", "1"}, time.Second},
		"falls to second name": {[]string{"Retry-After-Ms", "abc", "X-Ms-Retry-After-Ms", "300", "Retry-After", "1"}, 300 * time.Millisecond},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			caseSpread(t, row.hint, caseHinted(t, 429, row.header...).Elapsed)
		})
	}
	caseVirtual(t, "zero parses, and means the backoff", func(t *testing.T) {
		assert.Equal(t, caseOwnWait, caseHinted(t, 429, "Retry-After-Ms", "0", "Retry-After", "1").Elapsed)
	})
}

func TestC23_HintAtTheCapIsWaitedFor(t *testing.T) {
	for value, hits := range map[string]int{"60": 2, "61": 1, "60.000001": 1} {
		caseVirtual(t, value, func(t *testing.T) {
			base := caseScript(caseReply(429, "Retry-After", value), caseReply(200))
			cfg := caseWaiting(base, caseOwnWait)
			cfg.TotalTimeout = 10 * time.Minute
			r := caseDo(t, caseNew(t, cfg), caseGet(t))
			require.Equal(t, hits, base.count())
			if hits == 2 {
				caseSpread(t, time.Minute, r.Elapsed)
			}
		})
	}
}

func TestC23_JitterNeverShortensAHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		least, most := time.Hour, time.Duration(0)
		for range 500 {
			base := caseScript(caseReply(429, "Retry-After", "3"), caseReply(200))
			r := caseOK(t, caseNew(t, caseConfig(base)), caseGet(t))
			least, most = min(least, r.Elapsed), max(most, r.Elapsed)
		}
		assert.GreaterOrEqual(t, least, 3*time.Second)
		assert.Less(t, least, 3100*time.Millisecond, "spread from the hint on")
		assert.Greater(t, most, 3900*time.Millisecond, "spread over a third of it")
		assert.LessOrEqual(t, most, 4*time.Second)
	})
	caseVirtual(t, "a longer backoff comes on top", func(t *testing.T) {
		base := caseScript(caseReply(429, "Retry-After", "3"), caseReply(200))
		r := caseOK(t, caseNew(t, caseWaiting(base, 2*time.Second)), caseGet(t))
		assert.Equal(t, 5*time.Second, r.Elapsed)
	})
}

func TestC24_WaitBeyondTheDeadlineIsNotBegun(t *testing.T) {
	long := caseReplyWith(503, "why", "Retry-After", "30")
	rows := map[string]struct {
		step    caseStep
		backoff time.Duration
		ctx     time.Duration
		total   time.Duration
		stopped error
	}{
		"context, hint":     {step: long, ctx: 2 * time.Second, stopped: context.DeadlineExceeded},
		"total, hint":       {step: long, total: 2 * time.Second, stopped: outbound.ErrTotalTimeout},
		"context, backoff":  {step: caseReplyWith(503, "why"), backoff: 2 * time.Second, ctx: 2 * time.Second, stopped: context.DeadlineExceeded},
		"total, backoff":    {step: caseReplyWith(503, "why"), backoff: 2 * time.Second, total: 2 * time.Second, stopped: outbound.ErrTotalTimeout},
		"context, no reply": {step: caseErr(io.ErrUnexpectedEOF), backoff: 30 * time.Second, ctx: 2 * time.Second, stopped: context.DeadlineExceeded},
		"total, no reply":   {step: caseErr(io.ErrUnexpectedEOF), backoff: 30 * time.Second, total: 2 * time.Second, stopped: outbound.ErrTotalTimeout},
	}
	for name, row := range rows {
		for _, method := range []string{"GET", "POST"} {
			caseVirtual(t, name+" "+method, func(t *testing.T) {
				base := caseScript(row.step)
				cfg := caseWaiting(base, row.backoff)
				cfg.TotalTimeout = row.total
				req := caseRequest(t, method, caseURL, "b")
				if row.ctx > 0 {
					ctx, cancel := context.WithTimeout(req.Context(), row.ctx)
					defer cancel()
					req = req.WithContext(ctx)
				}
				caseStoppedAtOnce(t, caseDo(t, caseNew(t, cfg), req), row.stopped)
				assert.Equal(t, 1, base.count())
			})
		}
	}
}

func caseStoppedAtOnce(t *testing.T, r caseResult, stopped error) {
	t.Helper()
	assert.Zero(t, r.Elapsed)
	require.ErrorIs(t, r.Report.Stopped, stopped)
	if r.Err != nil {
		require.ErrorIs(t, r.Err, stopped)
		require.ErrorIs(t, r.Err, context.DeadlineExceeded)
		require.ErrorIs(t, r.Err, io.ErrUnexpectedEOF, "the last cause")
		return
	}
	assert.Equal(t, 503, r.Status)
	assert.Equal(t, "why", r.Body)
	require.NoError(t, r.ReadErr)
}

func TestC25_HintIsNoCondition(t *testing.T) {
	rows := map[string]struct {
		method string
		noKeys bool
		hits   int
		status int
	}{
		"GET":                {method: "GET", hits: 3, status: 200},
		"keyed POST":         {method: "POST", hits: 3, status: 200},
		"PUT":                {method: "PUT", hits: 3, status: 200},
		"POST without a key": {method: "POST", noKeys: true, hits: 2, status: 503},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			base := caseScript(caseReply(429), caseReply(503), caseReply(200))
			cfg := caseWaiting(base, caseOwnWait)
			cfg.Provider.NoKeys = row.noKeys
			r := caseDo(t, caseNew(t, cfg), caseRequest(t, row.method, caseURL, "b"))
			assert.Equal(t, row.hits, base.count())
			assert.Equal(t, row.status, r.Status)
			for _, wait := range caseWaits(r.Report) {
				assert.Equal(t, caseOwnWait, wait)
			}
		})
	}
}

// Timeouts and cancel.

func TestC27_HungAttemptIsRetriedWithinTheTotal(t *testing.T) {
	const limit = 100 * time.Millisecond
	stalls := map[string]http.HandlerFunc{
		"headers": casePause(time.Second, caseSend(200, "late")),
		"body": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
	}
	for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": casePipe, "HTTP2": casePipeH2} {
		for stall, act := range stalls {
			caseVirtual(t, wire+" "+stall, func(t *testing.T) {
				s := serve(t, act, caseSend(200, "ok"))
				cfg := caseConfig(s.base)
				cfg.AttemptTimeout, cfg.TotalTimeout = limit, 2*time.Second
				r := caseOK(t, caseNew(t, cfg), caseRequest(t, "POST", s.URL, "b"))
				assert.Equal(t, 2, s.count())
				assert.Equal(t, limit, r.Elapsed)
				require.ErrorIs(t, r.Report.Attempts[0].Err, outbound.ErrAttemptTimeout)
				assert.Equal(t, outbound.OutcomeUnknown, r.Report.Attempts[0].Outcome)
				assert.Equal(t, outbound.OutcomeSucceeded, r.Report.Outcome)
				caseSameKey(t, s.all())
			})
		}
	}
}

func TestC27_HungConnectIsRetriedWithinTheTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := casePipe(t, caseSend(200, "ok"))
		reach, dials := s.base.DialContext, 0
		s.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials == 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return reach(ctx, network, addr)
		}
		cfg := caseConfig(s.base)
		cfg.ConnectTimeout, cfg.TotalTimeout, cfg.Provider.NoKeys = 100*time.Millisecond, 2*time.Second, true
		r := caseOK(t, caseNew(t, cfg), caseRequest(t, "POST", s.URL, "b"))
		assert.Equal(t, 100*time.Millisecond, r.Elapsed)
		assert.Equal(t, 2, dials)
		assert.Equal(t, 1, s.count())
	})
}

func TestC28_CancelInterruptsTheWait(t *testing.T) {
	const at = 50 * time.Millisecond
	why := errors.New("the user went away")
	rows := map[string]struct {
		step   caseStep
		end    func(context.Context) (context.Context, context.CancelFunc)
		causes []error
	}{
		"cancel": {caseReply(503), func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(at, cancel)
			return ctx, cancel
		}, []error{context.Canceled}},
		"cancel with a cause": {caseReply(503), func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(at, func() { cancel(why) })
			return ctx, func() { cancel(nil) }
		}, []error{context.Canceled, why}},
		"in a hinted wait": {caseReply(503, "Retry-After", "10"), func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(at, cancel)
			return ctx, cancel
		}, []error{context.Canceled}},
	}
	for name, row := range rows {
		for _, method := range []string{"GET", "POST"} {
			caseVirtual(t, name+" "+method, func(t *testing.T) {
				base := caseScript(row.step)
				ctx, cancel := row.end(t.Context())
				defer cancel()
				r := caseDo(t, caseNew(t, caseWaiting(base, 10*time.Second)), caseRequest(t, method, caseURL, "b").WithContext(ctx))
				assert.Equal(t, at, r.Elapsed)
				assert.Equal(t, 1, base.count())
				assert.Equal(t, []int{1}, base.closes())
				for _, cause := range row.causes {
					assert.ErrorIs(t, r.Err, cause)
				}
			})
		}
	}
}

func TestC29_CancelAndTheReasonForWaiting(t *testing.T) {
	unavailable := caseReply(503)
	rows := map[string]struct {
		steps    []caseStep
		at       time.Duration
		attempts int
		outcome  outbound.Outcome
		text     []string
	}{
		"before the attempt":  {steps: []caseStep{unavailable}, outcome: outbound.OutcomeNotSent, text: []string{"0 attempts"}},
		"during the first":    {steps: []caseStep{caseStall}, at: 50 * time.Millisecond, attempts: 1, text: []string{"1 attempt"}},
		"during the second":   {steps: []caseStep{unavailable, caseStall}, at: 1050 * time.Millisecond, attempts: 2, text: []string{"2 attempts"}},
		"during the wait":     {steps: []caseStep{unavailable}, at: 500 * time.Millisecond, attempts: 1, text: []string{"1 attempt", "503"}},
		"during the 2nd wait": {steps: []caseStep{unavailable}, at: 1500 * time.Millisecond, attempts: 2, text: []string{"2 attempts", "503"}},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			base := caseScript(row.steps...)
			ctx, cancel := caseCancelAfter(t, row.at)
			defer cancel()
			if row.at == 0 {
				cancel()
			}
			r := caseDo(t, caseNew(t, caseWaiting(base, time.Second)), casePost(t).WithContext(ctx))
			require.ErrorIs(t, r.Err, context.Canceled)
			assert.Equal(t, row.at, r.Elapsed)
			assert.Equal(t, row.attempts, base.count())
			require.Len(t, r.Report.Attempts, row.attempts)
			if len(row.text) == 2 || row.attempts == 2 {
				assert.Equal(t, 503, r.Report.Attempts[0].Status)
			}
			for _, text := range row.text {
				assert.ErrorContains(t, r.Err, text)
			}
			assert.Equal(t, row.outcome, r.Report.Outcome)
		})
	}
}

func TestC31_NothingIsSentAfterTheCallersTime(t *testing.T) {
	for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": casePipe, "HTTP2": casePipeH2} {
		for _, method := range []string{"GET", "POST"} {
			caseVirtual(t, wire+" "+method, func(t *testing.T) {
				s := serve(t, casePause(time.Second, caseSend(200, "late")))
				cfg := caseConfig(s.base)
				cfg.Retry.MaxAttempts = 5
				ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
				defer cancel()
				r := caseDo(t, caseDoer(caseClient(t, cfg)), caseRequest(t, method, s.URL, "b").WithContext(ctx))
				require.ErrorIs(t, r.Err, context.DeadlineExceeded)
				assert.Equal(t, 150*time.Millisecond, r.Elapsed)
				time.Sleep(500 * time.Millisecond)
				assert.Equal(t, 1, s.count())
			})
		}
	}
}

func TestC31_BaseThatIgnoresTheContext(t *testing.T) {
	for calls, name := range []string{"cancelled before", "cancelled inside the first"} {
		caseVirtual(t, name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			base := caseScript(func(*http.Request) (*http.Response, error) {
				cancel()
				return caseResponse(503, "{}"), nil
			})
			if calls == 0 {
				cancel()
			}
			r := caseDo(t, caseNew(t, caseConfig(base)), casePost(t).WithContext(ctx))
			assert.Equal(t, calls, base.count())
			assert.ErrorIs(t, r.Report.Stopped, context.Canceled)
			if calls == 1 {
				assert.Equal(t, 503, r.Status, "a response is never turned into an error")
			}
		})
	}
}

func TestC31_BasesOwnTimeoutIsNoCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := caseScript(caseErr(&url.Error{Op: "Get", URL: "http://x", Err: context.DeadlineExceeded}), caseReply(200))
		caseOK(t, caseNew(t, caseConfig(base)), caseGet(t))
		assert.Equal(t, 2, base.count())
	})
}

// caseDeaf is a connection that a peer accepted and never says anything on.
func caseDeaf(t *testing.T) caseDial {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		t.Cleanup(func() { _ = server.Close() })
		return client, nil
	}
}

func caseBlockedDial(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
}

func TestC32_ConnectTimeoutBoundsDialAndHandshake(t *testing.T) {
	rows := map[string]func(*testing.T) caseDial{
		"dial":      func(*testing.T) caseDial { return caseBlockedDial },
		"handshake": caseDeaf,
	}
	for name, dial := range rows {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			caseVirtual(t, name+" "+method, func(t *testing.T) {
				var running, dials atomic.Int32
				reach := dial(t)
				base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					dials.Add(1)
					running.Add(1)
					defer running.Add(-1)
					return reach(ctx, network, addr)
				}}
				cfg := caseWaiting(base, time.Millisecond)
				cfg.ConnectTimeout, cfg.Retry.MaxAttempts, cfg.Provider.NoKeys = 100*time.Millisecond, 2, true
				r := caseDo(t, caseNew(t, cfg), caseRequest(t, method, "https://api.test/pay", "b"))
				require.ErrorIs(t, r.Err, outbound.ErrConnectTimeout)
				caseTimeout(t, r.Err)
				require.ErrorIs(t, r.Report.Stopped, outbound.ErrAttemptsExhausted)
				assert.Equal(t, 201*time.Millisecond, r.Elapsed)
				assert.EqualValues(t, 2, dials.Load())
				assert.Equal(t, outbound.OutcomeNotSent, r.Report.Outcome)
				synctest.Wait()
				assert.Zero(t, running.Load(), "dials still under way")
			})
		}
	}
}

func TestC33_CallersDeadlineIsNamed(t *testing.T) {
	const limit = 80 * time.Millisecond
	rows := map[string]func(*testing.T) *http.Transport{
		"blocked dial":  func(*testing.T) *http.Transport { return &http.Transport{DialContext: caseBlockedDial} },
		"stalled TLS":   func(t *testing.T) *http.Transport { return &http.Transport{DialContext: caseDeaf(t)} },
		"no headers":    func(t *testing.T) *http.Transport { return caseTLSPipe(t, caseHang).base },
		"no whole body": func(t *testing.T) *http.Transport { return caseTLSPipe(t, caseStalledBody).base },
		"bare i/o timeout": func(*testing.T) *http.Transport {
			return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
			}}
		},
	}
	for name, base := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			client := caseClient(t, caseConfig(base(t)))
			for range 50 {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				start := time.Now()
				resp, err := client.Do(caseRequest(t, "POST", "https://api.test/pay", "b").WithContext(ctx))
				if err == nil {
					_, err = caseRead(resp)
				}
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, outbound.ErrAttemptTimeout)
				require.NotErrorIs(t, err, outbound.ErrConnectTimeout)
				require.Equal(t, limit, time.Since(start))
				cancel()
			}
		})
	}
}

func caseStalledBody(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "10")
	_, _ = io.WriteString(w, "half")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// caseTLSPipe is casePipe under a URL of https: the dial gives a connection that counts as the encrypted one.
func caseTLSPipe(t *testing.T, acts ...http.HandlerFunc) *caseServer {
	s := casePipe(t, acts...)
	s.base.DialTLSContext, s.base.DialContext = s.base.DialContext, nil
	return s
}

func TestC34_NoAttemptAfterTheTotal(t *testing.T) {
	const total = 300 * time.Millisecond
	rows := map[string]struct {
		step    caseStep
		hits    int
		elapsed time.Duration
	}{
		"503 at once":      {caseReply(503), 3, 200 * time.Millisecond},
		"reset at once":    {caseErr(io.ErrUnexpectedEOF), 3, 200 * time.Millisecond},
		"attempts hanging": {caseStall, 2, total},
	}
	for name, row := range rows {
		for _, method := range []string{"GET", "POST"} {
			caseVirtual(t, name+" "+method, func(t *testing.T) {
				base := caseScript(row.step)
				cfg := caseWaiting(base, 100*time.Millisecond)
				cfg.TotalTimeout, cfg.AttemptTimeout, cfg.Retry.MaxAttempts = total, 150*time.Millisecond, 100
				r := caseDo(t, caseNew(t, cfg), caseRequest(t, method, caseURL, "b"))
				assert.Equal(t, row.elapsed, r.Elapsed)
				assert.Equal(t, row.hits, base.count())
				require.ErrorIs(t, r.Report.Stopped, outbound.ErrTotalTimeout)
				time.Sleep(time.Minute)
				assert.Equal(t, row.hits, base.count(), "no hit after the return")
			})
		}
	}
}

// Backoff arithmetic and counts.

func TestC105_OddBackoffsNeverPanic(t *testing.T) {
	valid := []outbound.FullJitter{
		{}, {Base: 0, Cap: time.Nanosecond}, {Base: time.Nanosecond, Cap: time.Nanosecond}, {Base: time.Nanosecond},
		{Base: time.Minute}, {Cap: time.Hour}, {Base: 1000 * time.Hour, Cap: 10_000 * time.Hour},
	}
	for _, jitter := range append(valid, outbound.FullJitter{Base: math.MaxInt64, Cap: math.MaxInt64}) {
		for _, retry := range []int{0, 1, 30, 62, 63, 64, math.MaxInt, -1, math.MinInt} {
			assert.GreaterOrEqual(t, jitter.Delay(retry), time.Duration(0), "%+v", jitter)
		}
	}
	for _, jitter := range valid {
		caseVirtual(t, fmt.Sprintf("%+v", jitter), func(t *testing.T) {
			base := caseScript(caseReply(503), caseReply(200))
			cfg := caseConfig(base)
			cfg.Retry.Backoff, cfg.TotalTimeout = jitter, -1
			caseOK(t, caseNew(t, cfg), caseGet(t))
			assert.Equal(t, 2, base.count())
		})
	}
	for _, jitter := range []outbound.FullJitter{{Base: 2, Cap: 1}, {Base: -1}, {Cap: -1}, {Base: -1, Cap: -1}} {
		_, err := outbound.New(outbound.Config{Retry: outbound.RetryPolicy{Backoff: jitter}})
		require.ErrorContains(t, err, "FullJitter", "%+v", jitter)
		assert.LessOrEqual(t, jitter.Delay(0), time.Duration(1), "outside New: no panic, no wait")
	}
}

func TestC106_JitterUnderLoad(t *testing.T) {
	var perCall sync.Map
	base := caseFunc(func(r *http.Request) (*http.Response, error) {
		n, _ := perCall.LoadOrStore(r.URL.Path, new(atomic.Int32))
		if n.(*atomic.Int32).Add(1) < 4 {
			return caseResponse(503, "{}"), nil
		}
		return caseResponse(200, "{}"), nil
	})
	synctest.Test(t, func(t *testing.T) {
		cfg := caseConfig(base)
		cfg.Retry.Backoff = outbound.FullJitter{Base: time.Second, Cap: 2 * time.Second}
		tr := caseNew(t, cfg)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				r := caseDo(t, tr, caseRequest(t, "GET", fmt.Sprint("http://api.test/", i), ""))
				assert.Equal(t, 200, r.Status)
				for n, wait := range caseWaits(r.Report) {
					assert.LessOrEqual(t, wait, min(2, time.Duration(n+1))*time.Second)
				}
			})
		}
		wg.Wait()
	})
}

func TestC107_JitterAtTheCap(t *testing.T) {
	jitter := outbound.FullJitter{Base: time.Millisecond, Cap: time.Second}
	for _, retry := range []int{10, 30, 62, 63, 64, 1000, math.MaxInt} {
		least, most, sum := time.Hour, time.Duration(0), time.Duration(0)
		for range 1000 {
			d := jitter.Delay(retry)
			least, most, sum = min(least, d), max(most, d), sum+d
		}
		assert.Less(t, least, 100*time.Millisecond, retry)
		assert.Greater(t, most, 900*time.Millisecond, retry)
		assert.LessOrEqual(t, most, time.Second, retry)
		assert.InDelta(t, float64(500*time.Millisecond), float64(sum/1000), float64(100*time.Millisecond), retry)
	}
}

// caseNumbers is a Backoff that records which retries it was asked for.
type caseNumbers struct {
	mu    sync.Mutex
	asked []int
}

func (n *caseNumbers) Delay(retry int) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, retry)
	return time.Second
}

func TestC108_ExactlyAsManyAttemptsAsAsked(t *testing.T) {
	steps := map[string]caseStep{"503": caseReply(503), "reset": caseErr(io.ErrUnexpectedEOF), "429": caseReply(429)}
	for fault, step := range steps {
		for _, n := range []int{1, 2, 3, 5} {
			caseVirtual(t, fmt.Sprint(fault, " ", n), func(t *testing.T) {
				base, hooks, numbers := caseScript(step), caseHooks{}, caseNumbers{}
				cfg := caseConfig(base)
				cfg.Retry.MaxAttempts, cfg.Retry.Backoff, cfg.Hooks = n, &numbers, hooks.hooks()
				r := caseDo(t, caseNew(t, cfg), casePost(t))
				assert.Equal(t, n, base.count())
				require.ErrorIs(t, r.Report.Stopped, outbound.ErrAttemptsExhausted)
				assert.Equal(t, time.Duration(n-1)*time.Second, r.Elapsed, "no wait after the last")
				require.Len(t, hooks.retries, n-1)
				require.Len(t, hooks.attempts, n)
				require.Len(t, numbers.asked, n-1)
				for i := range n - 1 {
					assert.Equal(t, i+1, hooks.retries[i].Number)
					assert.Equal(t, time.Second, hooks.waits[i])
					assert.Equal(t, i, numbers.asked[i])
				}
			})
		}
	}
}

func TestC109_OddCounts(t *testing.T) {
	_, err := outbound.New(outbound.Config{Retry: outbound.RetryPolicy{MaxAttempts: -1}})
	require.ErrorContains(t, err, "MaxAttempts")
	rows := map[string]struct {
		policy, override int
		hits             int
		stopped          error
	}{
		"0 is the default":        {hits: 4, stopped: outbound.ErrAttemptsExhausted},
		"1":                       {policy: 1, hits: 1, stopped: outbound.ErrAttemptsExhausted},
		"MaxInt ends by context":  {policy: math.MaxInt, hits: 30, stopped: context.DeadlineExceeded},
		"override 1":              {override: 1, hits: 1, stopped: outbound.ErrAttemptsExhausted},
		"override -1 counts as 1": {override: -1, hits: 1, stopped: outbound.ErrAttemptsExhausted},
		"override MaxInt":         {override: math.MaxInt, hits: 30, stopped: context.DeadlineExceeded},
		"override MinInt":         {override: math.MinInt, hits: 1, stopped: outbound.ErrAttemptsExhausted},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			base := caseScript(caseReply(503))
			cfg := caseWaiting(base, 10*time.Millisecond)
			cfg.Retry.MaxAttempts = row.policy
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			ctx = outbound.WithOverride(ctx, outbound.Override{MaxAttempts: row.override})
			r := caseDo(t, caseNew(t, cfg), caseGet(t).WithContext(ctx))
			assert.Equal(t, row.hits, base.count())
			assert.Equal(t, 503, r.Status)
			assert.ErrorIs(t, r.Report.Stopped, row.stopped)
		})
	}
}
