package wire

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
)

// fetch makes one RoundTrip, and reads the reply.
func (r *rig) fetch(t *testing.T, base string, req *http.Request) (resp *http.Response, body string, report outbound.Report) {
	t.Helper()
	resp, err := r.over(t, base, fast(4, outbound.Provider{})).RoundTrip(req)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	report, ok := outbound.ReportOf(resp, nil)
	require.True(t, ok)
	r.rest(t)
	return resp, string(b), report
}

// refuseAtHead answers before the body, and keeps whatever the client sends after that. With "Connection: close" in the
// answer net/http must not send the body, without it has to, or the connection's next request would be read as the body.
func refuseAtHead(closing bool) http1Step {
	return func(x *exchange) bool {
		if !closing {
			return x.write("HTTP/1.1 503 Later\r\nContent-Length: 0\r\n\r\n") && x.readBody()
		}
		x.write("HTTP/1.1 503 Later\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		rest, _ := io.ReadAll(x.r)
		x.server.update(x.seen, func(s *seen) { s.body = string(rest) })
		return false
	}
}

func continueAndAnswer(x *exchange) bool {
	x.write("HTTP/1.1 100 Continue\r\n\r\n")
	return answer(200, "ok")(x)
}

func TestExpectContinueRefusedThenAnswered(t *testing.T) {
	for closing, first := range map[bool]string{true: "", false: payment} {
		for _, base := range bases {
			t.Run(fmt.Sprintf("closing %v/%s", closing, base), func(t *testing.T) {
				r := newRig(t, http1)
				r.base.ExpectContinueTimeout = soon
				path := r.path()
				r.one.script(path, refuseAtHead(closing), continueAndAnswer)
				req := newRequest(t, http.MethodPost, r.url()+path, replayable)
				req.Header.Set("Expect", "100-continue")
				resp, body, report := r.fetch(t, base, req)
				assert.Equal(t, 200, resp.StatusCode)
				assert.Equal(t, "ok", body)
				wire := r.on(path)
				require.Len(t, wire, 2)
				require.Len(t, report.Attempts, 2)
				assert.Equal(t, first, wire[0].body)
				assert.Equal(t, payment, wire[1].body)
				for _, s := range wire {
					assert.Equal(t, "100-continue", s.value("Expect"))
					assert.Equal(t, report.IdempotencyKey, s.value("Idempotency-Key"))
				}
			})
		}
	}
}

func TestExpectContinueNeverAnswered(t *testing.T) {
	for _, base := range bases {
		t.Run(base, func(t *testing.T) {
			r := newRig(t, http1)
			r.base.ExpectContinueTimeout = 5 * time.Millisecond
			path := r.path()
			req := newRequest(t, http.MethodPost, r.url()+path, replayable)
			req.Header.Set("Expect", "100-continue")
			resp, _, report := r.fetch(t, base, req)
			assert.Equal(t, 200, resp.StatusCode)
			assert.Len(t, report.Attempts, 1)
			wire := r.on(path)
			require.Len(t, wire, 1)
			assert.Equal(t, payment, wire[0].body)
		})
	}
}

// A trailer of the request, whose body is sent in chunks, with each attempt.
func TestRequestTrailers(t *testing.T) {
	for _, p := range []protocol{http1, http2TLS, http2H2C} {
		for _, base := range bases {
			t.Run(caseName(string(p), base), func(t *testing.T) {
				r := newRig(t, p)
				path := r.path()
				r.answerTwice(path)
				req := newRequest(t, http.MethodPost, r.url()+path, replayable)
				req.ContentLength = -1
				req.Trailer = http.Header{"X-Sum": {"abc"}}
				_, _, report := r.fetch(t, base, req)
				wire := r.on(path)
				require.Len(t, wire, 2)
				require.Len(t, report.Attempts, 2)
				for _, s := range wire {
					assert.Equal(t, payment, s.body)
					require.Len(t, s.trailers, 1)
					assert.True(t, strings.EqualFold("X-Sum", s.trailers[0].name))
					assert.Equal(t, "abc", s.trailers[0].value)
				}
			})
		}
	}
}

// answerTwice answers 503 and then 200.
func (r *rig) answerTwice(path string) {
	if r.one != nil {
		r.one.script(path, answer(503, "later"), answer(200, "ok"))
	} else {
		r.two.script(path, answer2(503, "later"), answer2(200, "ok"))
	}
}

const chunkedReply = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n" +
	"2\r\nok\r\n0\r\nX-Sum: abc\r\n\r\n"

func trailed(s *stream) bool {
	return s.headers(false, ":status", "200", "content-type", "text/plain", "trailer", "X-Sum") &&
		s.data(false, "ok") && s.headers(true, "x-sum", "abc")
}

// A trailer of the reply, whether it is read inside the attempt (POST) or by the caller (GET).
func TestReplyTrailers(t *testing.T) {
	for _, p := range []protocol{http1, http2TLS, http2H2C} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			t.Run(caseName(string(p), method), func(t *testing.T) {
				r := newRig(t, p)
				path := r.path()
				if r.one != nil {
					r.one.script(path, func(x *exchange) bool { return x.readBody() && x.write(chunkedReply) })
				} else {
					r.two.script(path, http2Step{act: trailed})
				}
				resp, body, _ := r.fetch(t, direct, newRequest(t, method, r.url()+path, none))
				assert.Equal(t, "ok", body)
				assert.Equal(t, http.Header{"X-Sum": {"abc"}}, resp.Trailer)
			})
		}
	}
}

