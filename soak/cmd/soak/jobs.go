package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/outbound-go/outbound/soak"
)

func doLoad(ctx context.Context, o options, out display) (result, error) {
	return soak.Load(ctx, soak.LoadConfig{
		For:         o.length,
		Concurrency: o.concurrency,
		Seed:        o.seed,
		Watch: func(p soak.Progress) {
			out.progress("%5.1f of %.0f s, round %d of %d, %s: %d payments, %d in flight, %d attempts, %d unknown, %d goroutines",
				p.Elapsed.Seconds(), p.For.Seconds(), p.Round, p.Rounds, p.Phase,
				p.Payments, p.InFlight, p.Attempts, p.Unknown, p.Goroutines)
		},
	})
}

func doKills(ctx context.Context, o options, out display) (result, error) {
	return soak.Kills(ctx, soak.KillConfig{
		Kills: o.kills,
		Seed:  o.seed,
		Watch: func(kill int) {
			if out.live || kill%20 == 0 {
				out.progress("%d of %d kills", kill, o.kills)
			}
		},
	})
}

// measurements is how often the time of the cancelled calls may be taken: a machine that is busy with something else spoils
// one, and a client that is too slow spoils them all.
const measurements = 3

// doCancels does it over both protocols.
func doCancels(_ context.Context, o options, out display) (result, error) {
	var all results
	for _, http2 := range []bool{false, true} {
		name := map[bool]string{false: "HTTP/1.1", true: "HTTP/2 over TLS"}[http2]
		out.progress("%d calls over %s", o.cancels, name)
		r, err := cancelTimed(soak.CancelConfig{Calls: o.cancels, HTTP2: http2})
		if err != nil {
			return nil, err
		}
		all = append(all, named{name, r})
	}
	return all, nil
}

// cancelTimed measures again where nothing but the time is wrong.
func cancelTimed(cfg soak.CancelConfig) (r *soak.CancelReport, err error) {
	for range measurements {
		r, err = soak.Cancels(cfg)
		if err != nil || r.Sound() != nil || r.Verdict() == nil {
			break
		}
	}
	return r, err
}

// doHosts does it with hosts that all work, and with so many broken ones that open circuits alone are too many.
func doHosts(_ context.Context, o options, out display) (result, error) {
	var all results
	for _, c := range []struct {
		name    string
		failing int
	}{{"all hosts work", 0}, {"every third host fails", 3}} {
		out.progress("%d calls to %d hosts, %s", 5*o.hosts, o.hosts, c.name)
		r, err := soak.Hosts(soak.HostConfig{Hosts: o.hosts, Calls: 5 * o.hosts, Failing: c.failing})
		if err != nil {
			return nil, err
		}
		all = append(all, named{c.name, r})
	}
	return all, nil
}

// named is a result among others.
type named struct {
	name string
	result
}

type results []named

func (rs results) Print(w io.Writer) {
	for _, r := range rs {
		_, _ = fmt.Fprintln(w, r.name)
		r.Print(w)
	}
}

func (rs results) Verdict() error {
	var errs []error
	for _, r := range rs {
		if err := r.result.Verdict(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.name, err))
		}
	}
	return errors.Join(errs...)
}
