package outbound

import (
	"context"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	maxBuffered = 1 << 20  // the longest reply that is read inside the attempt
	maxJudged   = 64 << 10 // what Judge sees of a reply that is not

	maxDrained   = 64 << 10 // what is read of a reply that is thrown away, so that its connection can be used again
	drainTimeout = 100 * time.Millisecond
)

var (
	errBody   = &reason{text: "the request's body could not be read again"}
	errNoBody = &reason{text: "GetBody returned no reader"}
	errBroken = &reason{text: "the reply broke off"}
)

// hasBody reports whether the request has a body to send.
func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

func closeBody(resp *http.Response) {
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
}

// reply is how an attempt's reply is read: a prefix that was read inside the attempt, then the rest.
type reply struct {
	prefix []byte
	end    error // what ended the prefix: io.EOF, what broke it off, or nil where the rest is still to be read
	rest   io.ReadCloser
	stream bool        // bound by the idle timeout instead of the total
	src    progressing // rest's reader

	cut    atomic.Bool // the body broke while the caller read it
	closed atomic.Bool // by the caller: what a Read meets then is no break
}

// broken reports whether the reply broke off inside the attempt.
func (r *reply) broken() bool { return r.end != nil && r.end != io.EOF }

// readReply reads what belongs inside the attempt, and then ends the attempt timeout. A reply that came too late for its
// body to be read shows as one that broke off: its status was seen all the same.
func (a *attempt) readReply() {
	if a.resp.Body == nil {
		a.resp.Body = http.NoBody
	}
	if bodiless(a.resp.StatusCode) || a.call.method == http.MethodHead { // over HTTP/2 a Content-Length would make it break off
		_ = a.resp.Body.Close()
		a.resp.Body = http.NoBody
	}
	a.rest = a.resp.Body
	a.src = progressing{r: a.rest, left: math.MaxInt}
	a.stream = a.call.streams(a.resp)
	if limit := a.readsInside(); limit > 0 {
		a.readPrefix(limit)
	}
	if stopped := a.timer.Stop(); !stopped && a.end == nil && a.resp.Body != http.NoBody {
		a.cancel(a.limit()) // the timer's own goroutine may still be on its way to it
		a.end, a.callerEnded = a.explainRead(context.Cause(a.ctx))
	}
}

func (a *attempt) readPrefix(limit int) {
	a.prefix, a.end = readUpTo(&a.src, limit, a.resp.ContentLength)
	if a.end == io.EOF && int64(len(a.prefix)) < a.resp.ContentLength {
		a.end = io.ErrUnexpectedEOF
	}
	if a.broken() {
		a.end, a.callerEnded = a.explainRead(a.end)
	}
}

// bodiless reports whether an answer with this status never has a body.
func bodiless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// readUpTo reads at most limit bytes; end is nil where the reader has more.
func readUpTo(r io.Reader, limit int, length int64) (prefix []byte, end error) {
	if length >= 0 && length < int64(limit) {
		limit = int(length) + 1 // one more, to see the end
		prefix = make([]byte, 0, limit)
	}
	for len(prefix) < limit {
		if len(prefix) == cap(prefix) {
			prefix = append(prefix, 0)[:len(prefix)]
		}
		n, err := r.Read(prefix[len(prefix):min(cap(prefix), limit)])
		prefix = prefix[:len(prefix)+n]
		if err != nil {
			return prefix, err
		}
	}
	return prefix, nil
}

// readsInside is how much of a reply is read inside the attempt: all of a small one to a keyed, replayable write, so that
// one lost half-way is retried like any lost reply; else what Judge wants to see; 0 for nothing. An answer that is retried
// for its status alone is not read: losing its body changes nothing.
func (a *attempt) readsInside() int {
	c, resp := a.call, a.resp
	switch {
	case resp.Body == http.NoBody, resp.StatusCode == http.StatusSwitchingProtocols, a.stream:
		return 0
	case c.keyed && c.replayable && buffers(resp) && !retriedByStatus(resp.StatusCode, c.keyed):
		return maxBuffered
	case c.t.provider.Judge != nil && !isSuccess(resp.StatusCode):
		return maxJudged
	default:
		return 0
	}
}

// buffers reports whether a reply is small, or of a kind that is.
func buffers(resp *http.Response) bool {
	if resp.ContentLength >= 0 {
		return resp.ContentLength <= maxBuffered
	}
	media := mediaType(resp)
	return strings.HasPrefix(media, "text/") ||
		media == "application/json" || strings.HasSuffix(media, "+json") ||
		media == "application/xml" || strings.HasSuffix(media, "+xml") ||
		media == "application/x-www-form-urlencoded"
}

// streams reports whether a reply is bound by the idle timeout instead of the total.
func (c *call) streams(resp *http.Response) bool {
	if !isSuccess(resp.StatusCode) {
		return false // an error is none, whatever its type
	}
	if c.limits.streaming {
		return true
	}
	content := first(resp.Header, "Content-Type")
	return isMedia(content, "text/event-stream") || isMedia(content, "application/x-ndjson")
}

// isMedia reports whether a Content-Type names the media type, whatever its parameters.
func isMedia(content, media string) bool {
	content = strings.TrimLeft(content, " \t")
	if len(content) < len(media) || !strings.EqualFold(content[:len(media)], media) {
		return false
	}
	rest := strings.TrimLeft(content[len(media):], " \t")
	return rest == "" || rest[0] == ';'
}

