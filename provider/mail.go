package provider

import (
	"net/http"

	"github.com/outbound-go/outbound"
)

// Resend is api.resend.com. Sending mail takes a key, for a day. A 409 is told apart by its name: concurrent_idempotent_requests
// says that the first request is at work; invalid_idempotent_request that the key was used with other content, which is final
// and proves nothing of this mail. So is a 429 for a quota that is used up.
//
// Sources, read in November 2026: resend.com/docs/dashboard/emails/idempotency-keys, resend.com/docs/api-reference/errors, and
// resend.yaml of github.com/resend/resend-openapi.
func Resend() outbound.Provider {
	return outbound.Provider{
		Name:         "resend",
		KeyMethods:   []string{http.MethodPost},
		KeyRoutes:    []string{"/emails", "/emails/batch"},
		MaxKeyLength: 256,
		KeyWindow:    day,
		Judge: Rules(
			Rule{Status: 409, Field: "/name", Codes: []string{"invalid_idempotent_request"}, Then: stop},
			Rule{Status: 429, Field: "/name", Codes: []string{"daily_quota_exceeded", "monthly_quota_exceeded"}, Then: stop},
		),
	}
}
