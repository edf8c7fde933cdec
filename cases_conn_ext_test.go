package outbound_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
)

func TestC35_DiscardedRepliesAreClosedBeforeTheNextAttempt(t *testing.T) {
	for _, method := range []string{"GET", "POST", "PUT"} {
		caseVirtual(t, method, func(t *testing.T) {
			base := &caseBase{}
			unavailable := func(*http.Request) (*http.Response, error) {
				for i, n := range base.closes() {
					assert.Equal(t, 1, n, "reply %d when the next attempt starts", i+1)
				}
				return caseResponse(503, "why", "Content-Type", "text/plain"), nil
			}
			last := func(r *http.Request) (*http.Response, error) {
				_, _ = unavailable(r)
				resp := caseResponse(200, "ok", "Content-Type", "application/octet-stream")
				resp.ContentLength = -1 // handed over unread, whatever the method
				return resp, nil
			}
			base.steps = []caseStep{unavailable, unavailable, last}
			resp, err := caseNew(t, caseConfig(base)).RoundTrip(caseRequest(t, method, caseURL, "b"))
			require.NoError(t, err)
			assert.Equal(t, []int{1, 1, 0}, base.closes())
			body, err := caseRead(resp)
			require.NoError(t, err)
			assert.Equal(t, "ok", body)
			assert.Equal(t, []int{1, 1, 1}, base.closes())
		})
	}
}

// A bubble does not end while one of its goroutines lives: what is left over fails the test.
func TestC35_ManyCallsLeaveNothingBehind(t *testing.T) {
	for wire, serve := range map[string]func(*testing.T, ...http.HandlerFunc) *caseServer{"HTTP1": casePipe, "HTTP2": casePipeH2} {
		for _, method := range []string{"GET", "POST"} {
			caseVirtual(t, wire+" "+method, func(t *testing.T) {
				var n atomic.Int32
				s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					if n.Add(1)%3 != 0 {
						w.WriteHeader(503)
					}
					_, _ = io.WriteString(w, strings.Repeat("z", 2000))
				})
				tr := caseNew(t, caseConfig(s.base))
				for range 100 {
					caseOK(t, tr, caseRequest(t, method, s.URL, "b"))
				}
				assert.Equal(t, 300, s.count())
				assert.EqualValues(t, 1, s.dials.Load(), "one connection is enough for calls one by one")
			})
		}
	}
}

func TestC36_SmallErrorBodyGivesTheConnectionBack(t *testing.T) {
	for _, size := range []int{0, 2 << 10, 60 << 10} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(fmt.Sprint(method, " ", size), func(t *testing.T) {
				s := caseServe(t, caseSend(503, strings.Repeat("e", size)), caseSend(200, "ok"))
				var reused []bool
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
					GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) },
				})
				r := caseOK(t, caseNew(t, caseConfig(s.base)), caseRequest(t, method, s.URL, "b").WithContext(ctx))
				assert.Equal(t, []bool{false, true}, reused)
				assert.True(t, r.Report.Attempts[1].Reused)
				assert.EqualValues(t, 1, s.conns.Load())
			})
		}
	}
}

// caseEndless writes without an end, and says how much the client took.
func caseEndless(taken *atomic.Int64, media string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(503)
		block := bytes.Repeat([]byte("e"), 4<<10)
		for {
			n, err := w.Write(block)
			if err != nil {
				return
			}
			taken.Add(int64(n))
		}
	}
}

func TestC36_EndlessErrorBodyIsAbandoned(t *testing.T) {
	const drained, inside, buffers = 64 << 10, 1 << 20, 64 << 10
	rows := map[string]struct {
		method, media string
		most          int64
	}{
		"GET":                       {"GET", "text/html", drained + buffers},
		"POST":                      {"POST", "application/octet-stream", drained + buffers},
		"POST, read in the attempt": {"POST", "text/html", inside + drained + buffers},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			var taken atomic.Int64
			s := casePipe(t, caseEndless(&taken, row.media), caseSend(200, "ok"))
			r := caseOK(t, caseNew(t, caseConfig(s.base)), caseRequest(t, row.method, s.URL, "b"))
			assert.Equal(t, 2, s.count())
			assert.Zero(t, r.Elapsed, "read no longer than it takes")
			assert.LessOrEqual(t, taken.Load(), row.most)
		})
	}
}

