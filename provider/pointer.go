package provider

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
)

// parseJSON reads the first JSON value; nil where it is none, or breaks off. Numbers keep their digits.
func parseJSON(r io.Reader) any {
	d := json.NewDecoder(r)
	d.UseNumber()
	var doc any
	if d.Decode(&doc) != nil {
		return nil
	}
	return doc
}

func isPointer(s string) bool { return strings.HasPrefix(s, "/") }

// lookUp returns the strings and numbers at a JSON pointer: one or none, but for a "*", which stands for each element of an
// array.
func lookUp(doc any, pointer string) []string {
	if pointer == "" {
		return scalar(doc)
	}
	token, rest := cutToken(pointer)
	switch v := doc.(type) {
	case map[string]any:
		return lookUp(v[token], rest)
	case []any:
		return lookUpIn(v, token, rest)
	}
	return nil
}

func lookUpIn(array []any, token, rest string) []string {
	if token != "*" {
		i, err := strconv.ParseUint(token, 10, 31)
		if err != nil || i >= uint64(len(array)) {
			return nil
		}
		return lookUp(array[i], rest)
	}
	var found []string
	for _, element := range array {
		found = append(found, lookUp(element, rest)...)
	}
	return found
}

func scalar(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case json.Number:
		return []string{v.String()}
	}
	return nil
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// cutToken takes the first token off a pointer that is not empty.
func cutToken(pointer string) (token, rest string) {
	token = pointer[1:]
	if i := strings.IndexByte(token, '/'); i >= 0 {
		token, rest = token[:i], token[i:]
	}
	return unescape.Replace(token), rest
}
