package outbound

import (
	"fmt"
	"net/http"
)

// validate refuses a request that no Base could send, before anything is sent. The value of the key header is left to
// checkKey, which knows better what is wrong with it.
func validate(req *http.Request, keyHeader string) error {
	switch {
	case req.URL == nil:
		return badRequest("it has no URL")
	case !supportedScheme(req.URL.Scheme):
		return badRequest("its URL's scheme is %q, and only http and https are spoken here", req.URL.Scheme)
	case req.URL.Host == "":
		return badRequest("its URL has no host")
	case !isToken(methodOf(req)):
		return badRequest("its method is no HTTP method")
	}
	if !isFieldValue(req.URL.RawQuery) || !isFieldValue(req.URL.Opaque) {
		return badRequest("its URL has a control character")
	}
	if err := validateHeader("header", req.Header, keyHeader); err != nil {
		return err
	}
	return validateHeader("trailer", req.Trailer, "")
}

func supportedScheme(scheme string) bool {
	_, ok := defaultPorts[scheme]
	return ok
}

func validateHeader(kind string, h http.Header, except string) error {
	for name, values := range h {
		if !isToken(name) {
			return badRequest("a %s name is not valid", kind) // not quoted: it may be a whole line
		}
		for _, v := range values {
			if !isFieldValue(v) && (except == "" || http.CanonicalHeaderKey(name) != except) {
				return badRequest("the value of the %s %s has a control character", kind, name)
			}
		}
	}
	return nil
}

func badRequest(detail string, args ...any) error {
	return &because{reason: ErrNotRetryable.(*reason), detail: "invalid request: " + fmt.Sprintf(detail, args...)}
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if !tokenChars[s[i]] {
			return false
		}
	}
	return true
}

var tokenChars = func() (table [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		table[c] = true
	}
	return table
}()

// isFieldValue reports whether s holds no control character but tab (RFC 9110, section 5.5).
func isFieldValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