func TestC36_SilentErrorBodyIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := casePipe(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(503)
			_, _ = io.WriteString(w, "and then")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, caseSend(200, "ok"))
		r := caseOK(t, caseNew(t, caseConfig(s.base)), caseRequest(t, "GET", s.URL, ""))
		assert.Equal(t, 100*time.Millisecond, r.Elapsed)
		assert.Equal(t, 2, s.count())
	})
}

func TestC38_LastResponseIsOpenWhereReturned(t *testing.T) {
	for _, method := range []string{"GET", "PUT"} {
		base := caseScript(caseReplyWith(503, "why"))
		cfg := caseConfig(base)
		cfg.Retry.MaxAttempts = 3
		resp, err := caseNew(t, cfg).RoundTrip(caseRequest(t, method, caseURL, "b"))
		require.NoError(t, err)
		assert.Equal(t, []int{1, 1, 0}, base.closes())
		body, err := caseRead(resp)
		require.NoError(t, err)
		assert.Equal(t, "why", body)
		assert.Equal(t, []int{1, 1, 1}, base.closes())
	}
}

func TestC38_LastResponseIsClosedWhereAnErrorIsReturned(t *testing.T) {
	rows := map[string]func(*testing.T, *caseBase) caseResult{
		"cancelled in the wait": func(t *testing.T, base *caseBase) caseResult {
			ctx, cancel := caseCancelAfter(t, time.Millisecond)
			defer cancel()
			return caseDo(t, caseNew(t, caseWaiting(base, time.Second)), casePost(t).WithContext(ctx))
		},
		"GetBody fails": func(t *testing.T, base *caseBase) caseResult {
			req := casePost(t)
			req.GetBody = func() (io.ReadCloser, error) { return nil, errCase }
			return caseDo(t, caseNew(t, caseConfig(base)), req)
		},
		"circuit opened in the wait": func(t *testing.T, base *caseBase) caseResult {
			cfg := caseTripping(base, 2)
			cfg.Retry.Backoff = caseBackoff(time.Second)
			tr := caseNew(t, cfg)
			time.AfterFunc(500*time.Millisecond, func() { caseDo(t, tr, caseOneShot(casePost(t))) })
			r := caseDo(t, tr, casePost(t))
			require.ErrorIs(t, r.Err, outbound.ErrCircuitOpen)
			return r
		},
	}
	for name, call := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			base := caseScript(caseReply(503))
			r := call(t, base)
			require.Error(t, r.Err)
			for i, n := range base.closes() {
				assert.Equal(t, 1, n, "reply %d", i+1)
			}
			require.Len(t, r.Report.Attempts, 1)
			assert.Equal(t, 503, r.Report.Attempts[0].Status)
			assert.Equal(t, outbound.OutcomeUnknown, r.Report.Outcome)
		})
	}
}

func TestC39_OneConnectionIsGivenBackBeforeTheWait(t *testing.T) {
	for _, size := range []int{2 << 10, 100 << 10} {
		for _, method := range []string{"GET", "POST"} {
			caseVirtual(t, fmt.Sprint(method, " ", size), func(t *testing.T) {
				s := casePipe(t, caseSend(503, strings.Repeat("e", size)), caseSend(200, "ok"))
				s.base.MaxConnsPerHost = 1
				tr := caseNew(t, caseWaiting(s.base, time.Second))
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				time.AfterFunc(500*time.Millisecond, func() {
					other := caseDo(t, tr, caseRequest(t, "GET", s.URL+"/other", ""))
					assert.Equal(t, 200, other.Status)
					assert.Zero(t, other.Elapsed, "gets through while the first call waits")
				})
				r := caseOK(t, tr, caseRequest(t, method, s.URL+"/first", "b").WithContext(ctx))
				assert.Equal(t, time.Second, r.Elapsed)
				assert.Equal(t, 2, s.countAt("/first"))
				assert.Equal(t, 1, s.countAt("/other"))
			})
		}
	}
}