func mediaType(resp *http.Response) string {
	media, _, _ := strings.Cut(first(resp.Header, "Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// handOver gives the reply to the caller, and the attempt its last phase.
func (a *attempt) handOver(now time.Time) *http.Response {
	c, resp := a.call, a.resp
	resp.Request = &c.handed
	a.handed.Store(true)
	switch {
	case a.end != nil: // all of it that will come is here
		a.book(a.health())
		_ = a.rest.Close()
		a.release()
		resp.Body = replyBody{a}
	case resp.StatusCode == http.StatusSwitchingProtocols:
		a.book(a.health())
		a.handUpgrade()
	case resp.Body == http.NoBody:
		a.book(a.health())
		a.release()
	case a.stream:
		a.book(a.health())
		a.phase.Store(phaseIdle)
		resp.Body = replyBody{a}
	default:
		resp.Body = replyBody{a}
		a.beginReading(now)
	}
	return resp
}

// beginReading starts the phase in which the caller reads, bound by the total timeout. A good answer's verdict waits for
// the body's end, at most until the attempt timeout.
func (a *attempt) beginReading(now time.Time) {
	limit := a.call.limits.attempt
	if a.health() != healthy {
		a.book(a.health())
	}
	if rest := limit - now.Sub(a.start); a.state.Load() != booked && limit > 0 && rest < a.call.untilDeadline(now) {
		a.phase.Store(phaseReading)
		a.arm(max(rest, 0))
		return
	}
	a.phase.Store(phaseTotal)
	a.arm(a.call.untilDeadline(now))
}

// handUpgrade keeps the connection's writer and loses every timer; Close releases the rest.
func (a *attempt) handUpgrade() {
	if rwc, ok := a.resp.Body.(io.ReadWriteCloser); ok {
		a.resp.Body = upgraded(rwc, a)
		return
	}
	a.phase.Store(phaseTotal) // with its timer stopped for good
	a.resp.Body = replyBody{a}
}

func upgraded(rwc io.ReadWriteCloser, a *attempt) io.ReadCloser {
	body := upgradedBody{rwc, a}
	if half, ok := rwc.(halfCloser); ok {
		return halfClosingBody{body, half}
	}
	return body
}

type upgradedBody struct {
	io.ReadWriteCloser
	a *attempt
}

type halfCloser interface{ CloseWrite() error }

type halfClosingBody struct {
	upgradedBody
	halfCloser
}

// Close ends the connection.
func (u upgradedBody) Close() error {
	defer u.a.release()
	return u.ReadWriteCloser.Close()
}

// replyBody is the body that the caller reads.
type replyBody struct{ a *attempt }

// Read reads the reply under the limit that is in force. What cuts it off is never a clean end.
func (b replyBody) Read(p []byte) (int, error) {
	a := b.a
	if len(a.prefix) > 0 {
		n := copy(p, a.prefix)
		a.prefix = a.prefix[n:]
		return n, nil
	}
	if a.end != nil {
		return 0, a.end
	}
	n, err := a.readRest(p)
	if err == nil {
		return n, nil
	}
	return n, a.ended(err)
}

func (a *attempt) readRest(p []byte) (int, error) {
	if idle := a.call.limits.idle; a.phase.Load() == phaseIdle && idle > 0 {
		a.arm(idle)
		defer a.timer.Stop()
	}
	return a.rest.Read(p)
}

// progressing gives up on a reader that gives neither bytes nor an error, time after time.
type progressing struct {
	r     io.Reader
	empty int // how often in a row
	left  int // how much may still be read; then it ends
}

func (p *progressing) Read(b []byte) (int, error) {
	if p.left <= 0 {
		return 0, io.EOF
	}
	n, err := p.r.Read(b[:min(len(b), p.left)])
	p.left -= n
	if n > 0 || err != nil || len(b) == 0 {
		p.empty = 0
		return n, err
	}
	if p.empty++; p.empty == 100 {
		return 0, io.ErrNoProgress
	}
	return 0, nil
}

// ended books how the body ended and releases the attempt. The error is what the caller reads.
func (a *attempt) ended(err error) error {
	defer a.tell()
	if err == io.EOF && a.ownLimit() == nil {
		a.book(healthy)
		a.release()
		return err
	}
	if a.closed.Load() && a.ownLimit() == nil {
		return err
	}
	a.cut.Store(true)
	err, callerEnded := a.explainRead(err)
	if !callerEnded {
		a.book(failing)
	}
	a.release()
	return err
}

// explainRead is what broke a body off: a limit of ours by its own name, else the error as it came, but for its text.
func (a *attempt) explainRead(err error) (explained error, callerEnded bool) {
	if limit := a.ownLimit(); limit != nil {
		return limit, false
	}
	if quotes(err) {
		err = &foreign{err} // callers print what Read returns
	}
	return err, a.call.callerCause() != nil
}

// Close ends the reading. A good answer that the caller did not read to its end is a good answer.
func (b replyBody) Close() error {
	a := b.a
	a.closed.Store(true)
	if a.end != nil {
		return nil // closed when it was read
	}
	a.book(a.health())
	defer a.tell()
	defer a.release()
	return a.rest.Close()
}

// drain reads what is left, up to limit.
func (a *attempt) drain(limit int) {
	a.src.left = max(limit, 0)
	_, _ = io.Copy(io.Discard, &a.src)
}

// discard drains and closes a reply that is thrown away for a retry, within bounds, so that its connection is free again
// before the wait. The drain must not cost the wait its place before the deadline.
func (a *attempt) discard(wait time.Duration) {
	defer a.release()
	a.settle()
	if a.resp == nil {
		return
	}
	if a.end == nil && a.resp.Body != http.NoBody {
		a.phase.Store(phaseDraining)
		spare := max(a.call.untilDeadline(time.Now())-wait, 0) / 2
		a.arm(min(drainTimeout, spare))
		a.drain(maxDrained - len(a.prefix))
	}
	_ = a.rest.Close()
}
