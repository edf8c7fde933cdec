package outbound_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/outbound-go/outbound"
)

// hostileWant is what has to come of one call. An empty err or read means none.
type hostileWant struct {
	hits    int
	status  int
	outcome outbound.Outcome
	err     string // in RoundTrip's error
	read    string // in the error of reading the body
	body    string // its beginning
}

type hostileRow struct {
	name   string
	act    hostileAct
	post   hostileWant // to a keyed POST
	get    hostileWant
	unread bool // the caller closes the reply without reading it
	once   bool // one attempt only: each takes its time
}

// Every call makes at most two attempts.

// hostileLost is a call that was answered by nothing that is an answer.
func hostileLost(err string) hostileWant {
	return hostileWant{hits: 2, err: err}
}

func hostileOK(body string) hostileWant {
	return hostileWant{hits: 1, status: 200, outcome: outbound.OutcomeSucceeded, body: body}
}

func hostileBroken(hits int, read, body string) hostileWant {
	return hostileWant{hits: hits, status: 200, read: read, body: body}
}

func hostileStatus(hits, status int, outcome outbound.Outcome, body string) hostileWant {
	return hostileWant{hits: hits, status: status, outcome: outcome, body: body}
}

func hostileBoth(name string, act hostileAct, want hostileWant) hostileRow {
	return hostileRow{name: name, act: act, post: want, get: want}
}

const (
	hostileUnknown   = outbound.OutcomeUnknown
	hostileRejected  = outbound.OutcomeRejected
	hostileSucceeded = outbound.OutcomeSucceeded

	hostileAny   = "*" // any text but none
	hostileZeros = "\x00\x00\x00\x00"

	hostileHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	hostileFull = hostileHead + "Content-Length: 2\r\n\r\n{}"
	hostileTE   = hostileHead + "Transfer-Encoding: chunked\r\n\r\n"
	hostile503  = "HTTP/1.1 503 X\r\nContent-Type: text/plain\r\n"
	hostile400  = "HTTP/1.1 400 X\r\nContent-Type: text/plain\r\n"
	hostileZip  = "Content-Encoding: gzip\r\n\r\n"
)

func hostileOnce(name string, act hostileAct) hostileRow {
	want := hostileWant{hits: 1, err: "headers exceeded"}
	return hostileRow{name: name, act: act, post: want, get: want, once: true}
}

// hostileLong fills a line that is near net/http's longest for a chunk.
var hostileLong = strings.Repeat(hostileMark, 400)