// caseIdle is a Base that counts CloseIdleConnections.
type caseIdle struct {
	caseFunc
	calls int
}

func (i *caseIdle) CloseIdleConnections() { i.calls++ }

func TestC40_CloseIdleConnectionsReachesTheBase(t *testing.T) {
	spy := &caseIdle{}
	tr := caseNew(t, caseConfig(spy))
	(&http.Client{Transport: tr}).CloseIdleConnections()
	assert.Equal(t, 1, spy.calls)
	(&http.Client{Transport: caseNew(t, caseConfig(tr))}).CloseIdleConnections()
	assert.Equal(t, 2, spy.calls, "through two layers")
	for name, base := range map[string]http.RoundTripper{"without the method": caseScript(caseReply(200)), "nil": nil} {
		assert.NotPanics(t, caseClient(t, caseConfig(base)).CloseIdleConnections, name)
	}
}

// caseConns tells of every connection of a server that closed.
func caseConns(t *testing.T) (url string, closed <-chan struct{}) {
	ch := make(chan struct{}, 1024)
	srv := httptest.NewUnstartedServer(caseSend(200, "ok"))
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			ch <- struct{}{}
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL, ch
}

func TestC40_IdleSocketsAreClosed(t *testing.T) {
	bases := map[string]func(*outbound.Config){
		"default":        func(*outbound.Config) {},
		"given":          func(c *outbound.Config) { c.Base = &http.Transport{} },
		"given, cloned":  func(c *outbound.Config) { c.Base, c.ConnectTimeout = &http.Transport{}, time.Second },
		"a given client": func(c *outbound.Config) { c.Base = caseNew(t, caseConfig(nil)) },
	}
	for name, set := range bases {
		t.Run(name, func(t *testing.T) {
			url, closed := caseConns(t)
			cfg := caseConfig(nil)
			set(&cfg)
			client := caseClient(t, cfg)
			caseOK(t, caseDoer(client), caseRequest(t, "GET", url, ""))
			client.CloseIdleConnections()
			<-closed
		})
	}
}

func TestC41_OneClientOnePool(t *testing.T) {
	for wire, serve := range caseWires {
		t.Run(wire, func(t *testing.T) {
			s := serve(t, caseSend(200, "ok"))
			tr := caseNew(t, caseConfig(s.base))
			for range 300 {
				caseOK(t, tr, caseRequest(t, "POST", s.URL, "b"))
			}
			// net/http gives up a connection whose write it has not seen end 50 ms after the reply, as on a busy machine.
			assert.LessOrEqual(t, s.conns.Load(), int32(2))
		})
	}
}

// A bubble does not end while one of its goroutines lives, so no client may leave any behind.
func TestC41_ManyClientsLeaveNothingBehind(t *testing.T) {
	rows := map[string]struct {
		connect time.Duration // makes New clone the Base, so that each client has a pool
		dials   int32
	}{
		"a shared Base is one pool": {dials: 1},
		"a clone each":              {connect: time.Second, dials: 300},
	}
	for name, row := range rows {
		caseVirtual(t, name, func(t *testing.T) {
			s := casePipe(t, caseSend(200, "ok"))
			for range 300 {
				cfg := caseConfig(s.base)
				cfg.ConnectTimeout = row.connect
				tr, err := outbound.New(cfg)
				require.NoError(t, err)
				caseOK(t, tr, caseRequest(t, "GET", s.URL, ""))
				if row.connect > 0 {
					tr.CloseIdleConnections()
				}
			}
			assert.Equal(t, row.dials, s.dials.Load())
		})
	}
}

