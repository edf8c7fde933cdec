// Package reverseproxy_test puts httputil.ReverseProxy above outbound.
package reverseproxy_test

import (
	"bufio"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/interop/internal/mock"
)

// rig is a client, a proxy over outbound, and the server behind it.
type rig struct {
	front  *mock.Server // the proxy
	back   *mock.Server
	ours   *mock.Client
	client *http.Client
	failed chan error // what the proxy's ErrorHandler was given
}

func newRig(t *testing.T, on mock.Listen, next http.Handler, faults ...mock.Fault) rig {
	t.Helper()
	back := on(t, next, faults...)
	ours := mock.NewClient(t, mock.Quick(back.Base, outbound.Provider{}))
	target, err := url.Parse(back.URL)
	require.NoError(t, err)
	failed := make(chan error, 1)
	front := on(t, &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: ours.Transport,
		ErrorLog:  log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			failed <- err
			w.WriteHeader(http.StatusBadGateway)
		},
	})
	return rig{front: front, back: back, ours: ours, client: &http.Client{Transport: front.Base}, failed: failed}
}

func (r rig) send(t *testing.T, ctx context.Context, method string, body io.Reader, headers ...string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.front.URL+"/pay", body)
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return r.client.Do(req)
}

func (r rig) get(t *testing.T) (status int, body string) {
	t.Helper()
	resp, err := r.send(t, t.Context(), http.MethodGet, nil)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

// What a client sends the proxy without a body is retried behind it.
func TestRetries(t *testing.T) {
	r := newRig(t, mock.Loopback, mock.Always(200, `{}`), mock.LoseReply, mock.Answer(503, `{}`))
	status, body := r.get(t)
	assert.Equal(t, 200, status)
	assert.Equal(t, `{}`, body)
	assert.Len(t, r.back.Requests(), 3)
	assert.Equal(t, outbound.OutcomeSucceeded, r.ours.Report(t).Outcome)
}

// A body that the proxy passes on can't be sent again. A key of its client's goes along; else one is made.
func TestWriteIsSentOnce(t *testing.T) {
	for name, headers := range map[string][]string{"the client's key": {"Idempotency-Key", "order-7"}, "no key": nil} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, mock.Loopback, mock.Always(201, `{}`), mock.Answer(503, `later`))
			resp, err := r.send(t, t.Context(), http.MethodPost, strings.NewReader(`{"a":1}`), headers...)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, 503, resp.StatusCode)
			assert.Equal(t, "later", string(body))
			requests, report := r.back.Requests(), r.ours.Report(t)
			require.Len(t, requests, 1)
			assert.Equal(t, `{"a":1}`, requests[0].Body)
			require.NotEmpty(t, requests[0].Key())
			assert.Equal(t, report.IdempotencyKey, requests[0].Key())
			if headers != nil {
				assert.Equal(t, "order-7", requests[0].Key())
			}
			assert.ErrorIs(t, report.Stopped, outbound.ErrBodyNotReplayable)
			assert.Equal(t, outbound.OutcomeUnknown, report.Outcome)
		})
	}
}

// Our error reaches the proxy's ErrorHandler.
func TestErrorHandler(t *testing.T) {
	r := newRig(t, mock.Loopback, mock.Always(201, `{}`), mock.LoseReply)
	resp, err := r.send(t, t.Context(), http.MethodPost, strings.NewReader(`{}`))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
	report, ok := outbound.ReportOf(nil, <-r.failed)
	require.True(t, ok)
	assert.Equal(t, outbound.OutcomeUnknown, report.Outcome)
}

// Events go through as they come, past every timeout but the idle one.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events, pause = 10, 50 * time.Second
		r := newRig(t, mock.InMemory, mock.Drip("text/event-stream", "data: x\n", events, pause))
		resp, err := r.send(t, t.Context(), http.MethodGet, nil)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		start, lines := time.Now(), bufio.NewScanner(resp.Body)
		for i := range events {
			require.True(t, lines.Scan())
			assert.Equal(t, time.Duration(i)*pause, time.Since(start))
		}
		assert.False(t, lines.Scan())
		assert.NoError(t, lines.Err())
	})
}

// A stream that falls silent is cut by the idle timeout, and never looks whole to the proxy's client.
func TestSilentStreamIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mock.InMemory, mock.Drip("text/event-stream", "data: x\n", 2, time.Hour))
		resp, err := r.send(t, t.Context(), http.MethodGet, nil)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		start := time.Now()
		body, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Equal(t, "data: x\n", string(body))
		assert.Equal(t, 60*time.Second, time.Since(start))
	})
}

// A client that goes away ends the attempt behind the proxy, and nothing is tried again.
func TestCancelledClient(t *testing.T) {
	gone := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	r := newRig(t, mock.Loopback, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		cancel()
		<-req.Context().Done()
		close(gone)
	}))
	_, err := r.send(t, ctx, http.MethodGet, nil)
	require.ErrorIs(t, err, context.Canceled)
	<-gone
	err = <-r.failed
	require.ErrorIs(t, err, context.Canceled)
	report, ok := outbound.ReportOf(nil, err)
	require.True(t, ok)
	assert.Len(t, report.Attempts, 1)
	assert.Len(t, r.back.Requests(), 1)
}

// Informational answers go through: ours is not the only trace in the request's context.
func TestInformational(t *testing.T) {
	r := newRig(t, mock.Loopback, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.WriteString(w, "ok")
	}))
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			assert.Equal(t, http.StatusEarlyHints, code)
			hints = append(hints, header.Get("Link"))
			return nil
		},
	})
	resp, err := r.send(t, ctx, http.MethodGet, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, []string{"</style.css>"}, hints)
	assert.Equal(t, 200, resp.StatusCode)
}

// A connection that changes its protocol goes both ways, for as long as both sides like.
func TestUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, mock.InMemory, http.HandlerFunc(echo))
		resp, err := r.send(t, t.Context(), http.MethodGet, nil, "Connection", "Upgrade", "Upgrade", "echo")
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		conn, ok := resp.Body.(io.ReadWriteCloser)
		require.True(t, ok)
		for _, word := range []string{"one", "two", "six"} {
			time.Sleep(time.Hour)
			_, err := io.WriteString(conn, word)
			require.NoError(t, err)
			back := make([]byte, len(word))
			_, err = io.ReadFull(conn, back)
			require.NoError(t, err)
			assert.Equal(t, word, string(back))
		}
		require.NoError(t, conn.Close())
	})
}

// echo sends back what it is sent, once the protocol is changed.
func echo(w http.ResponseWriter, _ *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	_, _ = io.Copy(conn, rw)
}

// Trailers go through.
func TestTrailers(t *testing.T) {
	r := newRig(t, mock.Loopback, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "ok")
		w.Header().Set("X-Sum", "42")
	}))
	resp, err := r.send(t, t.Context(), http.MethodGet, nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, "42", resp.Trailer.Get("X-Sum"))
}