// gzipped is a reply that nobody asked the caller about: net/http asks for it and unpacks it.
func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func TestGzip(t *testing.T) {
	packed := gzipped(payment)
	for _, p := range []protocol{http1, http2TLS, http2H2C} {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			t.Run(caseName(string(p), method), func(t *testing.T) {
				r := newRig(t, p)
				path := r.path()
				r.answerPacked(path, packed)
				resp, body, _ := r.fetch(t, direct, newRequest(t, method, r.url()+path, none))
				assert.Equal(t, payment, body)
				assert.True(t, resp.Uncompressed)
				assert.Empty(t, resp.Header.Get("Content-Encoding"))
				assert.EqualValues(t, -1, resp.ContentLength)
				wire := r.on(path)
				require.Len(t, wire, 1)
				assert.Equal(t, "gzip", wire[0].value("Accept-Encoding"))
			})
		}
	}
}

func (r *rig) answerPacked(path, packed string) {
	if r.one != nil {
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", len(packed))
		r.one.script(path, func(x *exchange) bool { return x.readBody() && x.write(head+packed) })
		return
	}
	r.two.script(path, http2Step{act: func(s *stream) bool {
		return s.headers(false, ":status", "200", "content-type", "application/json", "content-encoding", "gzip",
			"content-length", strconv.Itoa(len(packed))) && s.data(true, packed)
	}})
}

// A packed reply that the caller asked for stays packed.
func TestGzipAskedForByTheCaller(t *testing.T) {
	r := newRig(t, http1)
	path := r.path()
	packed := gzipped(payment)
	r.answerPacked(path, packed)
	req := newRequest(t, http.MethodPost, r.url()+path, none)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, body, _ := r.fetch(t, direct, req)
	assert.Equal(t, packed, body)
	assert.EqualValues(t, len(packed), resp.ContentLength)
}

func TestHeadHasALengthAndNoBody(t *testing.T) {
	for _, p := range []protocol{http1, http2TLS, http2H2C} {
		for _, base := range bases {
			t.Run(caseName(string(p), base), func(t *testing.T) {
				r := newRig(t, p)
				path := r.path()
				if r.one != nil {
					r.one.script(path, func(x *exchange) bool {
						return x.readBody() && x.write("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n")
					})
				} else {
					r.two.script(path, http2Step{act: func(s *stream) bool {
						return s.headers(true, ":status", "200", "content-length", "1234")
					}})
				}
				resp, body, report := r.fetch(t, base, newRequest(t, http.MethodHead, r.url()+path, none))
				assert.EqualValues(t, 1234, resp.ContentLength)
				assert.Empty(t, body)
				assert.Equal(t, outbound.OutcomeSucceeded, report.Outcome)
				wire := r.on(path)
				require.Len(t, wire, 1)
				assert.Empty(t, wire[0].named("Idempotency-Key"))
			})
		}
	}
}