var hostileServers = []hostileRow{
	// Heads without an end.
	hostileOnce("endless status line", hostileEndless("HTTP/1.1 200 ", hostileMark)),
	hostileOnce("endless header line", hostileEndless("HTTP/1.1 200 OK\r\nX: ", hostileMark)),
	hostileOnce("endless headers", hostileEndless("HTTP/1.1 200 OK\r\n", "X-S3cr3t: "+hostileLong+"\r\n")),
	{name: "header bomb", act: hostileNames, post: hostileWant{hits: 1, err: "headers exceeded"}, once: true}, // by a GET it is the same
	hostileOnce("flood of 103", hostileEndless("", "HTTP/1.1 103 Early Hints\r\nLink: "+hostileLong+"\r\n\r\n")),
	hostileOnce("flood of 100", hostileEndless("", "HTTP/1.1 100 Continue\r\nX: "+hostileLong+"\r\n\r\n")),

	// Bodies without an end.
	hostileBoth("endless 503", hostileEndless(hostile503+"\r\n", hostileMark), hostileStatus(2, 503, hostileUnknown, hostileMark)),
	hostileBoth("endless 503 in chunks", hostileEndless(hostile503+"Transfer-Encoding: chunked\r\n\r\n", hostileChunk(hostileLong)), hostileStatus(2, 503, hostileUnknown, hostileMark)),
	hostileBoth("endless 400", hostileEndless(hostile400+"\r\n", hostileMark), hostileStatus(1, 400, hostileRejected, hostileMark)),
	hostileBoth("endless 200", hostileEndless(hostileHead+"\r\n", hostileMark), hostileOK(hostileMark)),
	hostileBoth("503 of an exabyte", hostileEndless(hostile503+"Content-Length: 1152921504606846976\r\n\r\n", hostileMark), hostileStatus(2, 503, hostileUnknown, hostileMark)),
	hostileBoth("gzip bomb in a 503", hostileEndless(hostile503+hostileZip, hostileGzip(1<<20)), hostileStatus(2, 503, hostileUnknown, hostileZeros)),
	hostileBoth("gzip bomb in a 400", hostileEndless(hostile400+hostileZip, hostileGzip(1<<20)), hostileStatus(1, 400, hostileRejected, hostileZeros)),
	hostileBoth("gzip bomb in a 200", hostileEndless(hostileHead+hostileZip, hostileGzip(1<<20)), hostileOK(hostileZeros)),
	{name: "gzip of nothing, endless, in a 503", act: hostileEndless(hostile503+hostileZip, hostileGzip(0)), post: hostileStatus(2, 503, hostileUnknown, ""), get: hostileStatus(2, 503, hostileUnknown, ""), unread: true},
	{name: "gzip that is none", act: hostileBytes(hostileHead + "Content-Length: 12\r\n" + hostileZip + hostileMark + hostileMark), post: hostileBroken(2, "gzip: invalid header", ""), get: hostileBroken(1, "gzip: invalid header", "")},

	// Status lines.
	hostileBoth("HTTP/0.9", hostileCut("<html>s3cr3t</html>"), hostileLost("malformed HTTP response")),
	hostileBoth("no byte", hostileCut(""), hostileLost("EOF")),
	hostileBoth("empty lines", hostileCut("\r\n\r\n"), hostileLost("malformed HTTP response")),
	hostileBoth("half a status line", hostileCut("HTTP/1.1 20"), hostileLost("malformed HTTP status code")),
	hostileBoth("status of two digits", hostileBytes("HTTP/1.1 20 s3cr3t\r\n\r\n"), hostileLost("malformed HTTP status code")),
	hostileBoth("status of four digits", hostileBytes("HTTP/1.1 2000 s3cr3t\r\n\r\n"), hostileLost("malformed HTTP status code")),
	hostileBoth("status of words", hostileBytes("HTTP/1.1 OK s3cr3t\r\n\r\n"), hostileLost("malformed HTTP status code")),
	hostileBoth("negative status", hostileBytes("HTTP/1.1 -20 s3cr3t\r\n\r\n"), hostileLost("malformed HTTP status code")),
	hostileBoth("signed status", hostileCut("HTTP/1.1 +20 s3cr3t\r\n\r\n"), hostileStatus(1, 20, hostileUnknown, "")),
	hostileBoth("status 000", hostileCut("HTTP/1.1 000 s3cr3t\r\n\r\n"), hostileStatus(1, 0, hostileUnknown, "")),
	hostileBoth("status 099", hostileCut("HTTP/1.1 099 s3cr3t\r\n\r\n"), hostileStatus(1, 99, hostileUnknown, "")),
	hostileBoth("status 999", hostileCut("HTTP/1.1 999 s3cr3t\r\n\r\n"), hostileStatus(2, 999, hostileUnknown, "")),
	hostileBoth("version of words", hostileBytes("HTTP/s3cr3t 200 OK\r\n\r\n"), hostileLost("malformed HTTP version")),
	hostileBoth("version of another protocol", hostileBytes("s3cr3t/1.1 200 OK\r\n\r\n"), hostileLost("malformed HTTP version")),
	hostileBoth("HTTP/2 to an HTTP/1 client", hostileBytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), hostileLost("malformed HTTP status code")),
	hostileBoth("TLS alert", hostileCut("\x15\x03\x01\x00\x02\x02\x46"), hostileLost("malformed HTTP response")),

	// Headers.
	hostileBoth("NUL in a value", hostileBytes(hostileHead+"X: a\x00s3cr3t\r\nContent-Length: 2\r\n\r\n{}"), hostileLost("malformed MIME header")),
	hostileBoth("NUL in a name", hostileBytes(hostileHead+"X\x00s3cr3t: a\r\nContent-Length: 2\r\n\r\n{}"), hostileLost("malformed MIME header")),
	hostileBoth("blank in a name", hostileBytes(hostileHead+"X s3cr3t: a\r\nContent-Length: 2\r\n\r\n{}"), hostileOK(`{}`)),
	hostileBoth("no colon", hostileBytes(hostileHead+"s3cr3t\r\nContent-Length: 2\r\n\r\n{}"), hostileLost("malformed MIME header")),
	hostileBoth("first line continues nothing", hostileBytes("HTTP/1.1 200 OK\r\n s3cr3t\r\n\r\n"), hostileLost("malformed MIME header")),
	hostileBoth("bare carriage return", hostileBytes(hostileHead+"X: a\rs3cr3t: b\r\nContent-Length: 2\r\n\r\n{}"), hostileLost("malformed MIME header")),
	hostileBoth("head cut", hostileCut(hostileHead+"X: s3c"), hostileLost("unexpected EOF")),

	// Lengths.
	{name: "Content-Length too long", act: hostileCut(hostileHead + "Content-Length: 100\r\n\r\n{\"s3cr3t\":1}"), post: hostileBroken(2, "unexpected EOF", `{"s3cr3t":1}`), get: hostileBroken(1, "unexpected EOF", `{"s3cr3t":1}`)},
	hostileBoth("Content-Length too short", hostileBytes(hostileFull+"s3cr3t"), hostileOK(`{}`)),
	hostileBoth("Content-Length twice, alike", hostileBytes(hostileHead+"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"), hostileOK(`{}`)),
	hostileBoth("Content-Length twice, differing", hostileBytes(hostileHead+"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), hostileLost("multiple Content-Length headers")),
	hostileBoth("negative Content-Length", hostileBytes(hostileHead+"Content-Length: -2\r\n\r\n{}"), hostileLost("bad Content-Length")),
	hostileBoth("signed Content-Length", hostileBytes(hostileHead+"Content-Length: +2\r\n\r\n{}"), hostileLost("bad Content-Length")),
	hostileBoth("Content-Length of words", hostileBytes(hostileHead+"Content-Length: s3cr3t\r\n\r\n{}"), hostileLost("bad Content-Length")),
	hostileBoth("Content-Length above 63 bits", hostileBytes(hostileHead+"Content-Length: 9223372036854775808\r\n\r\n{}"), hostileLost("bad Content-Length")),
	hostileBoth("Content-Length of 63 bits, cut", hostileCut(hostileHead+"Content-Length: 9223372036854775807\r\n\r\n{}"), hostileBroken(1, "unexpected EOF", `{}`)),
	hostileBoth("Content-Length and chunks", hostileBytes(hostileHead+"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"), hostileOK(`{}`)),
	hostileBoth("unknown Transfer-Encoding", hostileBytes(hostileHead+"Transfer-Encoding: s3cr3t\r\n\r\n{}"), hostileLost("unsupported transfer encoding")),
	hostileBoth("Transfer-Encoding twice", hostileBytes(hostileHead+"Transfer-Encoding: chunked\r\nTransfer-Encoding: s3cr3t\r\n\r\n{}"), hostileLost("too many transfer encodings")),
	{name: "half a body, then reset", act: hostileReset(hostileHead + "Content-Length: 100\r\n\r\n{\"s3cr3t\":1}"), post: hostileBroken(2, "connection reset by peer", `{"s3cr3t":1}`), get: hostileBroken(1, "connection reset by peer", `{"s3cr3t":1}`)},

	// Chunks and trailers.
	hostileBoth("chunk extension", hostileBytes(hostileTE+"2;x=s3cr3t\r\n{}\r\n0;s3cr3t\r\n\r\n"), hostileOK(`{}`)),
	{name: "endless chunk extension", act: hostileEndless(hostileTE+"2;x=", hostileMark), post: hostileBroken(2, "header line too long", ""), get: hostileBroken(1, "header line too long", "")},
	{name: "chunks that are all extension", act: hostileEndless(hostileTE, "1;x="+hostileLong+"\r\n \r\n"), post: hostileBroken(2, "too much non-data", "      "), get: hostileBroken(1, "too much non-data", "      ")},
	{name: "chunk size of words", act: hostileBytes(hostileTE + "2\r\n{}\r\ns3cr3t\r\n"), post: hostileBroken(2, "invalid byte in chunk length", `{}`), get: hostileBroken(1, "invalid byte in chunk length", `{}`)},
	{name: "negative chunk size", act: hostileBytes(hostileTE + "2\r\n{}\r\n-2\r\n{}\r\n"), post: hostileBroken(2, "invalid byte in chunk length", `{}`), get: hostileBroken(1, "invalid byte in chunk length", `{}`)},
	{name: "chunk size above 64 bits", act: hostileBytes(hostileTE + "2\r\n{}\r\n10000000000000000\r\n{}\r\n"), post: hostileBroken(2, "chunk length too large", `{}`), get: hostileBroken(1, "chunk length too large", `{}`)},
	{name: "chunk longer than it says", act: hostileBytes(hostileTE + "2\r\n{}s3cr3t\r\n0\r\n\r\n"), post: hostileBroken(2, "malformed chunked encoding", `{}`), get: hostileBroken(1, "malformed chunked encoding", `{}`)},
	{name: "last chunk missing", act: hostileCut(hostileTE + "2\r\n{}\r\n"), post: hostileBroken(2, "unexpected EOF", `{}`), get: hostileBroken(1, "unexpected EOF", `{}`)},
	{name: "premature trailer", act: hostileBytes(hostileTE + "2\r\n{}\r\nX-S3cr3t: s3cr3t\r\n\r\n0\r\n\r\n"), post: hostileBroken(2, "invalid byte in chunk length", `{}`), get: hostileBroken(1, "invalid byte in chunk length", `{}`)},
	{name: "trailer cut", act: hostileCut(hostileTE + "2\r\n{}\r\n0\r\nX: s3cr3t"), post: hostileBroken(2, "trailer", `{}`), get: hostileBroken(1, "trailer", `{}`)},
	{name: "trailer without colon", act: hostileBytes(hostileTE + "2\r\n{}\r\n0\r\ns3cr3t\r\n\r\n"), post: hostileBroken(2, hostileAny, `{}`), get: hostileBroken(1, hostileAny, `{}`)},
	{name: "endless trailers", act: hostileEndless(hostileTE+"2\r\n{}\r\n0\r\n", "X: s3cr3t\r\n"), post: hostileBroken(2, "trailer", `{}`), get: hostileBroken(1, "trailer", `{}`)},
	hostileBoth("Content-Length as a trailer", hostileBytes(hostileHead+"Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n2\r\n{}\r\n0\r\nContent-Length: 7\r\n\r\n"), hostileLost("bad trailer key")),

	// What no request of these asks for.
	hostileBoth("101 with an upgrade", hostileCut("HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: s3cr3t\r\n\r\ns3cr3t"), hostileStatus(1, 101, hostileUnknown, hostileMark)),
	hostileBoth("101 without one", hostileBytes("HTTP/1.1 101 X\r\n\r\ns3cr3t"), hostileStatus(1, 101, hostileUnknown, "")),
	hostileBoth("204 with a body", hostileBytes("HTTP/1.1 204 X\r\nContent-Length: 6\r\n\r\ns3cr3t"), hostileStatus(1, 204, hostileSucceeded, "")),
	{name: "304 with a body", act: hostileBytes("HTTP/1.1 304 X\r\nContent-Length: 6\r\n\r\ns3cr3t"), post: hostileStatus(1, 304, hostileUnknown, ""), get: hostileStatus(1, 304, hostileRejected, "")},

	// Redirects.
	hostileBoth("307 to itself", hostileBytes("HTTP/1.1 307 X\r\nLocation: ?s3cr3t\r\nContent-Length: 0\r\n\r\n"), hostileWant{hits: 10, status: 0, outcome: hostileRejected, err: "stopped after 10 redirects"}),
	{name: "302 to itself", act: hostileBytes("HTTP/1.1 302 X\r\nLocation: ?s3cr3t\r\nContent-Length: 0\r\n\r\n"), post: hostileWant{hits: 10, outcome: hostileUnknown, err: "stopped after 10 redirects"}, get: hostileWant{hits: 10, outcome: hostileRejected, err: "stopped after 10 redirects"}},
	hostileBoth("307 to nowhere", hostileBytes("HTTP/1.1 307 X\r\nContent-Length: 0\r\n\r\n"), hostileWant{hits: 1, status: 307, outcome: hostileRejected, err: ""}),
	hostileBoth("307 to a file", hostileBytes("HTTP/1.1 307 X\r\nLocation: file:///x?s3cr3t\r\nContent-Length: 0\r\n\r\n"), hostileWant{hits: 1, status: 0, outcome: hostileRejected, err: "only http and https"}),
	hostileBoth("307 to a scheme of its own", hostileBytes("HTTP/1.1 307 X\r\nLocation: gopher://x/?s3cr3t\r\nContent-Length: 0\r\n\r\n"), hostileWant{hits: 1, status: 0, outcome: hostileRejected, err: "only http and https"}),
	hostileBoth("307 to what is no URL", hostileBytes("HTTP/1.1 307 X\r\nLocation: http://[s3cr3t\r\nContent-Length: 0\r\n\r\n"), hostileWant{hits: 1, status: 0, outcome: hostileUnknown, err: "failed to parse Location header"}),
	hostileBoth("307 with an endless body", hostileEndless("HTTP/1.1 307 X\r\nLocation: ?s3cr3t\r\n\r\n", hostileMark), hostileWant{hits: 10, status: 0, outcome: hostileRejected, err: "stopped after 10 redirects"}),
}

func TestHostileServers(t *testing.T) {
	for _, row := range hostileServers {
		for method, want := range map[string]hostileWant{http.MethodPost: row.post, http.MethodGet: row.get} {
			if want.hits == 0 {
				continue // no such row
			}
			t.Run(row.name+" "+method, func(t *testing.T) { hostileServed(t, row, method, want) })
		}
	}
}

func hostileServed(t *testing.T, row hostileRow, method string, want hostileWant) {
	before := hostileBegin(t)
	s := hostileServe(t, row.act)
	client := hostileClient(t, nil)
	got := hostileCall(t, client, s, row, hostileRequest(t, s, method, hostileMark))
	got.check(t, want)
	assert.Less(t, s.grown(), int64(hostileLimit), "of heap")
	assert.False(t, s.overrun.Load(), "the client took all that was sent")
	hostileEnd(t, client, s, before)
}

// check compares, where err and read are parts of a text, and body is the beginning of one that was not read to its end.
func (got hostileWant) check(t *testing.T, want hostileWant) {
	t.Helper()
	assert.Equal(t, want.hits, got.hits, "requests on the wire")
	assert.Equal(t, want.status, got.status, "status")
	assert.Equal(t, want.outcome, got.outcome, "outcome")
	hostilePart(t, want.err, got.err, "error")
	hostilePart(t, want.read, got.read, "error of the body")
	assert.NotContains(t, strings.ToLower(got.read), hostileMark, "error of the body")
	if len(got.body) == hostileRead && want.body != "" {
		got.body = got.body[:len(want.body)]
	}
	assert.True(t, want.body == got.body, "a body of %d bytes that begins with %q", len(got.body), got.body[:min(len(got.body), 20)])
}

func hostilePart(t *testing.T, part, text, what string) {
	t.Helper()
	switch part {
	case "":
		assert.Empty(t, text, what)
	case hostileAny:
		assert.NotEmpty(t, text, what)
	default:
		assert.Contains(t, text, part, what)
	}
}

// TestHostileErrorsSayWhatWasWrong in words of their own, with nothing that the server sent.
func TestHostileErrorsSayWhatWasWrong(t *testing.T) {
	for name, row := range map[string]struct {
		act  hostileAct
		says string
	}{
		"HTTP/0.9":          {hostileCut("<html>s3cr3t</html>"), "malformed HTTP response"},
		"status":            {hostileBytes("HTTP/1.1 s3cr3t\r\n\r\n"), "malformed HTTP status code"},
		"header":            {hostileBytes(hostileHead + "s3cr3t\r\n\r\n"), "malformed MIME header"},
		"length":            {hostileBytes(hostileHead + "Content-Length: s3cr3t\r\n\r\n"), "bad Content-Length"},
		"transfer encoding": {hostileBytes(hostileHead + "Transfer-Encoding: s3cr3t\r\n\r\n"), "unsupported transfer encoding"},
		"too many headers":  {hostileEndless("HTTP/1.1 200 OK\r\nX: ", hostileMark), "headers exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			before := hostileBegin(t)
			s := hostileServe(t, row.act)
			client := hostileClient(t, nil)
			req := hostileRequest(t, s, http.MethodPost, "x")
			_, err := client.Do(req.WithContext(outbound.WithOverride(t.Context(), outbound.Override{MaxAttempts: 1})))
			require.ErrorContains(t, err, row.says)
			hostileEnd(t, client, s, before)
		})
	}
}

