package outbound

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The kinds of request that the retry table tells apart.
var (
	read     = evidence{repeatable: true}
	put      = evidence{write: true, repeatable: true}
	keyed    = evidence{write: true, keyed: true, repeatable: true}
	keyless  = evidence{write: true}
	requests = map[string]evidence{"read": read, "PUT": put, "keyed": keyed, "keyless": keyless}
)

// TestRetryTable has a row for each row of the table: what the attempt ended with, then the ruling for a read, a PUT or
// DELETE, a keyed write, and a keyless one.
func TestRetryTable(t *testing.T) {
	rows := []struct {
		name                      string
		end                       evidence
		read, put, keyed, keyless ruling
	}{
		{"network error, proven not sent", evidence{failed: true}, allowed, allowed, allowed, allowed},
		{"network error, maybe sent", evidence{failed: true, maybeSent: true}, allowed, allowed, allowed, forbidden},
		{"hopeless error, not sent", evidence{failed: true, hopeless: true}, forbidden, forbidden, forbidden, forbidden},
		{"hopeless error, maybe sent", evidence{failed: true, maybeSent: true, hopeless: true}, forbidden, forbidden, forbidden, forbidden},
		{"buffered reply broken off", evidence{status: 201, broken: true}, allowed, allowed, allowed, forbidden},
		{"409", evidence{status: 409}, final, final, allowed, final},
		{"429", evidence{status: 429}, allowed, allowed, allowed, allowed},
		{"500", evidence{status: 500}, allowed, allowed, allowed, forbidden},
		{"501", evidence{status: 501}, final, final, final, final},
		{"502", evidence{status: 502}, allowed, allowed, allowed, forbidden},
		{"503", evidence{status: 503}, allowed, allowed, allowed, forbidden},
		{"504", evidence{status: 504}, allowed, allowed, allowed, forbidden},
		{"505", evidence{status: 505}, final, final, final, final},
		{"529", evidence{status: 529}, allowed, allowed, allowed, forbidden},
		{"599", evidence{status: 599}, allowed, allowed, allowed, forbidden},
		{"200", evidence{status: 200}, final, final, final, final},
		{"202", evidence{status: 202}, final, final, final, final},
		{"301", evidence{status: 301}, final, final, final, final},
		{"400", evidence{status: 400}, final, final, final, final},
		{"404", evidence{status: 404}, final, final, final, final},
		{"408", evidence{status: 408}, final, final, final, final},
		{"425", evidence{status: 425}, final, final, final, final},

		{"503, advised to stop", evidence{status: 503, advice: adviceStop}, forbidden, forbidden, forbidden, forbidden},
		{"400, advised to stop", evidence{status: 400, advice: adviceStop}, final, final, final, final},
		{"400, advised to retry", evidence{status: 400, advice: adviceRetry}, allowed, allowed, allowed, final},
		{"429, advised to retry", evidence{status: 429, advice: adviceRetry}, allowed, allowed, allowed, allowed},
		{"500, advised to retry", evidence{status: 500, advice: adviceRetry}, allowed, allowed, allowed, forbidden},
		{"200, advised to retry", evidence{status: 200, advice: adviceRetry}, final, final, final, final},

		{"judged to stop on 503", evidence{status: 503, verdict: Verdict{Next: NextStop}}, final, final, final, final},
		{"judged to retry 200", evidence{status: 200, verdict: Verdict{Next: NextRetry}}, allowed, allowed, allowed, forbidden},
		{"judged rejected and to retry", evidence{status: 422, verdict: Verdict{Next: NextRetry, Says: SaysRejected}}, allowed, allowed, allowed, allowed},
		{"judged to stop over advice", evidence{status: 503, advice: adviceRetry, verdict: Verdict{Next: NextStop}}, final, final, final, final},
	}
	for _, row := range rows {
		want := map[string]ruling{"read": row.read, "PUT": row.put, "keyed": row.keyed, "keyless": row.keyless}
		for kind, request := range requests {
			e := row.end
			e.write, e.keyed, e.repeatable = request.write, request.keyed, request.repeatable
			assert.Equal(t, want[kind], e.ruling(), "%s: %s", kind, row.name)
		}
	}
}

func TestReplayedAnswerIsFinal(t *testing.T) {
	for _, status := range []int{200, 201, 400, 402, 409, 429, 500, 503} {
		e := evidence{write: true, keyed: true, repeatable: true, status: status, replayed: true}
		assert.Equal(t, final, e.ruling(), "replayed %d", status)
	}
	broken := evidence{write: true, keyed: true, repeatable: true, status: 201, replayed: true, broken: true}
	assert.Equal(t, allowed, broken.ruling(), "a stored answer that broke off is fetched again")
	advised := evidence{write: true, keyed: true, repeatable: true, status: 500, replayed: true, advice: adviceRetry}
	assert.Equal(t, allowed, advised.ruling(), "the server's advice comes before the table")
}

// TestNoUnsafeRetry goes through every combination: a keyless write that is no PUT or DELETE is never repeated once it may
// have been performed, whatever the server advises.
func TestNoUnsafeRetry(t *testing.T) {
	for status := 0; status < 700; status++ {
		for _, adv := range []advice{adviceNone, adviceRetry, adviceStop} {
			for _, next := range []Next{NextDefault, NextRetry, NextStop} {
				for _, broken := range []bool{false, true} {
					e := evidence{write: true, status: status, advice: adv, broken: broken, verdict: Verdict{Next: next}}
					e.failed = status == 0
					e.maybeSent = e.failed
					if e.ruling() == allowed {
						assert.Equal(t, 429, status, fmt.Sprintf("%+v", e))
					}
				}
			}
		}
	}
}
