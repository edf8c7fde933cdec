package provider_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/outbound-go/outbound"
	"github.com/outbound-go/outbound/provider"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeysInTheRequest(t *testing.T) {
	long := strings.Repeat(" ", 1<<20)
	for name, row := range map[string]struct {
		keyOf     func(*http.Request) (string, error)
		url, body string
		key       string
	}{
		"JSON":                    {provider.JSONKey("/idempotency_key"), "", `{"idempotency_key":"k-1","amount":1}`, "k-1"},
		"JSON, deeper":            {provider.JSONKey("/a/b"), "", `{"a":{"b":"k-1"}}`, "k-1"},
		"JSON, a number":          {provider.JSONKey("/a"), "", `{"a":42}`, "42"},
		"JSON, null":              {provider.JSONKey("/a"), "", `{"a":null}`, ""},
		"JSON, missing":           {provider.JSONKey("/a"), "", `{"b":"k-1"}`, ""},
		"JSON, an object":         {provider.JSONKey("/a"), "", `{"a":{}}`, ""},
		"JSON, several":           {provider.JSONKey("/*/a"), "", `[{"a":"k-1"},{"a":"k-2"}]`, ""},
		"JSON, true":              {provider.JSONKey("/a"), "", `{"a":true}`, ""},
		"JSON, twice":             {provider.JSONKey("/a"), "", `{"a":"k-1","a":"k-2"}`, ""},
		"JSON, twice, once null":  {provider.JSONKey("/a"), "", `{"a":"k-1","a":null}`, ""},
		"JSON, its parent twice":  {provider.JSONKey("/a/b"), "", `{"a":{"b":"k-1"},"a":{}}`, ""},
		"JSON, another one twice": {provider.JSONKey("/a"), "", `{"b":1,"a":"k-1","b":2}`, "k-1"},
		"JSON, and more":          {provider.JSONKey("/a"), "", `{"a":"k-1"}{"a":"k-2"}`, ""},
		"JSON, and a mark":        {provider.JSONKey("/a"), "", "\xef\xbb\xbf" + `{"a":"k-1"}`, "k-1"},
		"JSON, an element":        {provider.JSONKey("/a/1"), "", `{"a":["k-0","k-1"]}`, "k-1"},
		"JSON, no index":          {provider.JSONKey("/a/01"), "", `{"a":["k-0","k-1"]}`, ""},
		"no JSON":                 {provider.JSONKey("/a"), "", "a=k-1", ""},
		"JSON, cut off":           {provider.JSONKey("/a"), "", `{"a":"k-1"`, ""},
		"JSON, too long":          {provider.JSONKey("/a"), "", `{"a":"k-1"}` + long, ""},
		"JSON, just short enough": {provider.JSONKey("/a"), "", `{"a":"k-1"}` + long[11:], "k-1"},
		"no body":                 {provider.JSONKey("/a"), "", "", ""},
		"form":                    {provider.FormKey("IdempotencyKey"), "", "Amount=1&IdempotencyKey=k%2D1", "k-1"},
		"form, missing":           {provider.FormKey("a"), "", "b=1", ""},
		"form, several":           {provider.FormKey("a"), "", "a=1&a=2", ""},
		"no form":                 {provider.FormKey("a"), "", "a=%zz", ""},
		"query":                   {provider.QueryKey("idempotency_key"), "?idempotency_key=k-1", "", "k-1"},
		"query, missing":          {provider.QueryKey("a"), "?b=1", "", ""},
		"query, several":          {provider.QueryKey("a"), "?a=1&a=2", "", ""},
		"no query":                {provider.QueryKey("a"), "?a=1&a=%zz", "", ""},
	} {
		var body io.Reader
		if row.body != "" {
			body = strings.NewReader(row.body)
		}
		req, err := http.NewRequest(http.MethodPost, "https://api.test/"+row.url, body)
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8") // JSONKey does not care
		key, err := row.keyOf(req)
		require.NoError(t, err, name)
		assert.Equal(t, row.key, key, name)
		if body != nil {
			left, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			assert.Equal(t, len(row.body), len(left), "%s: the body itself is not read", name)
		}
	}
}

// TestFormKeyReadsFormsOnly: text in another body may look like a field.
func TestFormKeyReadsFormsOnly(t *testing.T) {
	for _, media := range []string{"", "application/json", "multipart/form-data; boundary=b", "application/x-www-form-urlencoded2", ";"} {
		req, err := http.NewRequest(http.MethodPost, "https://api.test/", strings.NewReader(`{"note":"a&request_id=k-1&b"}`))
		require.NoError(t, err)
		if media != "" {
			req.Header.Set("Content-Type", media)
		}
		key, err := provider.FormKey("request_id")(req)
		require.NoError(t, err)
		assert.Empty(t, key, media)
	}
}