// TestHostileFloodThroughAWrappedBase: net/http bounds what a server says before its reply only where nobody listens to it.
func TestHostileFloodThroughAWrappedBase(t *testing.T) {
	for method, says := range map[string]string{http.MethodPost: "headers exceeded", http.MethodPut: "too many informational replies", http.MethodGet: "headers exceeded"} {
		t.Run(method, func(t *testing.T) {
			before := hostileBegin(t)
			s := hostileServe(t, hostileEndless("", "HTTP/1.1 103 X\r\nLink: "+strings.Repeat(hostileMark, 10_000)+"\r\n\r\n"))
			client := hostileClient(t, hostileWrapped{&http.Transport{}})
			got := hostileCall(t, client, s, hostileRow{once: true}, hostileRequest(t, s, method, "x"))
			got.check(t, hostileWant{hits: 1, err: says})
			assert.False(t, s.overrun.Load(), "the client took all that was sent")
			hostileEnd(t, client, s, before)
		})
	}
}

// hostileWrapped is a Base that passes its requests on.
type hostileWrapped struct{ *http.Transport }

func (w hostileWrapped) RoundTrip(r *http.Request) (*http.Response, error) {
	return w.Transport.RoundTrip(r)
}

// TestHostileSurplus: what a server says beyond its reply is not taken for the next reply.
func TestHostileSurplus(t *testing.T) {
	const surplus = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{\"s3cr3t\"}"
	for name, row := range map[string]struct{ method, reply string }{
		"after a length":                     {http.MethodPost, hostileFull},
		"after chunks":                       {http.MethodPost, hostileTE + "2\r\n{}\r\n0\r\n\r\n"},
		"after 204":                          {http.MethodPost, "HTTP/1.1 204 X\r\n\r\n"},
		"after 304":                          {http.MethodGet, "HTTP/1.1 304 X\r\n\r\n"},
		"the body of a HEAD":                 {http.MethodHead, hostileFull},
		"the body of a HEAD, in chunks":      {http.MethodHead, hostileTE + "2\r\n{}\r\n0\r\n\r\n"},
		"the body of a HEAD, without length": {http.MethodHead, hostileHead + "\r\n{}"},
	} {
		t.Run(name, func(t *testing.T) {
			hostileKept(t, row.method, func(c hostileConn) { c.say(row.reply + surplus) })
		})
	}
	t.Run("on an idle connection", func(t *testing.T) {
		hostileKept(t, http.MethodPost, func(c hostileConn) { c.say(hostileFull); <-c.s.idle; c.say(surplus) })
	})
}

// hostileKept makes a call that spoils its connection, and another one that must not use it.
func hostileKept(t *testing.T, method string, spoil func(hostileConn)) {
	before := hostileBegin(t)
	s := hostileServe(t, func(c hostileConn, n int) bool {
		if n > 1 {
			c.say("HTTP/1.1 402 X\r\nContent-Length: 2\r\n\r\nno")
			return true
		}
		spoil(c)
		_, _ = io.Copy(io.Discard, c) // until the client hangs up
		close(c.s.gone)
		return false
	})
	client := hostileClient(t, nil)
	first := hostileCall(t, client, s, hostileRow{}, hostileRequest(t, s, method, "x"))
	assert.Empty(t, first.err+first.read)
	assert.NotContains(t, first.body, hostileMark)
	close(s.idle)
	hostileWait(t, s.gone, "the client kept the connection")
	second := hostileCall(t, client, s, hostileRow{}, hostileRequest(t, s, http.MethodPost, "x"))
	second.check(t, hostileStatus(2, http.StatusPaymentRequired, hostileRejected, "no"))
	hostileEnd(t, client, s, before)
}

// TestHostileEarlyReply: an answer before the body was read is an answer all the same.
func TestHostileEarlyReply(t *testing.T) {
	for name, row := range map[string]struct {
		reply string
		want  hostileWant
	}{
		"200": {hostileFull, hostileOK("{}")},
		"413": {"HTTP/1.1 413 X\r\nContent-Length: 2\r\n\r\n{}", hostileStatus(1, 413, hostileRejected, "{}")},
		"503": {"HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\n{}", hostileStatus(2, 503, hostileUnknown, "{}")},
	} {
		t.Run(name, func(t *testing.T) {
			before := hostileBegin(t)
			s := hostileServe(t, func(c hostileConn, _ int) bool { c.say(row.reply); <-c.s.gone; return false })
			client := hostileClient(t, nil)
			req := hostileRequest(t, s, http.MethodPost, strings.Repeat("x", 8<<20))
			req.Header.Set("X-Unread", "1")
			got := hostileCall(t, client, s, hostileRow{}, req)
			got.check(t, row.want)
			close(s.gone)
			hostileEnd(t, client, s, before)
		})
	}
}

var errHostile = errors.New("s3cr3t")

// hostileClosed is what net/http says, now and then, of a connection that it closed itself because a body could not be written:
// its reader noticed first.
const hostileClosed = "use of closed network connection"

// TestHostileBodies over a real connection: what the caller gave cannot be sent.
func TestHostileBodies(t *testing.T) {
	for name, row := range map[string]struct {
		spoil    func(*http.Request)
		is       error  // in the chain; nil for none in particular
		says     string // by Base
		hits     int
		attempts int
		outcome  outbound.Outcome
	}{
		"Read fails at once": {
			func(r *http.Request) { r.Body, r.GetBody = hostileFailing(""), nil },
			errHostile, hostileMark, 1, 1, hostileUnknown,
		},
		"Read fails half-way": {
			func(r *http.Request) { r.Body, r.GetBody = hostileFailing("{"), nil },
			errHostile, hostileMark, 1, 1, hostileUnknown,
		},
		"Read fails at each attempt": {
			func(r *http.Request) {
				r.Body, r.GetBody = hostileFailing("{"), func() (io.ReadCloser, error) { return hostileFailing("{"), nil }
			},
			errHostile, hostileMark, 2, 2, hostileUnknown,
		},
		"body shorter than it says": {
			func(r *http.Request) { r.ContentLength = 99 },
			nil, "ContentLength=99 with Body length 2", 2, 2, hostileUnknown,
		},
		"length without a body": {
			func(r *http.Request) { r.Body, r.GetBody = nil, nil },
			nil, "nil Body", 0, 2, hostileUnknown,
		},
		"line break in the query": {
			func(r *http.Request) { r.URL.RawQuery = "a=s3cr3t\r\nX: y" },
			outbound.ErrNotRetryable, "", 0, 0, outbound.OutcomeNotSent,
		},
		"line break in an opaque URL": {
			func(r *http.Request) { r.URL.Opaque = "//x/s3cr3t\r\nX: y" },
			outbound.ErrNotRetryable, "", 0, 0, outbound.OutcomeNotSent,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := hostileBegin(t)
			s := hostileServe(t, hostileBytes(hostileFull))
			client := hostileClient(t, nil)
			req := hostileRequest(t, s, http.MethodPost, "{}")
			row.spoil(req)
			body := &hostileCounted{ReadCloser: req.Body}
			if req.Body != nil {
				req.Body = body
			}
			resp, err := client.Transport.RoundTrip(req)
			require.Error(t, err)
			if row.is != nil {
				require.ErrorIs(t, err, row.is)
			}
			if cause := hostileCause(err); !strings.Contains(cause, hostileClosed) {
				assert.Contains(t, cause, row.says)
			}
			r := reportOf(t, resp, err)
			assert.Len(t, r.Attempts, row.attempts)
			assert.Equal(t, row.outcome, r.Outcome)
			assert.Equal(t, req.Body != nil, body.closed.Load() > 0, "the caller's body is closed")
			hostileEnd(t, client, s, before)
			assert.LessOrEqual(t, int(s.hits.Load()), row.hits)
		})
	}
}

