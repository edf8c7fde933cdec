package outboundtest

import (
	"net/http"
	"time"
)

// answers are a dialect's words for its occasions.
type answers = map[occasion]func(Payment) reply

// members are those of a JSON object to be written.
type members = map[string]any

// says is an answer that is always the same. The body is JSON, or empty. The
// headers are pairs of name and value.
func says(status int, body string, headers ...string) func(Payment) reply {
	r := reply{status: status, header: pairs(headers), body: []byte(body)}
	if body != "" {
		r.header.Set("Content-Type", "application/json")
	}
	return func(Payment) reply { return r }
}

// shows is an answer that tells of the payment.
func shows(status int, body func(Payment) members) func(Payment) reply {
	return func(p Payment) reply { return jsonReply(status, body(p)) }
}

// with adds a header whose value is made at the time of the answer.
func with(name string, value func(Payment) string, words func(Payment) reply) func(Payment) reply {
	return func(p Payment) reply { return words(p).with(name, value(p)) }
}

// marked is an answer to a repeat: the first answer with a header more.
func marked(name string) func(first reply, p Payment) reply {
	return func(first reply, _ Payment) reply { return first.with(name, "true") }
}

// soon is a time that a client can wait for, and not zero in whole seconds.
func soon() time.Time { return time.Now().Add(2 * time.Second) }

// plain is the dialect of no API in particular.
func plain(keyHeader string) dialect {
	oneKey := says(http.StatusBadRequest, `{"error":"one `+keyHeader+` is needed"}`)
	return dialect{
		name:          "Plain",
		path:          "/v1/payments",
		keys:          keys{header: keyHeader, required: true},
		keepsFailures: true,
		read:          readObject,
		again:         marked("Idempotent-Replayed"),
		answers: answers{
			charged:     func(p Payment) reply { return jsonReply(http.StatusCreated, p) },
			badBody:     says(http.StatusBadRequest, `{"error":"`+errNotObject.Error()+`"}`),
			noKey:       oneKey,
			badKey:      oneKey,
			otherBody:   says(http.StatusUnprocessableEntity, `{"error":"the key was used with another request"}`),
			inUse:       says(http.StatusConflict, `{"error":"the key is in use"}`),
			failed:      says(http.StatusInternalServerError, `{"error":"the work failed"}`),
			rateLimited: says(http.StatusTooManyRequests, `{"error":"too many requests"}`, "Retry-After", "1"),
			overloaded:  says(http.StatusServiceUnavailable, `{"error":"overloaded"}`),
			exhausted:   says(http.StatusTooManyRequests, `{"error":"the quota is exhausted"}`),
		},
	}
}
