package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/outbound-go/outbound"
)

// maxRounds bounds how often one payment is asked for. A shop would go on for hours and then call a human.
const maxRounds = 20

// reconcileAll resolves what stayed unknown, and returns what is said of every order in the end.
func reconcileAll(client *careful, orders []order, said []claim, out display) (atLast []claim, took time.Duration) {
	atLast = slices.Clone(said)
	var unknown []int
	for i, s := range said {
		if s == claimUnknown {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return atLast, 0
	}
	bar := out.progress("reconciling", len(unknown))
	eachOf(len(unknown), func(i int) {
		at := unknown[i]
		atLast[at] = claimOf(client.reconcile(orders[at]))
		bar.step()
	})
	return atLast, bar.elapsed()
}

// reconcile finds out what became of an order that stayed unknown: it asks the gateway, and where that knows of no payment
// it sends the stored action again. Never a new one: "no payment" may only mean "not yet", and with the same key the
// worst that can happen is that the gateway says it is done already.
func (c *careful) reconcile(o order) outbound.Outcome {
	action, err := c.store.load(o.ID)
	if err != nil {
		return outbound.OutcomeUnknown
	}
	pause := outbound.FullJitter{Base: firstBackoff, Cap: 16 * firstBackoff}
	for round := range maxRounds {
		if round > 0 {
			time.Sleep(pause.Delay(round - 1))
		}
		found, err := c.lookUp(action.Key)
		if err != nil {
			continue
		}
		if found {
			return outbound.OutcomeSucceeded
		}
		if outcome := c.send(o, action); outcome != outbound.OutcomeUnknown {
			return outcome
		}
	}
	return outbound.OutcomeUnknown
}

// lookUp asks the gateway whether it has a payment with the key. It reads only, so outbound retries it freely.
func (c *careful) lookUp(key string) (found bool, err error) {
	resp, err := c.client.Get(c.url + "?key=" + url.QueryEscape(key))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	switch resp.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusNotFound:
		return false, nil
	}
	return false, fmt.Errorf("the gateway answered %s", resp.Status)
}
