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
	inner := unwrapAll(err)
	if len(inner) == 0 {
		return fmt.Sprintf("%T", err)
	}
	texts := make([]string, len(inner))
	for i, e := range inner {
		texts[i] = safeText(e)
	}
	return fmt.Sprintf("%T: %s", err, strings.Join(texts, "; "))
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
	"http2: client conn could not be established", "Proxy Authentication Required", "Forbidden", "Bad Gateway", "Service Unavailable", "Gateway Timeout",
}

// knownPackage reports whether t is a type of net, net/http, crypto, context, io, syscall, or of what they are built on.
// net/textproto is left out: it quotes header lines.
func knownPackage(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name := t.Name(); name == "http2GoAwayError" || name == "badStringError" {
		return false // they quote what the server sent
	}
	pkg := t.PkgPath()
	switch pkg {
	case "net", "net/http", "context", "io", "syscall", "os", "internal/poll":
		return true
	}
	return pkg == "crypto" || strings.HasPrefix(pkg, "crypto/")
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
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