// hostileCaller is one row about what a caller, or its Base, does. All of them are a keyed POST of "x" to begin with.
type hostileCaller struct {
	spoil   func(*http.Request, *outbound.Config) *http.Request
	steps   []step // of Base; default: 503, 200
	is      error
	says    string // in the error
	status  int    // of a call that ends with a reply
	outcome outbound.Outcome
	hits    int
}

// hostileSpoiled changes the request only.
func hostileSpoiled(f func(*http.Request)) func(*http.Request, *outbound.Config) *http.Request {
	return func(r *http.Request, _ *outbound.Config) *http.Request { f(r); return r }
}

func hostileKey(value string) func(*http.Request, *outbound.Config) *http.Request {
	return hostileSpoiled(func(r *http.Request) { r.Header.Set("Idempotency-Key", value) })
}

func hostileAction(a *outbound.Action) func(*http.Request, *outbound.Config) *http.Request {
	return func(r *http.Request, _ *outbound.Config) *http.Request {
		return r.WithContext(outbound.WithAction(r.Context(), a))
	}
}

// hostileAgain is the request under a new action, with another GetBody.
func hostileAgain(get func(n int) (io.ReadCloser, error)) func(*http.Request, *outbound.Config) *http.Request {
	return func(r *http.Request, _ *outbound.Config) *http.Request {
		n := 0
		r.GetBody = func() (io.ReadCloser, error) { n++; return get(n) }
		return r.WithContext(outbound.WithAction(r.Context(), outbound.NewAction()))
	}
}

