package outbound

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// safeText is the text of err as far as it can hold no secret. Errors of our own and of the standard library's network
// packages are printed, of a *url.Error only what it wraps, since it quotes the query; of any other error only the type,
// and then what it wraps.
func safeText(err error) string {
	if err == nil {
		return ""
	}
	if own, ok := err.(interface{ safeText() string }); ok {
		return own.safeText()
	}
	if u, ok := err.(*url.Error); ok {
		return safeText(u.Err)
	}
	if printable(err) {
		return err.Error()
	}
	text := knownBeginning(err)
	for _, inner := range unwrapAll(err) {
		text += ": " + safeText(inner)
	}
	return text
}

// knownBeginning is the part of a text of net/http's that quotes nothing, else only the error's type.
func knownBeginning(err error) string {
	for _, prefix := range knownPrefixes {
		if strings.HasPrefix(err.Error(), prefix) {
			return prefix
		}
	}
	if stream, cause, ok := strings.Cut(err.Error(), "; "); ok && strings.HasPrefix(stream, "stream error: ") {
		code, _, _ := strings.Cut(cause, ";") // what follows the code may quote a header
		return stream + "; " + code
	}
	return fmt.Sprintf("%T", err)
}

// printable reports whether err and all that it wraps come from packages whose texts we know: an error prints what it
// wraps, so one stranger inside is enough to hide it all.
func printable(err error) bool {
	if slices.Contains(knownErrors, err) || slices.Contains(knownTexts, err.Error()) {
		return true
	}
	if !knownPackage(reflect.TypeOf(err)) {
		return false
	}
	for _, inner := range unwrapAll(err) {
		if !printable(inner) {
			return false
		}
	}
	return true
}

// knownErrors were made by errors.New, so that their type does not tell where they come from.
var knownErrors = []error{
	io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, io.ErrNoProgress,
	context.Canceled, context.DeadlineExceeded, net.ErrClosed,
	http.ErrBodyReadAfterClose, http.ErrServerClosed, http.ErrSchemeMismatch, http.ErrLineTooLong, http.ErrUseLastResponse,
}

// knownTexts are whole texts of net/http's errors that are neither exported nor of a type of their own.
var knownTexts = []string{
	"http: server closed idle connection", "net/http: request canceled", "http2: client conn is closed", "http2: client connection lost",
	"http2: client conn could not be established", "invalid byte in chunk length", "http chunk length too large",
	"http: suspiciously long trailer after chunked body", "http: unexpected EOF reading trailer", "gzip: invalid header",
	"Proxy Authentication Required", "Forbidden", "Bad Gateway", "Service Unavailable", "Gateway Timeout",
}

// knownPrefixes begin net/http's errors about a reply; what follows them quotes it, and is left out.
var knownPrefixes = []string{
	"malformed HTTP response", "malformed HTTP status code", "malformed HTTP version", "malformed MIME header", "malformed chunked encoding",
	"bad Content-Length", "http: message cannot contain multiple Content-Length headers", "unsupported transfer encoding", "too many transfer encodings",
	"net/http: server response headers exceeded", "bad trailer key", "net/http: HTTP/1.x transport connection broken",
}

// knownPackage reports whether t is a type of net, net/http, crypto, context, io, syscall, or of what they are built on.
// net/textproto is left out: it quotes header lines.
func knownPackage(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if quotingTypes[t.Name()] {
		return false
	}
	pkg := t.PkgPath()
	switch pkg {
	case "net", "net/http", "context", "io", "syscall", "os", "internal/poll":
		return true
	}
	return pkg == "crypto" || strings.HasPrefix(pkg, "crypto/")
}

// quotingTypes are those of net/http and net/textproto whose texts quote what the server sent.
var quotingTypes = map[string]bool{"http2GoAwayError": true, "badStringError": true, "unsupportedTEError": true, "ProtocolError": true,
	"http2StreamError": true, "http2headerFieldNameError": true, "http2headerFieldValueError": true}

// quotes reports whether the text of err quotes what the server sent.
func quotes(err error) bool {
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return quotingTypes[t.Name()] || slices.ContainsFunc(unwrapAll(err), quotes)
}

func unwrapAll(err error) []error {
	switch u := err.(type) {
	case interface{ Unwrap() []error }:
		return slices.DeleteFunc(slices.Clone(u.Unwrap()), func(e error) bool { return e == nil })
	case interface{ Unwrap() error }:
		if inner := u.Unwrap(); inner != nil {
			return []error{inner}
		}
	}
	return nil
}

// safeURL is scheme, host and path of u.
func safeURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return placeOf(u).String()
}

// place is what may be said of a URL.
type place struct{ scheme, host, path, rawPath string }

func placeOf(u *url.URL) place {
	if u == nil {
		return place{}
	}
	return place{u.Scheme, u.Host, u.Path, u.RawPath}
}

func (p place) url() *url.URL {
	return &url.URL{Scheme: p.scheme, Host: p.host, Path: p.path, RawPath: p.rawPath}
}

func (p place) String() string { return p.url().String() }
