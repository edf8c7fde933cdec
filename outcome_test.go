package outbound

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWhatOneAnswerSays has a row for each answer of the table, for a keyed write, a keyless one, and a read.
func TestWhatOneAnswerSays(t *testing.T) {
	const (
		unknown   = OutcomeUnknown
		notSent   = OutcomeNotSent
		rejected  = OutcomeRejected
		succeeded = OutcomeSucceeded
	)
	rows := []struct {
		name                 string
		end                  evidence
		keyed, keyless, read Outcome
	}{
		{"200", evidence{status: 200}, succeeded, succeeded, succeeded},
		{"201", evidence{status: 201}, succeeded, succeeded, succeeded},
		{"202: accepted is not done", evidence{status: 202}, unknown, unknown, succeeded},
		{"204", evidence{status: 204}, succeeded, succeeded, succeeded},
		{"201 broken off", evidence{status: 201, broken: true}, unknown, unknown, unknown},
		{"402 broken off", evidence{status: 402, broken: true}, rejected, rejected, rejected},
		{"301", evidence{status: 301}, unknown, unknown, rejected},
		{"303", evidence{status: 303}, unknown, unknown, rejected},
		{"304", evidence{status: 304}, unknown, unknown, rejected},
		{"307 handed over", evidence{status: 307}, rejected, rejected, rejected},
		{"308 handed over", evidence{status: 308}, rejected, rejected, rejected},
		{"400", evidence{status: 400}, rejected, rejected, rejected},
		{"401", evidence{status: 401}, rejected, rejected, rejected},
		{"402", evidence{status: 402}, rejected, rejected, rejected},
		{"404", evidence{status: 404}, rejected, rejected, rejected},
		{"408", evidence{status: 408}, unknown, unknown, rejected},
		{"409", evidence{status: 409}, unknown, rejected, rejected},
		{"422", evidence{status: 422}, rejected, rejected, rejected},
		{"429", evidence{status: 429}, rejected, rejected, rejected},
		{"500", evidence{status: 500}, unknown, unknown, unknown},
		{"501", evidence{status: 501}, unknown, unknown, unknown},
		{"503", evidence{status: 503}, unknown, unknown, unknown},
		{"101 that was asked for", evidence{status: 101, upgraded: true}, unknown, unknown, succeeded},
		{"101 whose connection was given up", evidence{status: 101, upgraded: true, broken: true}, unknown, unknown, unknown},
		{"101 that was not", evidence{status: 101}, unknown, unknown, unknown},
		{"99", evidence{status: 99}, unknown, unknown, unknown},
		{"0", evidence{status: 0}, unknown, unknown, unknown},
		{"no reply, maybe sent", evidence{failed: true, maybeSent: true}, unknown, unknown, unknown},
		{"no reply, proven unsent", evidence{failed: true}, notSent, notSent, notSent},
		{"judged unknown on 200", evidence{status: 200, verdict: Verdict{Says: SaysUnknown}}, unknown, unknown, unknown},
		{"judged succeeded on 409", evidence{status: 409, verdict: Verdict{Says: SaysSucceeded}}, succeeded, succeeded, succeeded},
		{"judged rejected on 200", evidence{status: 200, verdict: Verdict{Says: SaysRejected}}, rejected, rejected, rejected},
	}
	for _, row := range rows {
		want := map[string]Outcome{"keyed": row.keyed, "keyless": row.keyless, "read": row.read}
		for kind, outcome := range want {
			e := row.end
			e.write, e.keyed, e.repeatable = requests[kind].write, requests[kind].keyed, requests[kind].repeatable
			said, _ := e.says()
			assert.Equal(t, outcome, said, "%s: %s", kind, row.name)
		}
	}
}

var (
	lost      = evidence{write: true, keyed: true, repeatable: true, failed: true, maybeSent: true}
	unsent    = evidence{write: true, keyed: true, repeatable: true, failed: true}
	brokenOff = answer(201, func(e *evidence) { e.broken = true })
)

func answer(status int, change ...func(*evidence)) evidence {
	e := evidence{write: true, keyed: true, repeatable: true, status: status}
	for _, c := range change {
		c(&e)
	}
	return e
}

func stored(e *evidence) { e.replayed = true }

func judged(says Says) func(*evidence) { return func(e *evidence) { e.verdict.Says = says } }