func hostileGets(get func() (io.ReadCloser, error)) func(*http.Request, *outbound.Config) *http.Request {
	return hostileSpoiled(func(r *http.Request) { r.GetBody = get })
}

func hostileReader(text string) io.ReadCloser { return io.NopCloser(strings.NewReader(text)) }

// hostileUnlike is an action that was bound to another body.
func hostileUnlike(r *http.Request, _ *outbound.Config) *http.Request {
	a := outbound.NewAction()
	a.Fingerprint = "sha256:00"
	return r.WithContext(outbound.WithAction(r.Context(), a))
}

func hostileReplies(resp *http.Response, err error) []step {
	return []step{func(*http.Request) (*http.Response, error) {
		if resp == nil {
			return nil, err
		}
		own := *resp
		return &own, err
	}}
}

const hostileTen = 10 << 20

var hostileCallers = map[string]hostileCaller{
	"nil URL":                      {spoil: hostileSpoiled(func(r *http.Request) { r.URL = nil }), is: outbound.ErrNotRetryable, says: "it has no URL", outcome: outbound.OutcomeNotSent},
	"empty URL":                    {spoil: hostileSpoiled(func(r *http.Request) { *r.URL = hostileURL("") }), is: outbound.ErrNotRetryable, says: `scheme is ""`, outcome: outbound.OutcomeNotSent},
	"opaque URL":                   {spoil: hostileSpoiled(func(r *http.Request) { *r.URL = hostileURL("http:s3cr3t") }), is: outbound.ErrNotRetryable, says: "no host", outcome: outbound.OutcomeNotSent},
	"nil Header":                   {spoil: hostileSpoiled(func(r *http.Request) { r.Header = nil }), status: 200, outcome: hostileSucceeded, hits: 2},
	"nil Header, nil Body":         {spoil: hostileSpoiled(func(r *http.Request) { r.Header, r.Body, r.GetBody = nil, nil, nil }), status: 200, outcome: hostileSucceeded, hits: 2},
	"empty method":                 {spoil: hostileSpoiled(func(r *http.Request) { r.Method = "" }), status: 200, outcome: hostileSucceeded, hits: 2},
	"method with a line break":     {spoil: hostileSpoiled(func(r *http.Request) { r.Method = "POST\r\ns3cr3t" }), is: outbound.ErrNotRetryable, says: "no HTTP method", outcome: outbound.OutcomeNotSent},
	"method of 10 MB, with blanks": {spoil: hostileSpoiled(func(r *http.Request) { r.Method = strings.Repeat("s3cr3t ", hostileTen/7) }), is: outbound.ErrNotRetryable, says: "no HTTP method", outcome: outbound.OutcomeNotSent},
	"header with a line break":     {spoil: hostileSpoiled(func(r *http.Request) { r.Header.Set("X", "s3cr3t\r\nY: s3cr3t") }), is: outbound.ErrNotRetryable, says: "control character", outcome: outbound.OutcomeNotSent},
	"header name that is a line":   {spoil: hostileSpoiled(func(r *http.Request) { r.Header["X: s3cr3t\r\nY"] = []string{"s3cr3t"} }), is: outbound.ErrNotRetryable, says: "header name", outcome: outbound.OutcomeNotSent},

	"key with a line break":           {spoil: hostileKey("s3cr3t\r\nX: y"), is: outbound.ErrInvalidKey, says: "invalid idempotency key"},
	"key with NUL":                    {spoil: hostileKey("s3cr3t\x00"), is: outbound.ErrInvalidKey, says: "invalid idempotency key"},
	"key with DEL":                    {spoil: hostileKey("s3cr3t\x7f"), is: outbound.ErrInvalidKey, says: "invalid idempotency key"},
	"key with a tab":                  {spoil: hostileKey("s3cr3t\t"), is: outbound.ErrInvalidKey, says: "position 7"},
	"key of 10 MB":                    {spoil: hostileKey(strings.Repeat("s", hostileTen)), is: outbound.ErrInvalidKey, says: "10485760 characters"},
	"key of 10 MB of line breaks":     {spoil: hostileKey(strings.Repeat("\n", hostileTen)), is: outbound.ErrInvalidKey, says: "invalid idempotency key"},
	"key that is an e-mail address":   {spoil: hostileKey("s3cr3t@example.com"), is: outbound.ErrInvalidKey, says: "e-mail"},
	"action with a control character": {spoil: hostileAction(&outbound.Action{Key: "s3cr3t\x00"}), is: outbound.ErrInvalidKey, says: "position 7"},
	"action with a key of 10 MB":      {spoil: hostileAction(&outbound.Action{Key: strings.Repeat("s", hostileTen)}), is: outbound.ErrInvalidKey, says: "10485760 characters"},
	"empty action":                    {spoil: hostileAction(&outbound.Action{}), is: outbound.ErrInvalidKey, says: "it is empty"},
	"action without a start":          {spoil: hostileAction(&outbound.Action{Key: "k"}), is: outbound.ErrKeyExpired, says: "expired"},
	"nil action":                      {spoil: hostileAction(nil), status: 200, outcome: hostileSucceeded, hits: 2},
	"action bound to another body":    {spoil: hostileUnlike, is: outbound.ErrActionMismatch, says: "differs", outcome: outbound.OutcomeNotSent},

	"GetBody fails":                     {spoil: hostileGets(func() (io.ReadCloser, error) { return nil, errHostile }), is: errHostile, says: "could not be read again", hits: 1},
	"GetBody returns nothing":           {spoil: hostileGets(func() (io.ReadCloser, error) { return nil, nil }), says: "GetBody returned no reader", hits: 1},
	"GetBody returns another body":      {spoil: hostileGets(func() (io.ReadCloser, error) { return hostileReader("y"), nil }), steps: []step{answers(503), answers(422)}, status: 422, hits: 2},
	"GetBody returns what was read":     {spoil: hostileSpoiled(func(r *http.Request) { b := r.Body; r.GetBody = func() (io.ReadCloser, error) { return b, nil } }), steps: []step{answers(503), answers(422)}, status: 422, hits: 2},
	"action, GetBody fails":             {spoil: hostileAgain(func(int) (io.ReadCloser, error) { return nil, errHostile }), is: errHostile, says: "could not be read again", outcome: outbound.OutcomeNotSent},
	"action, GetBody fails later":       {spoil: hostileAgain(hostileThird), is: errHostile, says: "could not be read again", hits: 1},
	"action, Read fails":                {spoil: hostileAgain(func(int) (io.ReadCloser, error) { return hostileFailing("x"), nil }), is: errHostile, says: "could not be read again", outcome: outbound.OutcomeNotSent},
	"action, GetBody changes each time": {spoil: hostileAgain(func(n int) (io.ReadCloser, error) { return hostileReader(strings.Repeat("y", n)), nil }), steps: []step{answers(503), answers(422)}, status: 422, hits: 2},
	"action, no GetBody": {spoil: func(r *http.Request, c *outbound.Config) *http.Request {
		r = hostileAgain(nil)(r, c)
		r.GetBody = nil
		return r
	}, is: outbound.ErrBodyNotReplayable, says: "no GetBody", outcome: outbound.OutcomeNotSent},

	"Base returns neither": {steps: hostileReplies(nil, nil), is: outbound.ErrAttemptsExhausted, says: "Base returned neither a response nor an error", hits: 4},
	"Base returns both": {steps: []step{func(r *http.Request) (*http.Response, error) {
		return response(r, 200, hostileReader("s3cr3t")), errHostile
	}}, is: errHostile, says: "*errors.errorString", hits: 4},
	"Base returns no body":            {steps: hostileReplies(&http.Response{StatusCode: 200, Header: http.Header{}}, nil), status: 200, outcome: hostileSucceeded, hits: 1},
	"Base returns no body, no header": {steps: hostileReplies(&http.Response{StatusCode: 503}, nil), status: 503, hits: 4},
	"Base returns an empty response":  {steps: hostileReplies(&http.Response{}, nil), status: 0, hits: 1},
	"Base returns a nil body, then 2": {steps: []step{hostileReplies(&http.Response{StatusCode: 503}, nil)[0], answers(201)}, status: 201, outcome: hostileSucceeded, hits: 2},
	"reply that reads nothing":        {steps: []step{answersBody(200, hostileIdle)}, status: 200, hits: 4},
	"error reply that reads nothing":  {steps: []step{answersBody(503, hostileIdle), answers(200)}, status: 200, outcome: hostileSucceeded, hits: 2},
}

