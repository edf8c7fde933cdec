package provider_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/provider"
	"github.com/stretchr/testify/assert"
)

var hit = outbound.Verdict{Next: outbound.NextStop}

// answer is what a Judge is given.
func answer(status int, headers ...string) *http.Response {
	r := says(status, "", headers...)
	return &http.Response{StatusCode: r.status, Header: r.header, Request: &http.Request{Method: http.MethodPost}}
}

func TestRuleConditions(t *testing.T) {
	for name, row := range map[string]struct {
		rule    provider.Rule
		resp    *http.Response
		body    string
		matches bool
	}{
		"zero value":                          {provider.Rule{}, answer(200), "", true},
		"status":                              {provider.Rule{Status: 409}, answer(409), "", true},
		"another status":                      {provider.Rule{Status: 409}, answer(408), "", false},
		"class":                               {provider.Rule{Status: 5}, answer(599), "", true},
		"another class":                       {provider.Rule{Status: 5}, answer(499), "", false},
		"method":                              {provider.Rule{Method: "POST"}, answer(200), "", true},
		"another method":                      {provider.Rule{Method: "PATCH"}, answer(200), "", false},
		"no request":                          {provider.Rule{Method: "POST"}, &http.Response{StatusCode: 200}, "", false},
		"no headers":                          {provider.Rule{Header: "X"}, &http.Response{StatusCode: 200}, "", false},
		"header":                              {provider.Rule{Header: "x-a"}, answer(200, "X-A", ""), "", true},
		"header and value":                    {provider.Rule{Header: "X-A", Value: "True"}, answer(200, "X-A", " tRUE\t"), "", true},
		"header, another value":               {provider.Rule{Header: "X-A", Value: "true"}, answer(200, "X-A", "truer"), "", false},
		"all conditions":                      {provider.Rule{Status: 4, Header: "X-A", Field: "/a", Codes: []string{"b"}}, answer(400, "X-A", "1"), `{"a":"b"}`, true},
		"all but one":                         {provider.Rule{Status: 4, Header: "X-A", Field: "/a", Codes: []string{"b"}}, answer(400), `{"a":"b"}`, false},
		"field":                               {provider.Rule{Field: "/a/b"}, answer(400), `{"a":{"b":"c"}}`, true},
		"no such field":                       {provider.Rule{Field: "/a/c"}, answer(400), `{"a":{"b":"c"}}`, false},
		"null":                                {provider.Rule{Field: "/a"}, answer(400), `{"a":null}`, false},
		"an object":                           {provider.Rule{Field: "/a"}, answer(400), `{"a":{}}`, true},
		"an array":                            {provider.Rule{Field: "/errors"}, answer(200), `{"errors":[{"message":"x"}]}`, true},
		"false":                               {provider.Rule{Field: "/a"}, answer(400), `{"a":false}`, true},
		"an object is no code":                {provider.Rule{Field: "/a", Codes: []string{"{}"}}, answer(400), `{"a":{}}`, false},
		"null is no code":                     {provider.Rule{Field: "/a", Codes: []string{"null"}}, answer(400), `{"a":null}`, false},
		"true as a code":                      {provider.Rule{Field: "/a", Codes: []string{"true"}}, answer(400), `{"a":true}`, true},
		"false is another code":               {provider.Rule{Field: "/a", Codes: []string{"true"}}, answer(400), `{"a":false}`, false},
		"twice":                               {provider.Rule{Field: "/a", Codes: []string{"x"}}, answer(400), `{"a":"x","a":"y"}`, true},
		"a byte order mark":                   {provider.Rule{Field: "/a", Codes: []string{"x"}}, answer(400), "\xef\xbb\xbf" + `{"a":"x"}`, true},
		"compressed":                          {provider.Rule{Field: "/a"}, answer(400, "Content-Encoding", "gzip"), "\x1f\x8b" + `{"a":"x"}`, false},
		"a leading zero is no index":          {provider.Rule{Field: "/a/01"}, answer(400), `{"a":["x","y"]}`, false},
		"a sign is no index":                  {provider.Rule{Field: "/a/+1"}, answer(400), `{"a":["x","y"]}`, false},
		"beyond the last element":             {provider.Rule{Field: "/a/-"}, answer(400), `{"a":["x"]}`, false},
		"a member named like an index":        {provider.Rule{Field: "/a/01"}, answer(400), `{"a":{"01":"x"}}`, true},
		"GET, said by its absence":            {provider.Rule{Method: "GET"}, &http.Response{StatusCode: 200, Request: &http.Request{}}, "", true},
		"code":                                {provider.Rule{Field: "/a", Codes: []string{"x", "y"}}, answer(400), `{"a":"y"}`, true},
		"code in other letters":               {provider.Rule{Field: "/a", Codes: []string{"Y"}}, answer(400), `{"a":"y"}`, false},
		"number":                              {provider.Rule{Field: "/a", Codes: []string{"704"}}, answer(400), `{"a":704}`, true},
		"a long number":                       {provider.Rule{Field: "/a", Codes: []string{"12345678901234567890"}}, answer(400), `{"a":12345678901234567890}`, true},
		"escapes":                             {provider.Rule{Field: "/a~1b/~0~01"}, answer(400), `{"a/b":{"~~1":"x"}}`, true},
		"empty member":                        {provider.Rule{Field: "/"}, answer(400), `{"":"x"}`, true},
		"below an empty member":               {provider.Rule{Field: "//a"}, answer(400), `{"":{"a":"x"}}`, true},
		"element":                             {provider.Rule{Field: "/a/1", Codes: []string{"y"}}, answer(400), `{"a":["x","y"]}`, true},
		"beyond the elements":                 {provider.Rule{Field: "/a/2"}, answer(400), `{"a":["x","y"]}`, false},
		"far beyond":                          {provider.Rule{Field: "/a/99999999999999999999"}, answer(400), `{"a":["x"]}`, false},
		"no index":                            {provider.Rule{Field: "/a/-1"}, answer(400), `{"a":["x"]}`, false},
		"each element":                        {provider.Rule{Field: "/a/*/b", Codes: []string{"y"}}, answer(400), `{"a":[{"b":"x"},7,[],{"b":"y"}]}`, true},
		"each of none":                        {provider.Rule{Field: "/a/*/b"}, answer(400), `{"a":[]}`, false},
		"a star is no wild card in an object": {provider.Rule{Field: "/*"}, answer(400), `{"a":"x"}`, false},
		"the document is an array":            {provider.Rule{Field: "/0/a"}, answer(400), `[{"a":"x"}]`, true},
		"the document is a string":            {provider.Rule{Field: "/a"}, answer(400), `"a"`, false},
		"no body":                             {provider.Rule{Field: "/a"}, answer(400), "", false},
		"no JSON":                             {provider.Rule{Field: "/a"}, answer(400), "<html>", false},
		"cut off":                             {provider.Rule{Field: "/a"}, answer(400), `{"a":"b","c":"` + strings.Repeat("x", 64<<10), false},
		"deeply nested":                       {provider.Rule{Field: "/a"}, answer(400), strings.Repeat("[", 1<<16), false},
	} {
		rule := row.rule
		rule.Then = hit
		assert.Equal(t, row.matches, provider.Rules(rule)(row.resp, []byte(row.body)) == hit, name)
	}
}

