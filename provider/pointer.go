package provider

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// parseJSON is the first JSON value of a text; nil where it is none, or breaks off. Some servers begin it with a byte order
// mark.
func parseJSON(text []byte) json.RawMessage {
	var doc json.RawMessage
	if json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, byteOrderMark))).Decode(&doc) != nil {
		return nil
	}
	return doc
}

var escapes = strings.NewReplacer("~0", "", "~1", "")

// isPointer reports whether s is a JSON pointer, but for the empty one.
func isPointer(s string) bool {
	return strings.HasPrefix(s, "/") && !strings.Contains(escapes.Replace(s), "~")
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// tokens are the parts of a pointer.
func tokens(pointer string) []string {
	all := strings.Split(pointer[1:], "/")
	for i := range all {
		all[i] = unescape.Replace(all[i])
	}
	return all
}

// lookUp returns what stands at a JSON pointer, null too: one value or none, but more where a "*" stands for each element of
// an array, or where a member stands twice.
func lookUp(doc json.RawMessage, pointer string) []json.RawMessage {
	found := []json.RawMessage{doc}
	for _, token := range tokens(pointer) {
		var below []json.RawMessage
		for _, value := range found {
			below = append(below, step(value, token)...)
		}
		found = below
	}
	return found
}

// lookUpOne is lookUp for a place that can be only one; nil where there are several, of which nobody can say which one an API
// takes.
func lookUpOne(doc json.RawMessage, pointer string) json.RawMessage {
	for _, token := range tokens(pointer) {
		found := step(doc, token)
		if len(found) != 1 {
			return nil
		}
		doc = found[0]
	}
	return doc
}

// step returns the members of that name, or the elements of that index.
func step(value json.RawMessage, token string) (found []json.RawMessage) {
	array := bytes.HasPrefix(value, []byte("["))
	if !array && !bytes.HasPrefix(value, []byte("{")) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	_, _ = d.Token() // the bracket; the value is known to be JSON
	for i := 0; d.More(); i++ {
		name := strconv.Itoa(i)
		if !array {
			member, _ := d.Token()
			name, _ = member.(string)
		}
		var below json.RawMessage
		if d.Decode(&below) != nil {
			return nil
		}
		if name == token || array && token == "*" {
			found = append(found, below)
		}
	}
	return found
}

// text is what a string says, or a number, true or false as it stands there; ok is false for any other value.
func text(value json.RawMessage) (s string, ok bool) {
	if len(value) == 0 {
		return "", false
	}
	switch value[0] {
	case '{', '[', 'n':
		return "", false
	case '"':
		err := json.Unmarshal(value, &s)
		return s, err == nil
	default:
		return string(value), true
	}
}

func isNull(value json.RawMessage) bool { return string(value) == "null" }