func TestHostileCallers(t *testing.T) {
	for name, row := range hostileCallers {
		t.Run(name, func(t *testing.T) { bubble(t, func(t *testing.T) { hostileCalled(t, row) }) })
	}
}

func hostileCalled(t *testing.T, row hostileCaller) {
	if row.steps == nil {
		row.steps = []step{answers(503), answers(200)}
	}
	base := playing(row.steps...)
	cfg := outbound.Config{Base: base, Retry: outbound.RetryPolicy{Backoff: fixed(time.Second)}}
	req := newRequest(t, t.Context(), http.MethodPost, payURL, "x")
	if row.spoil != nil {
		req = row.spoil(req, &cfg)
	}
	body := &hostileCounted{ReadCloser: req.Body}
	if req.Body != nil {
		req.Body = body
	}
	header := req.Header.Clone()
	tr := newTransport(t, cfg)
	resp, err := send(hostileDoer{t, tr}, req)
	r := reportOf(t, resp, err)
	assert.Equal(t, row.hits, base.hits())
	assert.Equal(t, row.outcome, r.Outcome)
	assert.Equal(t, header, req.Header, "the caller's header")
	assert.Equal(t, req.Body != nil, body.closed.Load() > 0, "the caller's body is closed")
	hostileResult(t, row, resp, err)
	hostileOneKey(t, base)
	hostileReplyBodies(t, base)
	for _, c := range tr.Circuits() {
		assert.Zero(t, c.Pending+c.CallsInFlight, "what the target still holds")
	}
}

