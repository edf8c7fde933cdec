package provider

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/outbound-go/outbound"
)

// The AI APIs ignore keys, so a call that may have been done is not repeated: it would be generated, and paid for, twice. Where
// a profile says again, that too is for callers who accept it.

// toldNotTo stands before the rows that say again: an X-Should-Retry of false goes before the status, as it does in the
// libraries of the APIs that send it. What it means is left to the default rules.
var toldNotTo = Rule{Header: "X-Should-Retry", Value: "false"}

// OpenAI is api.openai.com, which ignores keys: a generation that may have been done is not repeated, unless you accept that it is
// paid for twice:
//
//	p := provider.OpenAI()
//	p.AllowDuplicates = true
//
// A 429 that says that credit, quota or budget is used up is final. Retry-After, Retry-After-Ms and X-Should-Retry are obeyed;
// X-Ratelimit-Reset-* is not: it says when the whole allowance is back, which takes longer than a retry has to wait. The hosted
// agents, a beta, do take an Idempotency-Key, which this profile does not send: give them a Transport of their own.
//
// Assumed, not documented: the billing codes, which may also stand in the type. They make a call stop, and prove nothing.
//
// Sources, read in November 2026: internal/requestconfig, betaagent.go and agents_stream.go of github.com/openai/openai-go,
// and learn.microsoft.com on OpenAI's insufficient_quota.
func OpenAI() outbound.Provider {
	usedUp := []string{
		"insufficient_quota",
		"credit_balance_exhausted",
		"organization_spend_limit_exceeded",
		"organization_usage_limit_exceeded",
		"project_spend_limit_exceeded",
	}
	return outbound.Provider{
		Name:   "openai",
		NoKeys: true,
		Judge: Rules(
			Rule{Status: 429, Field: "/error/code", Codes: usedUp, Then: stop},
			Rule{Status: 429, Field: "/error/type", Codes: usedUp, Then: stop},
			toldNotTo,
			Rule{Status: 408, Then: again},
			Rule{Status: 409, Then: again},
		),
	}
}

// Anthropic is api.anthropic.com, which ignores keys; see [OpenAI] for AllowDuplicates. A 429 for the month's spend limit is
// final. 529, overloaded, is unknown like any 5xx.
//
// Assumed, not documented: that code of the spend limit. It makes a call stop, and proves nothing.
//
// Sources, read in November 2026: internal/requestconfig of github.com/anthropics/anthropic-sdk-go, and learn.microsoft.com
// on Anthropic's overloaded_error.
func Anthropic() outbound.Provider {
	return outbound.Provider{
		Name:   "anthropic",
		NoKeys: true,
		Judge: Rules(
			Rule{Status: 429, Field: "/error/details/error_code", Codes: []string{"enforced_spend_limit_reached"}, Then: stop},
			toldNotTo,
			Rule{Status: 408, Then: again},
			Rule{Status: 409, Then: again},
		),
	}
}

// Mistral is api.mistral.ai, which ignores keys; see [OpenAI] for AllowDuplicates. After a 502 Mistral asks to wait half a minute,
// for which the default TotalTimeout of 30 seconds leaves no time.
//
// Sources, read in November 2026: utils/retries.py of github.com/mistralai/client-python, and error-glossary.md of
// github.com/mistralai/platform-docs-public.
func Mistral() outbound.Provider {
	return outbound.Provider{
		Name:   "mistral",
		NoKeys: true,
		Judge:  Rules(Rule{Status: 502, Then: outbound.Verdict{MinWait: 30 * time.Second}}),
	}
}

// Groq is api.groq.com, which ignores keys; see [OpenAI] for AllowDuplicates, and for why X-Ratelimit-Reset-* is not read.
//
// Source, read in November 2026: _base_client.py of github.com/groq/groq-python.
func Groq() outbound.Provider {
	return outbound.Provider{
		Name:   "groq",
		NoKeys: true,
		Judge: Rules(
			toldNotTo,
			Rule{Status: 408, Then: again},
			Rule{Status: 409, Then: again},
		),
	}
}

// Gemini is generativelanguage.googleapis.com, which ignores keys; see [OpenAI] for AllowDuplicates. The wait is in the body of an
// error, in a google.rpc.RetryInfo. A 429 for a quota per day is final, whatever wait it names.
//
// Assumed, not documented: the quota's name says PerDay; it makes a call stop, and proves nothing. And an error of
// streamGenerateContent may stand in an array, as its answers do; it is looked for in both places.
//
// Sources, read in November 2026: common.go of github.com/googleapis/go-genai, and v2/apierror of github.com/googleapis/gax-go.
func Gemini() outbound.Provider {
	wait := waitIn(protoDuration, "/error/details/*/retryDelay", "/*/error/details/*/retryDelay")
	rules := Rules(
		Rule{Status: 429, Wait: wait},
		Rule{Status: 503, Wait: wait},
		toldNotTo,
		Rule{Status: 408, Then: again},
	)
	return outbound.Provider{
		Name:   "gemini",
		NoKeys: true,
		Judge: func(resp *http.Response, body []byte) outbound.Verdict {
			if resp.StatusCode == http.StatusTooManyRequests && perDay(body) {
				return stop
			}
			return rules(resp, body)
		},
	}
}

// perDay reports whether a google.rpc.QuotaFailure names a quota per day.
func perDay(body []byte) bool {
	quotas := textsIn(body, "/error/details/*/violations/*/quotaId", "/*/error/details/*/violations/*/quotaId")
	return slices.ContainsFunc(quotas, func(quota string) bool { return strings.Contains(quota, "PerDay") })
}

// Cohere is api.cohere.com, which ignores keys; see [OpenAI] for AllowDuplicates. A 429 says in X-RateLimit-Reset, in seconds since
// 1970, when to come back, if it has no Retry-After. 499, the request was cancelled, is unknown.
//
// Source, read in November 2026: internal/retrier.go of github.com/cohere-ai/cohere-go.
func Cohere() outbound.Provider {
	return outbound.Provider{
		Name:   "cohere",
		NoKeys: true,
		Judge: Rules(
			Rule{Status: 429, Wait: resetAt("X-Ratelimit-Reset", unixSeconds)},
			toldNotTo,
			Rule{Status: 408, Then: again},
			Rule{Status: 499, Then: outbound.Verdict{Says: outbound.SaysUnknown}},
		),
	}
}
