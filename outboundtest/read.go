package outboundtest

import (
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
)

var (
	errNotObject = errors.New("the body is not a JSON object")
	errNotForm   = errors.New("the body is not a form")
)

type fields = map[string]json.RawMessage

// readObject reads a body that is any JSON object. It ignores a field that is
// not of its type.
func readObject(body []byte) (Payment, error) {
	f, err := object(body)
	return payment(f), err
}

// readJSON is readObject for a body that may hold the order in its metadata.
func readJSON(body []byte) (Payment, error) {
	f, err := object(body)
	return paymentWithMetadata(f), err
}

// readEnvelope is readJSON for a body that may hold the payment in the member
// of that name.
func readEnvelope(name string) func(body []byte) (Payment, error) {
	return func(body []byte) (Payment, error) {
		f, err := object(body)
		if inner, inErr := object(f[name]); inErr == nil {
			f = inner
		}
		return paymentWithMetadata(f), err
	}
}

// readForm reads a form with at least one value in it.
func readForm(body []byte) (Payment, error) {
	form, err := url.ParseQuery(string(body))
	if err != nil || !hasValue(form) {
		return Payment{}, errNotForm
	}
	amount, _ := strconv.ParseInt(form.Get("amount"), 10, 64) // 0 if it is no whole number
	p := Payment{Amount: amount, Currency: form.Get("currency"), Order: form.Get("order"), Status: "succeeded"}
	if p.Order == "" {
		p.Order = form.Get("metadata[order]")
	}
	return p, nil
}

func hasValue(form url.Values) bool {
	for name := range form {
		if form.Get(name) != "" {
			return true
		}
	}
	return false
}

func object(body []byte) (fields, error) {
	var f fields
	if err := json.Unmarshal(body, &f); err != nil || f == nil {
		return nil, errNotObject
	}
	return f, nil
}

func payment(f fields) Payment {
	return Payment{
		Amount:   field[int64](f, "amount"),
		Currency: field[string](f, "currency"),
		Order:    field[string](f, "order"),
		Status:   "succeeded",
	}
}

func paymentWithMetadata(f fields) Payment {
	p := payment(f)
	if p.Order == "" {
		p.Order = field[string](field[fields](f, "metadata"), "order")
	}
	return p
}

// field returns the field's value, or zero if it has none of that type.
func field[T any](f fields, name string) T {
	var v, zero T
	if err := json.Unmarshal(f[name], &v); err != nil {
		return zero
	}
	return v
}