func hostileResult(t *testing.T, row hostileCaller, resp *http.Response, err error) {
	t.Helper()
	if row.says == "" {
		require.NoError(t, err)
		assert.Equal(t, row.status, resp.StatusCode)
		return
	}
	require.ErrorContains(t, err, row.says)
	if row.is != nil {
		require.ErrorIs(t, err, row.is)
	}
}

// hostileReplyBodies holds where each was closed once, and none was asked for ever.
func hostileReplyBodies(t *testing.T, base *fakeBase) {
	t.Helper()
	for _, body := range base.bodies {
		assert.Equal(t, 1, body.closed, "the reply's body")
		if empty, ok := body.ReadCloser.(*hostileEmpty); ok {
			assert.Less(t, empty.reads, hostilePatience, "reads that gave nothing")
		}
	}
}

// hostileOneKey holds where all requests bore the same key: then a server can tell that a body is not the one it knows.
func hostileOneKey(t *testing.T, base *fakeBase) {
	t.Helper()
	for _, seen := range base.seen {
		if seen.method == http.MethodPost {
			assert.Len(t, seen.keys(), 1)
		}
		assert.Equal(t, base.seen[0].keys(), seen.keys())
	}
}

// hostileEnds are the ways in which a function of the user's does not return.
var hostileEnds = map[string]func(){
	"panics":             func() { panic(hostileMark) },
	"ends the goroutine": runtime.Goexit,
}