func TestC41_ManyDefaultClientsCloseTheirSockets(t *testing.T) {
	const clients = 50
	url, closed := caseConns(t)
	for range clients {
		client, err := outbound.NewClient(outbound.Config{})
		require.NoError(t, err)
		caseOK(t, caseDoer(client), caseRequest(t, "GET", url, ""))
		client.CloseIdleConnections()
	}
	for range clients {
		<-closed
	}
}

func TestC42_CancelledWaitsLeaveNothingBehind(t *testing.T) {
	const calls = 2000
	steps := map[string]caseStep{"503": caseReply(503), "reset": caseErr(io.ErrUnexpectedEOF)}
	for name, step := range steps {
		caseVirtual(t, name, func(t *testing.T) {
			cfg := caseWaiting(caseFunc(step), time.Hour)
			cfg.TotalTimeout = -1
			tr := caseNew(t, cfg)
			start := time.Now()
			grown := -caseHeap()
			var wg sync.WaitGroup
			for range calls {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Hour)
					defer cancel()
					time.AfterFunc(10*time.Millisecond, cancel)
					_, err := tr.RoundTrip(caseRequest(t, "POST", caseURL, "b").WithContext(ctx))
					assert.ErrorIs(t, err, context.Canceled)
				})
			}
			wg.Wait()
			grown += caseHeap()
			assert.Equal(t, 10*time.Millisecond, time.Since(start))
			assert.Less(t, grown, int64(5<<20))
		})
	}
}

// caseFields are the exported fields of a struct.
func caseFields(v any) map[string]string {
	fields := map[string]string{}
	s := reflect.ValueOf(v).Elem()
	for i := range s.NumField() {
		if f := s.Type().Field(i); f.IsExported() {
			fields[f.Name] = fmt.Sprintf("%#v", s.Field(i).Interface())
		}
	}
	return fields
}

func TestC43_NothingOfTheProgramsIsChanged(t *testing.T) {
	given := &http.Transport{MaxIdleConns: 3, TLSHandshakeTimeout: time.Minute, Proxy: http.ProxyFromEnvironment}
	given.Clone() // sets what the first use of any Transport sets
	shared := http.DefaultTransport.(*http.Transport)
	bases := map[string]http.RoundTripper{"nil": nil, "given": given, "the program's": shared}
	shared.Clone()
	for name, base := range bases {
		for _, connect := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprint(name, " ", connect), func(t *testing.T) {
				before := []map[string]string{caseFields(shared), caseFields(http.DefaultClient), caseFields(given)}
				client, err := outbound.NewClient(outbound.Config{
					Base: base, ConnectTimeout: connect, AttemptTimeout: 2 * time.Second, TotalTimeout: 3 * time.Second,
					Retry: outbound.RetryPolicy{MaxAttempts: 2},
				})
				require.NoError(t, err)
				assert.Equal(t, before, []map[string]string{caseFields(shared), caseFields(http.DefaultClient), caseFields(given)})
				assert.Same(t, shared, http.DefaultTransport)
				assert.NotSame(t, http.DefaultClient, client)
				assert.Zero(t, client.Timeout)
				assert.Nil(t, client.Jar)
				assert.Nil(t, client.CheckRedirect)
			})
		}
	}
}

func TestC43_ClientsOwnSettingsStayInForce(t *testing.T) {
	s := caseServe(t, caseSend(302, "", "Location", "/b", "Set-Cookie", "a=b"), caseSend(200, "ok"))
	client := caseClient(t, caseConfig(s.base))
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	r := caseDo(t, caseDoer(client), caseRequest(t, "GET", s.URL, ""))
	assert.Equal(t, 302, r.Status)
	assert.Equal(t, 1, s.count())
}
