package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// maxKeyBody is how much of a request's body is read to find its key.
const maxKeyBody = 1 << 20

// JSONKey is a KeyOf for an API that takes the key in a member of a JSON body, such as Square's "/idempotency_key". The place
// is a JSON pointer (RFC 6901); what is none, or empty, panics. The key is a string or a number. A member that stands twice is
// none, as nobody can say which one counts; nor has a body that is no JSON, longer than 1 MiB, or without GetBody a key. An
// error only where GetBody or its reader fails. Safe for concurrent use.
func JSONKey(pointer string) func(*http.Request) (string, error) {
	if !isPointer(pointer) {
		panic("provider: " + pointer + " is no JSON pointer")
	}
	return func(req *http.Request) (string, error) {
		body, err := bodyOf(req)
		if err != nil {
			return "", err
		}
		if !json.Valid(bytes.TrimPrefix(body, byteOrderMark)) {
			return "", nil
		}
		return keyIn(lookUpOne(parseJSON(body), pointer)), nil
	}
}

// keyIn is a string or a number as a key.
func keyIn(value json.RawMessage) string {
	if s := string(value); s == "true" || s == "false" {
		return ""
	}
	key, _ := text(value)
	return key
}

// FormKey is a KeyOf for an API that takes the key in a field of a form in the body, of the Content-Type
// application/x-www-form-urlencoded. A body of another one, or of none, has no key, nor has one that is no such form, longer
// than 1 MiB, or without GetBody, or a field that stands twice. An error only where GetBody or its reader fails. Safe for
// concurrent use.
func FormKey(field string) func(*http.Request) (string, error) {
	return func(req *http.Request) (string, error) {
		if !isForm(req.Header) {
			return "", nil
		}
		body, err := bodyOf(req)
		if err != nil {
			return "", err
		}
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return "", nil
		}
		return only(form[field]), nil
	}
}

func isForm(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && media == "application/x-www-form-urlencoded"
}

// QueryKey is a KeyOf for an API that takes the key in a parameter of the URL's query. A query that is not well-formed has
// none, nor has a parameter that stands twice. It never returns an error. Safe for concurrent use.
func QueryKey(parameter string) func(*http.Request) (string, error) {
	return func(req *http.Request) (string, error) {
		query, err := url.ParseQuery(req.URL.RawQuery)
		if err != nil {
			return "", nil
		}
		return only(query[parameter]), nil
	}
}

// only is the one value; none where there are several, of which nobody can say which one the API takes.
func only(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

var errBody = errors.New("the request's body could not be read")

// bodyOf is the request's body, by way of GetBody; nil where there is none, or it is too long. Its error quotes nothing: it
// is printed.
func bodyOf(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.GetBody == nil {
		return nil, nil
	}
	r, err := req.GetBody()
	if err != nil {
		return nil, errBody
	}
	if r == nil {
		return nil, nil
	}
	defer func() { _ = r.Close() }()
	body, err := io.ReadAll(io.LimitReader(r, maxKeyBody+1))
	switch {
	case err != nil:
		return nil, errBody
	case len(body) > maxKeyBody:
		return nil, nil
	}
	return body, nil
}

var (
	errNotUUID   = errors.New("it must be a UUID, in its form of 36 characters")
	errNotUUIDv4 = errors.New("it must be a UUID of version 4, in its form of 36 characters")
	errNotWord   = errors.New("it must be made of ASCII letters, digits, hyphens and underscores")
)

// UUID is a CheckKey for an API that takes only UUIDs, of any version, in the form of 36 characters and with letters of either
// case. Its error does not quote the key. Safe for concurrent use.
func UUID(key string) error {
	if len(key) != 36 {
		return errNotUUID
	}
	for i, c := range []byte(key) {
		if hyphen := i == 8 || i == 13 || i == 18 || i == 23; hyphen != (c == '-') || !hyphen && !isHex(c) {
			return errNotUUID
		}
	}
	return nil
}

// UUIDv4 is a CheckKey for an API that takes only UUIDs of version 4 (RFC 9562), such as those made here. Its error does not
// quote the key. Safe for concurrent use.
func UUIDv4(key string) error {
	if UUID(key) != nil || key[14] != '4' || strings.IndexByte("89abAB", key[19]) < 0 {
		return errNotUUIDv4
	}
	return nil
}

// Word is a CheckKey for an API that takes only ASCII letters, digits, hyphens and underscores. Its error does not quote the
// key. Safe for concurrent use.
func Word(key string) error {
	for _, c := range []byte(key) {
		if !isAlnum(c) && c != '-' && c != '_' {
			return errNotWord
		}
	}
	return nil
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}
