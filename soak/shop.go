package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"

	"github.com/outbound-go/outbound"
)

// shopConfig is what the paying process is told.
type shopConfig struct {
	URL     string `json:"url"`
	Journal string `json:"journal"`
	Life    int    `json:"life"`
	Drain   bool   `json:"drain"` // pay what is stored and make no new orders
}

// cashiers is how many payments the shop makes at once.
const cashiers = 4

// shop is the paying process. It expects to be killed at any moment.
type shop struct {
	cfg     shopConfig
	journal *journal
	client  *http.Client
	orders  atomic.Int64 // made so far, in all lives
}

// runShop is the child's side: it resumes what its forerunners stored, and makes new payments until it is killed.
func runShop(in io.Reader, out io.Writer) error {
	var cfg shopConfig
	if err := json.NewDecoder(in).Decode(&cfg); err != nil {
		return fmt.Errorf("reading what to do: %w", err)
	}
	go func() { // a shop does not outlive its parent
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1)
	}()
	j, records, err := openJournal(cfg.Journal)
	if err != nil {
		return err
	}
	defer j.close()
	client, err := outbound.NewClient(clientConfig(&http.Transport{MaxIdleConnsPerHost: cashiers}, outbound.Hooks{}))
	if err != nil {
		return err
	}
	s := &shop{cfg: cfg, journal: j, client: client}
	past := read(records)
	s.orders.Store(int64(len(past.orders)))
	_, _ = fmt.Fprintln(out, "open")
	return s.serve(past.unpaid)
}

// serve pays what was left unpaid, and then new orders for ever, or until it fails.
func (s *shop) serve(unpaid []record) error {
	if err := eachOf(cashiers, unpaid, func(r record) error { return s.finish(r) }); err != nil || s.cfg.Drain {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	t := newTeam(cancel)
	for range cashiers {
		t.goes(func() error {
			for ctx.Err() == nil {
				if err := s.open(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return t.wait()
}

// open makes an order, stores it with its action, and only then pays it.
func (s *shop) open() error {
	n := int(s.orders.Add(1))
	p := &payment{order: fmt.Sprintf("order-%d-%d", s.cfg.Life, n), amount: 100 + n}
	action, err := p.open(s.cfg.URL)
	if err != nil {
		return err
	}
	if err := s.journal.append(record{Order: p.order, Amount: p.amount, Action: action, Life: s.cfg.Life}); err != nil {
		return err
	}
	return s.pay(p, action)
}

// finish pays an order of an earlier life under its stored action.
func (s *shop) finish(r record) error {
	return s.pay(&payment{order: r.Order, amount: r.Amount}, r.Action)
}

// pay sends the action until the order is paid. What was not sent or was refused (a 429 to every attempt) is sent again as
// well: this shop wants each of its orders paid once, and one action can't do more than that.
func (s *shop) pay(p *payment, action *outbound.Action) error {
	for round := range 10 * maxRounds {
		if round > 0 {
			pause(context.Background(), roundPause.Delay(round-1))
		}
		report, err := p.send(context.Background(), s.client, s.cfg.URL, action)
		if err != nil {
			return err
		}
		if report.Outcome == outbound.OutcomeSucceeded {
			return s.journal.append(record{Order: p.order, Life: s.cfg.Life})
		}
	}
	return fmt.Errorf("%s is still not paid", p.order)
}
