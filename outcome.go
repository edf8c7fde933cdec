package outbound

import "net/http"

// evidence is what one attempt showed; the rules about money read nothing else.
type evidence struct {
	write      bool // any method but GET, HEAD, OPTIONS, TRACE
	keyed      bool // a write with a key that the API honours
	repeatable bool // not a write, PUT, DELETE, or keyed

	failed    bool // no reply came
	maybeSent bool // failed, and not proven unsent
	hopeless  bool // failed in a way that no retry heals

	status   int
	upgraded bool // 101, and the request asked for it
	replayed bool // keyed, and the answer has the replay header
	broken   bool // the reply broke off while it was read inside the attempt
	advice   advice
	verdict  Verdict
}

// advice is the server's own word on a retry.
type advice uint8

const (
	adviceNone advice = iota
	adviceRetry
	adviceStop
)

// isWrite reports whether a method asks for work to be done.
func isWrite(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return false
	}
	return true
}

// isIdempotent reports whether RFC 9110, section 9.2.2, lets a write be repeated without a key.
func isIdempotent(method string) bool {
	return method == http.MethodPut || method == http.MethodDelete
}

// says is what this attempt alone says, and whether it speaks for the whole action even where an earlier attempt may have
// done the work.
func (e *evidence) says() (said Outcome, speaks bool) {
	switch {
	case e.verdict.Says != SaysDefault:
		return e.verdict.Says.outcome(), true
	case e.failed && e.maybeSent:
		return OutcomeUnknown, false
	case e.failed:
		return OutcomeNotSent, false
	case !e.write:
		return e.readSays(), false
	}
	said = e.writeSays()
	return said, said == OutcomeSucceeded || e.replayed || e.keyed && e.status == http.StatusPaymentRequired
}

func (e *evidence) readSays() Outcome {
	switch {
	case (e.upgraded || e.success()) && !e.broken:
		return OutcomeSucceeded
	case e.success(), e.status < 200, e.status >= 500:
		return OutcomeUnknown
	default:
		return OutcomeRejected
	}
}

func (e *evidence) writeSays() Outcome {
	switch s := e.status; {
	case e.success() && s != http.StatusAccepted && !e.broken:
		return OutcomeSucceeded
	case s == http.StatusTemporaryRedirect, s == http.StatusPermanentRedirect:
		return OutcomeRejected
	case s == http.StatusRequestTimeout, s == http.StatusConflict && e.keyed:
		return OutcomeUnknown
	case s >= 400 && s < 500:
		return OutcomeRejected
	default:
		return OutcomeUnknown
	}
}

func (e *evidence) success() bool { return isSuccess(e.status) }

func isSuccess(status int) bool { return status >= 200 && status < 300 }

// plainSuccess reports whether the answer is a success that says nothing of a retry, so that no header is asked for one.
func (e *evidence) plainSuccess() bool {
	return e.success() && e.status != http.StatusAccepted && !e.broken && e.verdict == Verdict{}
}

// standing is what may be claimed of an action so far.
type standing struct {
	outcome Outcome
	write   bool
	maybe   bool // the work may have been done: an attempt was Unknown, or the key is not fresh
	seen2xx bool // a status of success was seen, so it can no longer have been rejected or not sent
}

// begin is the standing before the first attempt.
func begin(write, fresh bool) standing {
	if write && !fresh {
		return standing{write: write, maybe: true}
	}
	return standing{write: write, outcome: OutcomeNotSent}
}

// hear moves the standing by one attempt.
func (s *standing) hear(e *evidence) {
	said, speaks := e.says()
	if !e.failed && e.success() && e.verdict.Says != SaysRejected {
		s.seen2xx = true
	}
	s.outcome = s.next(said, speaks)
	s.maybe = s.maybe || said == OutcomeUnknown || said == OutcomeSucceeded
}

func (s *standing) next(said Outcome, speaks bool) Outcome {
	switch {
	case said == OutcomeSucceeded:
		return OutcomeSucceeded
	case s.outcome == OutcomeSucceeded && s.write:
		return s.contradicted(said, speaks)
	case s.seen2xx && said != OutcomeUnknown && s.write:
		return OutcomeUnknown
	case said == OutcomeNotSent && !s.maybe:
		return s.outcome // no answer: the last one still decides
	case !s.write && said == OutcomeNotSent:
		return s.outcome
	case speaks || !s.maybe || !s.write:
		return said
	default:
		return OutcomeUnknown
	}
}

// contradicted keeps a proven success, unless a later answer that speaks for the action denies it.
func (s *standing) contradicted(said Outcome, speaks bool) Outcome {
	if speaks && said == OutcomeRejected {
		return OutcomeUnknown
	}
	return OutcomeSucceeded
}

// doubt says that somebody else may have done the work meanwhile: what only the lack of attempts proved is no longer proven.
func (s *standing) doubt() {
	if s.maybe || !s.write {
		return
	}
	s.maybe = true
	if s.outcome != OutcomeSucceeded {
		s.outcome = OutcomeUnknown
	}
}