func TestABodyThatCannotBeReadAgainHasNoKey(t *testing.T) {
	req, err := http.NewRequest(http.MethodPost, "https://api.test/", io.NopCloser(strings.NewReader(`{"a":"k"}`)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, keyOf := range []func(*http.Request) (string, error){provider.JSONKey("/a"), provider.FormKey("a")} {
		key, err := keyOf(req)
		require.NoError(t, err)
		assert.Empty(t, key)
	}
	req.GetBody = func() (io.ReadCloser, error) { return nil, nil }
	key, err := provider.JSONKey("/a")(req)
	require.NoError(t, err)
	assert.Empty(t, key)
}

// TestErrorsQuoteNoBody: they are printed.
func TestErrorsQuoteNoBody(t *testing.T) {
	secret := errors.New("card 4242424242424242")
	for name, getBody := range map[string]func() (io.ReadCloser, error){
		"GetBody": func() (io.ReadCloser, error) { return nil, secret },
		"its reader": func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader([]byte("x")), failing{secret})), nil
		},
	} {
		req, err := http.NewRequest(http.MethodPost, "https://api.test/", strings.NewReader("x"))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.GetBody = getBody
		for _, keyOf := range []func(*http.Request) (string, error){provider.JSONKey("/a"), provider.FormKey("a")} {
			_, err = keyOf(req)
			require.Error(t, err, name)
			assert.NotContains(t, err.Error(), "4242", name)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestAKeyInTheBodyProtects, as one in a header does.
func TestAKeyInTheBodyProtects(t *testing.T) {
	square := outbound.Provider{KeyOf: provider.JSONKey("/idempotency_key"), MaxKeyLength: 45}
	got := call(t, square, nil, http.MethodPost, "https://api.test/v2/payments", `{"idempotency_key":"order-42"}`, lost, says(500, ""), done)
	verdict{succeeded, 3, 0}.check(t, got)
	assert.Equal(t, "order-42", got.IdempotencyKey)
	assert.Empty(t, got.api.headers[0])
	assert.Equal(t, []string{`{"idempotency_key":"order-42"}`, `{"idempotency_key":"order-42"}`, `{"idempotency_key":"order-42"}`}, got.api.bodies)

	verdict{unknown, 1, 0}.check(t, call(t, square, nil, http.MethodPost, "https://api.test/v2/payments", `{}`, lost, done))
}

func TestKeyChecks(t *testing.T) {
	const v4, v1 = "8e03978e-40d5-43e8-bc93-6894a57f9324", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	for name, row := range map[string]struct {
		check             func(string) error
		accepted, refused []string
	}{
		"UUID": {provider.UUID, []string{v4, v1, strings.ToUpper(v4), outbound.NewIdempotencyKey()}, []string{
			"", "x", v4[:35], v4 + "0", "{" + v4[:34] + "}", strings.ReplaceAll(v4, "-", ""), strings.Replace(v4, "8", "g", 1),
			"8e03978e40d5-43e8-bc93-6894a57f93240", strings.Replace(v4, "-", "0", 1), "-" + v4[1:],
		}},
		"UUIDv4": {provider.UUIDv4, []string{v4, strings.ToUpper(v4), outbound.NewIdempotencyKey()}, []string{
			v1, "x", "8e03978e-40d5-53e8-bc93-6894a57f9324", "8e03978e-40d5-43e8-7c93-6894a57f9324", "8e03978e-40d5-43e8-cc93-6894a57f9324",
		}},
		"Word": {provider.Word, []string{"order_42-A", v4}, []string{"order 42", "order.42", "order/42", "käse", "order@42", "a[", "a`", "a{"}},
	} {
		for _, key := range row.accepted {
			assert.NoError(t, row.check(key), "%s, %s", name, key)
		}
		for _, key := range row.refused {
			err := row.check(key)
			if assert.Error(t, err, "%s, %s", name, key) && len(key) > 1 {
				assert.NotContains(t, err.Error(), key)
			}
		}
	}
}

func TestMistypedPointerPanics(t *testing.T) {
	for _, pointer := range []string{"", "idempotency_key", "/a~", "/a~2", "/~~0", "/a/~1/~"} {
		assert.Panics(t, func() { provider.JSONKey(pointer) }, pointer)
	}
	for _, pointer := range []string{"/", "//", "/a~0", "/~1~0", "/~01", "/-"} {
		assert.NotPanics(t, func() { provider.JSONKey(pointer) }, pointer)
	}
}
