package provider

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/outbound-go/outbound"
)

// Rule is one row of a table of answers: which answers it speaks of, and what they mean. All conditions that are set must
// hold; the zero value speaks of every answer. Make a Provider's Judge of rows with [Rules].
type Rule struct {
	// Method is the request's method, in upper case. Inside a Transport the answer's Request is always what was sent; of an
	// answer without a Request, as in a test, such a row does not speak. Default: any.
	Method string
	// Status is the answer's status, or the first digit of a whole class: 409, or 5 for 500 to 599. Default: any.
	Status int
	// Header is a header that the answer has. Default: none is asked for.
	Header string
	// Value is what the header says, in letters of either case; space around it in the answer does not count. Default:
	// anything.
	Value string
	// Field is a place in a JSON body, as a JSON pointer (RFC 6901): "/error/code". The token "*" stands for each element of
	// an array; a member that stands twice counts twice. A body that is no JSON, was cut off, is not shown to Judge, or is
	// compressed, because the caller asked for that in an Accept-Encoding of its own, has no fields. Of an answer outside
	// 2xx whose body broke off, a row with a Field that speaks of it otherwise ends the table: it is left to the default rules. Default: the body is not looked at.
	Field string
	// Codes are what the string, the number, or true or false there may be, letter for letter: "704" is 704 and "704".
	// Default: anything but null, an array or an object too.
	Codes []string
	// Then is what such an answer means. What it leaves at zero is left to the default rules.
	Then outbound.Verdict
	// Wait reads from the answer how long to wait at least; the larger of it and Then.MinWait counts. It gets what Judge gets,
	// and must not read the answer's Body. Zero and negative: no wait. Default: nil, Then.MinWait alone.
	Wait func(resp *http.Response, body []byte) time.Duration
}

// Rules makes the Judge of an [outbound.Provider] of a table: the first row that speaks of an answer decides, and an answer that none
// speaks of is left to the default rules. The Judge is safe for concurrent use, and panics at no answer.
//
// A table that was mistyped panics here, where it is made: a Field that is no JSON pointer, Codes without a Field, a Value
// without a Header or with space around it, a Status that is none, a Method in lower case.
func Rules(rules ...Rule) func(resp *http.Response, body []byte) outbound.Verdict {
	rules = slices.Clone(rules)
	for i := range rules {
		if fault := rules[i].fault(); fault != "" {
			panic(fmt.Sprintf("provider: row %d of a table: %s", i, fault))
		}
	}
	return func(resp *http.Response, body []byte) outbound.Verdict {
		a := answer{resp: resp, body: body}
		for i := range rules {
			switch r := &rules[i]; {
			case !r.maySpeakOf(resp):
			case r.Field != "" && body == nil && !isSuccess(resp.StatusCode):
				return outbound.Verdict{} // what the lost body said decides
			case r.hasField(&a):
				return r.verdict(&a)
			}
		}
		return outbound.Verdict{}
	}
}

// fault says why a row can't mean what it says.
func (r *Rule) fault() string {
	switch {
	case r.Method != strings.ToUpper(r.Method):
		return fmt.Sprintf("the method %q is not in upper case", r.Method)
	case r.Status < 0 || r.Status > 5 && r.Status < 100 || r.Status > 599:
		return fmt.Sprintf("%d is no status and no class of them", r.Status)
	case r.Value != "" && r.Header == "":
		return fmt.Sprintf("the value %q has no header", r.Value)
	case r.Value != strings.TrimSpace(r.Value):
		return fmt.Sprintf("the value %q has space around it, which no answer's has", r.Value)
	case r.Field != "" && !isPointer(r.Field):
		return fmt.Sprintf("%q is no JSON pointer", r.Field)
	case len(r.Codes) > 0 && r.Field == "":
		return fmt.Sprintf("the codes %q have no field", r.Codes)
	}
	return ""
}

// answer is what the rows look at. Its body is parsed when the first row asks for a field.
type answer struct {
	resp   *http.Response
	body   []byte
	parsed bool
	doc    json.RawMessage
}

func (a *answer) values(pointer string) []json.RawMessage {
	if !a.parsed {
		a.doc, a.parsed = parseJSON(a.body), true
	}
	return lookUp(a.doc, pointer)
}

func isSuccess(status int) bool { return status >= 200 && status <= 299 }

// maySpeakOf reports whether a row speaks of an answer as far as its body does not matter.
func (r *Rule) maySpeakOf(resp *http.Response) bool {
	return r.hasMethod(resp.Request) && r.hasStatus(resp.StatusCode) && r.hasHeader(resp.Header)
}

func (r *Rule) hasMethod(req *http.Request) bool {
	return r.Method == "" || req != nil && cmp.Or(req.Method, http.MethodGet) == r.Method
}

func (r *Rule) hasStatus(status int) bool {
	return r.Status == 0 || r.Status == status || r.Status == status/100
}

func (r *Rule) hasHeader(h http.Header) bool {
	if r.Header == "" {
		return true
	}
	return slices.ContainsFunc(h.Values(r.Header), func(value string) bool {
		return r.Value == "" || strings.EqualFold(strings.TrimSpace(value), r.Value)
	})
}

func (r *Rule) hasField(a *answer) bool {
	if r.Field == "" {
		return true
	}
	return slices.ContainsFunc(a.values(r.Field), r.hasCode)
}

func (r *Rule) hasCode(value json.RawMessage) bool {
	if len(r.Codes) == 0 {
		return !isNull(value)
	}
	code, ok := text(value)
	return ok && slices.Contains(r.Codes, code)
}

func (r *Rule) verdict(a *answer) outbound.Verdict {
	v := r.Then
	if r.Wait != nil {
		v.MinWait = max(v.MinWait, r.Wait(a.resp, a.body))
	}
	return v
}
