package outboundtest

import (
	"strconv"
	"time"
)

// The tables of the AI APIs. What is documented and what is assumed is said at
// their constants.

// keyless ignores keys; the ledger shows those of the usual header.
var keyless = keys{header: "Idempotency-Key", ignored: true}

var openAI = dialect{
	name:   "OpenAI",
	path:   "/v1/chat/completions",
	routes: []string{"/v1/responses"},
	keys:   keyless,
	read:   readJSON,
	answers: answers{
		charged: chatCompletion,
		badBody: says(400, `{"error":{"message":"not a JSON object","type":"invalid_request_error","param":null,"code":null}}`),
		failed:  says(500, `{"error":{"message":"the work failed","type":"server_error","param":null,"code":null}}`),
		rateLimited: says(429, `{"error":{"message":"too many requests","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
			"Retry-After-Ms", "1000", "Retry-After", "1", "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "1s"),
		overloaded: says(503, `{"error":{"message":"overloaded","type":"server_error","param":null,"code":null}}`),
		exhausted:  says(429, `{"error":{"message":"no quota left","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`),
	},
}

// chatCompletion is the answer that OpenAI, Mistral and Groq have in common.
var chatCompletion = shows(200, func(p Payment) members {
	return members{
		"id": p.ID, "object": "chat.completion", "created": p.Time.Unix(), "model": "test",
		"choices": []members{{"index": 0, "finish_reason": "stop", "message": members{"role": "assistant", "content": "Hello."}}},
		"usage":   members{"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
	}
})

var anthropic = dialect{
	name: "Anthropic",
	path: "/v1/messages",
	keys: keyless,
	read: readJSON,
	answers: answers{
		charged: shows(200, func(p Payment) members {
			return members{
				"id": p.ID, "type": "message", "role": "assistant", "model": "test", "stop_reason": "end_turn",
				"content": []members{{"type": "text", "text": "Hello."}},
				"usage":   members{"input_tokens": 1, "output_tokens": 2},
			}
		}),
		badBody: says(400, `{"type":"error","error":{"type":"invalid_request_error","message":"not a JSON object"}}`),
		failed:  says(500, `{"type":"error","error":{"type":"api_error","message":"the work failed"}}`),
		rateLimited: with("Anthropic-Ratelimit-Requests-Reset", func(Payment) string { return soon().UTC().Format(time.RFC3339) },
			says(429, `{"type":"error","error":{"type":"rate_limit_error","message":"too many requests"}}`, "Retry-After", "1")),
		overloaded: says(529, `{"type":"error","error":{"type":"overloaded_error","message":"overloaded"}}`),
		exhausted: says(429, `{"type":"error","error":{"type":"rate_limit_error","message":"no money left this month",`+
			`"details":{"error_code":"enforced_spend_limit_reached"}}}`),
	},
}

var mistral = dialect{
	name: "Mistral",
	path: "/v1/chat/completions",
	keys: keyless,
	read: readJSON,
	answers: answers{
		charged: chatCompletion,
		rateLimited: says(429, `{"object":"error","message":"too many requests","type":"rate_limited","param":null,"code":"1300"}`,
			"Retry-After", "1", "X-Ratelimit-Remaining", "0"),
	},
}

var groq = dialect{
	name: "Groq",
	path: "/openai/v1/chat/completions",
	keys: keyless,
	read: readJSON,
	answers: answers{
		charged: chatCompletion,
		rateLimited: says(429, `{"error":{"message":"too many requests","type":"requests","code":"rate_limit_exceeded"}}`,
			"Retry-After", "1", "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "1s"),
	},
}

var gemini = dialect{
	name:   "Gemini",
	path:   "/v1beta/models/gemini:generateContent",
	routes: []string{"/v1beta/models/*:generateContent"},
	keys:   keyless,
	read:   readJSON,
	answers: answers{
		charged: shows(200, func(p Payment) members {
			content := members{"role": "model", "parts": []members{{"text": "Hello."}}}
			return members{"responseId": p.ID, "candidates": []members{{"index": 0, "finishReason": "STOP", "content": content}}}
		}),
		badBody: says(400, `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"not a JSON object"}}`),
		failed:  says(500, `{"error":{"code":500,"status":"INTERNAL","message":"the work failed"}}`),
		rateLimited: says(429, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"too many requests","details":[`+
			`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},`+
			`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1s"}]}}`),
		overloaded: says(503, `{"error":{"code":503,"status":"UNAVAILABLE","message":"overloaded"}}`),
		exhausted: says(429, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"no requests left today","details":[`+
			`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel"}]},`+
			`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"38s"}]}}`),
	},
}

var cohere = dialect{
	name: "Cohere",
	path: "/v2/chat",
	keys: keyless,
	read: readJSON,
	answers: answers{
		charged: shows(200, func(p Payment) members {
			message := members{"role": "assistant", "content": []members{{"type": "text", "text": "Hello."}}}
			return members{"id": p.ID, "finish_reason": "COMPLETE", "message": message}
		}),
		badBody: says(400, `{"message":"not a JSON object"}`),
		failed:  says(500, `{"message":"the work failed"}`),
		rateLimited: with("X-Ratelimit-Reset", func(Payment) string { return strconv.FormatInt(soon().Unix(), 10) },
			says(429, `{"message":"too many requests"}`, "X-Ratelimit-Remaining", "0")),
	},
}