// TestHostileHooks: what does not return gives back all that the call held, and the next call finds nothing of it.
func TestHostileHooks(t *testing.T) {
	places := map[string]func(*outbound.Config, func()){
		"Attempt": func(c *outbound.Config, end func()) {
			c.Hooks.Attempt = func(context.Context, outbound.Attempt) { end() }
		},
		"Retry": func(c *outbound.Config, end func()) {
			c.Hooks.Retry = func(context.Context, outbound.Attempt, time.Duration) { end() }
		},
		"Done":    func(c *outbound.Config, end func()) { c.Hooks.Done = func(context.Context, outbound.Report) { end() } },
		"Circuit": func(c *outbound.Config, end func()) { c.Hooks.Circuit = func(outbound.CircuitChange) { end() } },
		"If":      func(c *outbound.Config, end func()) { c.Retry.If = func(outbound.Attempt) bool { end(); return true } },
		"Judge": func(c *outbound.Config, end func()) {
			c.Provider.Judge = func(*http.Response, []byte) outbound.Verdict { end(); return outbound.Verdict{} }
		},
		"Base": func(c *outbound.Config, end func()) {
			next := c.Base
			c.Base = roundTripFunc(func(r *http.Request) (*http.Response, error) { end(); return next.RoundTrip(r) })
		},
	}
	for place, set := range places {
		for way, end := range hostileEnds {
			t.Run(place+" "+way, func(t *testing.T) { bubble(t, func(t *testing.T) { hostileHooked(t, set, end) }) })
		}
	}
}

func hostileHooked(t *testing.T, set func(*outbound.Config, func()), end func()) {
	base := playing(answers(503), answers(503), answers(200))
	cfg := outbound.Config{
		Base:     base,
		Retry:    outbound.RetryPolicy{Backoff: fixed(3 * time.Second)},
		Breaker:  outbound.BreakerPolicy{ConsecutiveFailures: 2, OpenFor: time.Second},
		Bulkhead: outbound.BulkheadPolicy{MaxInFlight: 1},
	}
	spoiled, returned := true, false
	set(&cfg, func() {
		if spoiled {
			end()
		}
	})
	tr := newTransport(t, cfg)
	body := &hostileCounted{ReadCloser: hostileReader("x")}
	req := newRequest(t, t.Context(), http.MethodPut, payURL, "x")
	req.Body = body
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		_, _ = send(tr, req)
		returned = true
	}()
	<-done
	require.False(t, returned, "it was called, and it did not return")
	assert.Positive(t, body.closed.Load(), "the caller's body")
	for _, n := range base.closes() {
		assert.Positive(t, n, "the reply's body")
	}
	for _, c := range tr.Circuits() {
		assert.Zero(t, c.Pending+c.CallsInFlight, "what the target still holds")
	}
	spoiled, base.steps = false, []step{answers(200)}
	time.Sleep(time.Minute) // virtual
	resp, err := post(t, tr, t.Context())
	require.NoError(t, err)
	assert.Equal(t, 200, resp.StatusCode)
}

// TestHostileRetryAfter: a hint is obeyed whole, or is none.
func TestHostileRetryAfter(t *testing.T) {
	const own, none = 3 * time.Second, time.Duration(-1) // our own wait, and none at all: the answer comes back
	for value, want := range map[string]time.Duration{
		"": own, " ": own, "0": own, "-1": own, "-0": own, "+5": own, "5s": own, "5;": own, "5, 6": own, "5 6": own, "1e1": own,
		"0x5": own, "5_0": own, "5,0": own, ".5": own, "5.": own, "5.5.5": own, "NaN": own, "Inf": own, "Infinity": own, "-Inf": own,
		"\u0665": own, "\uff15": own, "five": own, "null": own, "\"5\"": own, "s3cr3t": own,
		"Thu, 01 Jan 1970 00:00:00 GMT": own, "Wed, 31 Feb 2100 00:00:00 GMT": own, "2100-01-01T00:00:00Z": own, "Fri, 01 Jan 99999 00:00:00 GMT": own,
		strings.Repeat("x", 1<<20): own, strings.Repeat(" ", 1<<20): own, strings.Repeat("-", 1<<20) + "5": own,
		"0.0000000001": time.Nanosecond, "5": 5 * time.Second, " 5 ": 5 * time.Second, "5.5": 5500 * time.Millisecond, strings.Repeat("0", 1<<20) + "5": 5 * time.Second,
		"61": none, "1000000000000": none, "99999999999999999999": none, strings.Repeat("9", 1<<20): none, "Fri, 31 Dec 9999 23:59:59 GMT": none,
	} {
		t.Run(value[:min(len(value), 40)], func(t *testing.T) { bubble(t, func(t *testing.T) { hostileHint(t, value, want, own) }) })
	}
}

func hostileHint(t *testing.T, value string, want, own time.Duration) {
	base := playing(answers(503, "Retry-After", value), answers(200))
	tr := newTransport(t, outbound.Config{Base: base, Retry: outbound.RetryPolicy{Backoff: fixed(own)}})
	resp, err := post(t, hostileDoer{t, tr}, t.Context())
	require.NoError(t, err)
	r := reportOf(t, resp, err)
	if want < 0 {
		assert.Equal(t, 503, resp.StatusCode)
		assert.Equal(t, 1, base.hits())
		require.ErrorIs(t, r.Stopped, outbound.ErrNotRetryable)
		assert.Equal(t, hostileUnknown, r.Outcome)
		return
	}
	require.Len(t, r.Attempts, 2)
	assert.Equal(t, hostileSucceeded, r.Outcome)
	if want == own {
		assert.Equal(t, own, r.Attempts[1].Wait)
		return
	}
	assert.Equal(t, want+own, r.Attempts[1].Wait, "the hint and our own wait, which is above a third of it")
}
