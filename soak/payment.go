package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/outbound-go/outbound"
)

// payment is one order that is to be paid: one action, stored before its first byte leaves.
type payment struct {
	order  string
	amount int
	lane   int
	key    string
	stored []byte // the action as JSON, so that reading it back is what it would be after a restart
	said   outbound.Outcome
	last   outbound.Outcome
}

func (p *payment) claim() Claim { return Claim{Order: p.order, Key: p.key, Said: p.said, Last: p.last} }

// request is the same at every try, byte by byte.
func (p *payment) request(ctx context.Context, to string) (*http.Request, error) {
	body := fmt.Appendf(nil, `{"amount":%d,"currency":"EUR","order":%q}`, p.amount, p.order)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}

// open makes the payment's action, binds it to the request and stores it.
func (p *payment) open(to string) (*outbound.Action, error) {
	action := outbound.NewAction()
	req, err := p.request(context.Background(), to)
	if err != nil {
		return nil, err
	}
	if err := action.Bind(req); err != nil {
		return nil, err
	}
	p.key = action.Key
	p.stored, err = json.Marshal(action)
	return action, err
}

// resume reads the stored action back.
func (p *payment) resume() (*outbound.Action, error) {
	var action outbound.Action
	err := json.Unmarshal(p.stored, &action)
	return &action, err
}

// send sends the payment under its action, for the first time or once more, and says how that ended.
func (p *payment) send(ctx context.Context, client *http.Client, to string, action *outbound.Action) (outbound.Report, error) {
	req, err := p.request(outbound.WithAction(ctx, action), to)
	if err != nil {
		return outbound.Report{}, err
	}
	resp, err := client.Do(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // a body that breaks off is in the outcome
		_ = resp.Body.Close()
	}
	report, ok := outbound.ReportOf(resp, err)
	if !ok {
		return report, fmt.Errorf("a call ended without a report: %w", err)
	}
	if got := outbound.OutcomeOf(resp, err); got != report.Outcome {
		return report, fmt.Errorf("OutcomeOf says %q and the report %q", got, report.Outcome)
	}
	return report, nil
}

// maxRounds bounds how often one payment is asked for. A shop would go on for hours and then call a human.
const maxRounds = 30

var roundPause = outbound.FullJitter{Base: 10 * time.Millisecond, Cap: 200 * time.Millisecond}

// reconcile finds out what became of a payment that stayed unknown: it asks for it by its key, and where there is none it
// sends the stored action again. Never a new one: "no payment" may only mean "not yet".
func (p *payment) reconcile(ctx context.Context, client *http.Client, to string) (outbound.Outcome, error) {
	action, err := p.resume()
	if err != nil {
		return outbound.OutcomeUnknown, err
	}
	for round := range maxRounds {
		if round > 0 && !pause(ctx, roundPause.Delay(round-1)) {
			break
		}
		found, err := lookUp(ctx, client, to, p.key)
		if err != nil {
			continue
		}
		if found {
			return outbound.OutcomeSucceeded, nil
		}
		report, err := p.send(ctx, client, to, action)
		if err != nil || report.Outcome != outbound.OutcomeUnknown {
			return report.Outcome, err
		}
	}
	return outbound.OutcomeUnknown, nil
}

// lookUp asks the gateway whether it has a payment with the key.
func lookUp(ctx context.Context, client *http.Client, to, key string) (found bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to+"?key="+url.QueryEscape(key), nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	switch resp.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusNotFound:
		return false, nil
	}
	return false, fmt.Errorf("the gateway answered %s", resp.Status)
}