// TestHowTheOutcomeMoves plays the answers to one keyed action, for a fresh key and for one that may have been used before.
func TestHowTheOutcomeMoves(t *testing.T) {
	rows := []struct {
		name         string
		heard        []evidence
		fresh, stale Outcome
	}{
		{"nothing", nil, OutcomeNotSent, OutcomeUnknown},
		{"all unsent", []evidence{unsent, unsent}, OutcomeNotSent, OutcomeUnknown},
		{"rejected, then unsent: the last answer decides", []evidence{answer(429), unsent}, OutcomeRejected, OutcomeUnknown},
		{"lost, then unsent", []evidence{lost, unsent}, OutcomeUnknown, OutcomeUnknown},
		{"503, then 201", []evidence{answer(503), answer(201)}, OutcomeSucceeded, OutcomeSucceeded},
		{"401", []evidence{answer(401)}, OutcomeRejected, OutcomeUnknown},
		{"lost, then 401 by some layer", []evidence{lost, answer(401)}, OutcomeUnknown, OutcomeUnknown},
		{"lost, then 404", []evidence{lost, answer(404)}, OutcomeUnknown, OutcomeUnknown},
		{"lost, then 413", []evidence{lost, answer(413)}, OutcomeUnknown, OutcomeUnknown},
		{"lost, then 421", []evidence{lost, answer(421)}, OutcomeUnknown, OutcomeUnknown},
		{"lost, then 422", []evidence{lost, answer(422)}, OutcomeUnknown, OutcomeUnknown},
		{"lost, then 423", []evidence{lost, answer(423)}, OutcomeUnknown, OutcomeUnknown},
		{"lost, then 429", []evidence{lost, answer(429)}, OutcomeUnknown, OutcomeUnknown},
		{"lost, then 307", []evidence{lost, answer(307)}, OutcomeUnknown, OutcomeUnknown},
		{"lost, then 402", []evidence{lost, answer(402)}, OutcomeRejected, OutcomeRejected},
		{"lost, then a stored 400", []evidence{lost, answer(400, stored)}, OutcomeRejected, OutcomeRejected},
		{"lost, then a stored 500", []evidence{lost, answer(500, stored)}, OutcomeUnknown, OutcomeUnknown},
		{"lost, then a stored 201", []evidence{lost, answer(201, stored)}, OutcomeSucceeded, OutcomeSucceeded},
		{"lost, then 202", []evidence{lost, answer(202)}, OutcomeUnknown, OutcomeUnknown},
		{"lost, then judged rejected", []evidence{lost, answer(422, judged(SaysRejected))}, OutcomeRejected, OutcomeRejected},
		{"402, then lost", []evidence{answer(402), lost}, OutcomeUnknown, OutcomeUnknown},
		{"lost, 402, then lost", []evidence{lost, answer(402), lost}, OutcomeUnknown, OutcomeUnknown},
		{"201 broken off", []evidence{brokenOff}, OutcomeUnknown, OutcomeUnknown},
		{"201 broken off, then 402: a success was seen", []evidence{brokenOff, answer(402)}, OutcomeUnknown, OutcomeUnknown},
		{"201 broken off, then stored 400", []evidence{brokenOff, answer(400, stored)}, OutcomeUnknown, OutcomeUnknown},
		{"201 broken off, then 201", []evidence{brokenOff, answer(201)}, OutcomeSucceeded, OutcomeSucceeded},
		{"202, then 402", []evidence{answer(202), answer(402)}, OutcomeUnknown, OutcomeUnknown},
		{"judged unknown on 200, then 402: a success was seen", []evidence{answer(200, judged(SaysUnknown)), answer(402)}, OutcomeUnknown, OutcomeUnknown},
		{"judged rejected on 200", []evidence{answer(200, judged(SaysRejected))}, OutcomeRejected, OutcomeRejected},
		{"201, then 404: done stays done", []evidence{answer(201), answer(404)}, OutcomeSucceeded, OutcomeSucceeded},
		{"201, then unsent", []evidence{answer(201), unsent}, OutcomeSucceeded, OutcomeSucceeded},
		{"201, then a stored 400 contradicts", []evidence{answer(201), answer(400, stored)}, OutcomeUnknown, OutcomeUnknown},
	}
	for _, row := range rows {
		for _, fresh := range []bool{true, false} {
			s := begin(true, fresh)
			for _, e := range row.heard {
				s.hear(&e)
			}
			want := row.stale
			if fresh {
				want = row.fresh
			}
			assert.Equal(t, want, s.outcome, "%s, fresh %v", row.name, fresh)
		}
	}
}

// TestReadsAreDecidedByTheLastAnswer: a read does no work, so nothing of an earlier attempt lingers.
func TestReadsAreDecidedByTheLastAnswer(t *testing.T) {
	get := func(e evidence) evidence { e.write, e.keyed = false, false; return e }
	s := begin(false, false)
	assert.Equal(t, OutcomeNotSent, s.outcome)
	for _, step := range []struct {
		e    evidence
		want Outcome
	}{
		{get(unsent), OutcomeNotSent},
		{get(lost), OutcomeUnknown},
		{get(unsent), OutcomeUnknown},
		{get(answer(404)), OutcomeRejected},
		{get(answer(503)), OutcomeUnknown},
		{get(answer(200)), OutcomeSucceeded},
		{get(answer(500)), OutcomeUnknown},
	} {
		s.hear(&step.e)
		assert.Equal(t, step.want, s.outcome, "%+v", step.e)
	}
}

func TestDoubtTakesBackWhatRestedOnTheLackOfAttempts(t *testing.T) {
	for outcome, want := range map[Outcome]Outcome{
		OutcomeNotSent: OutcomeUnknown, OutcomeRejected: OutcomeUnknown, OutcomeUnknown: OutcomeUnknown, OutcomeSucceeded: OutcomeSucceeded,
	} {
		s := standing{write: true, outcome: outcome}
		s.doubt()
		assert.Equal(t, want, s.outcome)
		assert.True(t, s.maybe)
	}
	spoken := begin(true, false)
	declined := answer(402)
	spoken.hear(&declined)
	spoken.doubt()
	assert.Equal(t, OutcomeRejected, spoken.outcome, "what spoke in spite of the doubt still holds")
}
