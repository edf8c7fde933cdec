package outbound

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// keyIn is the key that the request carries, and how it stands in the key header. given tells that there is nothing to add:
// a key, a header without a value, or a key's place elsewhere.
func (p *Provider) keyIn(req *http.Request) (key, wire string, given bool, err error) {
	switch {
	case p.NoKeys:
		return "", "", false, nil
	case p.KeyOf == nil:
		return headerKey(req.Header, p)
	case req.URL == nil || !isWrite(methodOf(req)):
		return "", "", true, nil
	}
	if key, err = p.KeyOf(req); err != nil {
		err = why(ErrInvalidKey, "%v", err)
	}
	return key, "", true, err
}

// headerKey is the key that the caller or an SDK set, found under any spelling of the header's name. given tells a header
// without a value, which means no key, from no header at all.
func headerKey(h http.Header, p *Provider) (key, wire string, given bool, err error) {
	var values []string
	for name, vv := range h {
		if http.CanonicalHeaderKey(name) == p.KeyHeader {
			values = append(values, vv...)
			given = true
		}
	}
	for _, v := range values {
		if v != values[0] {
			return "", "", given, why(ErrInvalidKey, "the %s header has two differing values", p.KeyHeader)
		}
	}
	if len(values) == 0 || values[0] == "" {
		return "", "", given, nil
	}
	key, err = unquoteKey(values[0], p.QuoteKey)
	return key, values[0], given, err
}

// acceptKey refuses what the API would not take as a key.
func (p *Provider) acceptKey(key string) error {
	if err := checkKey(key, p.MaxKeyLength); err != nil {
		return err
	}
	if len(key) < p.MinKeyLength {
		return why(ErrInvalidKey, "it has %d characters, and at least %d are needed", len(key), p.MinKeyLength)
	}
	if p.CheckKey == nil {
		return nil
	}
	if err := p.CheckKey(key); err != nil {
		return why(ErrInvalidKey, "%v", err)
	}
	return nil
}

// refusesOwnKeys says why the API would not take a key made here.
func (p *Provider) refusesOwnKeys() error {
	if err := p.acceptKey(newKey()); err != nil {
		return why(ErrInvalidKey, "a key made here would be refused, so give one: %s", err.(*because).detail)
	}
	return nil
}

// checkKey refuses what must not be sent as a key.
func checkKey(key string, maxLength int) error {
	if key == "" {
		return why(ErrInvalidKey, "it is empty")
	}
	if len(key) > maxLength {
		return why(ErrInvalidKey, "it has %d characters, and at most %d are allowed", len(key), maxLength)
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return why(ErrInvalidKey, "the character at position %d is not visible ASCII", i+1)
		}
	}
	if looksLikeEmail(key) {
		return why(ErrInvalidKey, "it is an e-mail address, and personal data does not belong in a key")
	}
	return nil
}

func looksLikeEmail(s string) bool {
	local, domain, ok := strings.Cut(s, "@")
	dot := strings.LastIndexByte(domain, '.')
	if !ok || local == "" || dot < 1 || strings.ContainsAny(domain, "@/:") {
		return false
	}
	top := domain[dot+1:]
	return len(top) >= 2 && strings.Trim(strings.ToLower(top), "abcdefghijklmnopqrstuvwxyz") == ""
}

// wireKey is the key as it stands in the header; empty where no header carries it.
func (p *Provider) wireKey(key string) string {
	if p.KeyOf != nil {
		return ""
	}
	return quoteKey(key, p.QuoteKey)
}

// quoteKey writes a key as the String of RFC 9651 that the IETF draft asks for.
func quoteKey(key string, quoted bool) string {
	if !quoted {
		return key
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}

// unquoteKey is quoteKey's inverse. A value without quotes is taken as it is.
func unquoteKey(value string, quoted bool) (string, error) {
	if !quoted || !strings.HasPrefix(value, `"`) {
		return value, nil
	}
	key, rest, ok := scanQuoted(value[1:])
	if !ok || rest != "" {
		return "", why(ErrInvalidKey, "its quotes are not those of a structured field string")
	}
	return key, nil
}

func scanQuoted(s string) (text, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

// prepareHeader makes the header map that all attempts share. It shares the value slices with the caller's, which is never
// changed.
func (c *call) prepareHeader() {
	c.header = c.req.Header
	if c.header == nil {
		c.header = http.Header{}
	}
	if !c.write {
		return
	}
	c.header = maps.Clone(c.header)
	name := c.t.provider.KeyHeader
	deleteHeader(c.header, name)
	if !c.t.direct {
		hideFromNetHTTP(c.header) // a key of ours stays as it is, for a Base that reads or signs it
	}
	if c.wire != "" {
		c.wireValue[0] = c.wire
		c.header[name] = c.wireValue[:]
	}
	if c.t.direct {
		hideFromNetHTTP(c.header)
	}
}

// first is Header.Get for a name in canonical form, which it does not look for again.
func first(h http.Header, canonical string) string {
	if values := h[canonical]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// deleteHeader removes a header under every spelling.
func deleteHeader(h http.Header, name string) {
	for spelled := range h {
		if len(spelled) == len(name) && http.CanonicalHeaderKey(spelled) == name {
			delete(h, spelled)
		}
	}
}

// replayNames make net/http send a write again by itself when a kept connection dies: isReplayable in its request.go looks
// for them under just this spelling.
var replayNames = map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"}

func replayableByNetHTTP(h http.Header) bool {
	for name := range replayNames {
		if _, ok := h[name]; ok {
			return true
		}
	}
	return false
}

// hideFromNetHTTP moves these headers to their lower-case names, which mean the same to every server.
func hideFromNetHTTP(h http.Header) {
	for name, lower := range replayNames {
		if values, ok := h[name]; ok {
			delete(h, name)
			if already := h[lower]; len(already) > 0 {
				values = slices.Concat(already, values)
			}
			h[lower] = values
		}
	}
}