func TestFirstRowDecides(t *testing.T) {
	wait := func(v outbound.Verdict) time.Duration { return v.MinWait }
	judge := provider.Rules(
		provider.Rule{Status: 409, Field: "/code", Codes: []string{"busy"}, Then: outbound.Verdict{MinWait: 1}},
		provider.Rule{Status: 409, Then: outbound.Verdict{MinWait: 2}},
		provider.Rule{Status: 4, Then: outbound.Verdict{MinWait: 3}},
	)
	assert.EqualValues(t, 1, wait(judge(answer(409), []byte(`{"code":"busy"}`))))
	assert.EqualValues(t, 2, wait(judge(answer(409), []byte(`{"code":"other"}`))))
	assert.EqualValues(t, 3, wait(judge(answer(400), nil)))
	assert.Zero(t, judge(answer(500), nil), "no row: the default rules")
	assert.Zero(t, provider.Rules()(answer(500), nil))
}

func TestTheLongerWaitCounts(t *testing.T) {
	for read, want := range map[time.Duration]time.Duration{-time.Second: time.Minute, 0: time.Minute, time.Hour: time.Hour} {
		judge := provider.Rules(provider.Rule{
			Then: outbound.Verdict{MinWait: time.Minute},
			Wait: func(resp *http.Response, body []byte) time.Duration {
				assert.Equal(t, 503, resp.StatusCode)
				assert.Equal(t, "text", string(body))
				return read
			},
		})
		assert.Equal(t, want, judge(answer(503), []byte("text")).MinWait)
	}
}

func TestATableIsCopied(t *testing.T) {
	rows := []provider.Rule{{Then: hit}}
	judge := provider.Rules(rows...)
	rows[0].Then = outbound.Verdict{}
	assert.Equal(t, hit, judge(answer(200), nil))
}

func TestMistypedTablesPanic(t *testing.T) {
	for text, rule := range map[string]provider.Rule{
		"no JSON pointer":      {Field: "error/code"},
		"have no field":        {Codes: []string{"x"}},
		"has no header":        {Value: "x"},
		"600 is no status":     {Status: 600},
		"-1 is no status":      {Status: -1},
		"44 is no status":      {Status: 44},
		"is not in upper case": {Method: "post"},
		"has space around it":  {Header: "X", Value: " true"},
		`"/a~2" is no JSON`:    {Field: "/a~2"},
	} {
		said := panicOf(func() { provider.Rules(provider.Rule{}, rule) })
		assert.Contains(t, said, text)
		assert.Contains(t, said, "row 1 ")
	}
}

func panicOf(f func()) (said any) {
	defer func() { said = recover() }()
	f()
	return ""
}

// TestALostBodyEndsTheTable, and one that is not there, or not shown, does not.
func TestALostBodyEndsTheTable(t *testing.T) {
	judge := provider.Rules(
		provider.Rule{Status: 409, Field: "/code", Codes: []string{"busy"}, Then: outbound.Verdict{Next: outbound.NextRetry}},
		provider.Rule{Field: "/status", Codes: []string{"failed"}, Then: outbound.Verdict{Says: outbound.SaysRejected}},
		provider.Rule{Status: 409, Then: outbound.Verdict{Next: outbound.NextStop}},
		provider.Rule{Status: 202, Then: outbound.Verdict{Next: outbound.NextRetry}},
	)
	for _, row := range []struct {
		status int
		body   []byte
		next   outbound.Next
	}{
		{409, nil, outbound.NextDefault}, {409, []byte{}, outbound.NextStop}, {409, []byte(`{"code":"busy"}`), outbound.NextRetry},
		{202, nil, outbound.NextRetry}, {202, []byte{}, outbound.NextRetry},
	} {
		got := judge(&http.Response{StatusCode: row.status, Header: http.Header{}}, row.body)
		assert.Equal(t, row.next, got.Next, "%d %q", row.status, row.body)
	}
}
