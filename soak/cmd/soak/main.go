// Command soak puts outbound under load on a bad network and holds every claim it makes against the gateway's ledger.
//
//	go run ./soak/cmd/soak -for 60s -c 64     payments over HTTP/1.1 and HTTP/2, with every fault there is
//	go run ./soak/cmd/soak -kills 200         a paying process, killed and resumed
//	go run ./soak/cmd/soak -cancels 5000      calls that a server stalls, all cancelled at once
//	go run ./soak/cmd/soak -hosts 20000       more hosts than there may be circuits
//
// Exit status 1 says that a promise was broken (an order charged twice, a false claim, a lost payment, a goroutine left
// behind, a heap that grew by more than 10 MiB) or that the soak could not be run. Exit status 2 says that the flags are
// wrong. An interrupt ends the load early; what was paid until then is reconciled and judged all the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/outbound-go/outbound/soak"
)

func main() {
	soak.RunChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], display{w: os.Stdout, live: isTerminal(os.Stdout)}, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	length                time.Duration
	concurrency           int
	seed                  uint64
	kills, cancels, hosts int
}

// job is one of the things that the command can do.
type job func(context.Context, options, display) (result, error)

// result is what a job has shown.
type result interface {
	Print(io.Writer)
	Verdict() error
}

func run(ctx context.Context, args []string, out display, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	res, err := o.job()(ctx, o, out)
	out.endLine()
	if err != nil {
		return failed(stderr, err)
	}
	res.Print(out.w)
	if err := res.Verdict(); err != nil {
		return failed(stderr, fmt.Errorf("this is not what outbound promises:\n%w", err))
	}
	_, _ = fmt.Fprintln(out.w, "\nEvery promise was kept.")
	return 0
}

func failed(stderr io.Writer, err error) int {
	_, _ = fmt.Fprintln(stderr, "soak:", err)
	return 1
}

func (o options) job() job {
	switch {
	case o.kills > 0:
		return doKills
	case o.cancels > 0:
		return doCancels
	case o.hosts > 0:
		return doHosts
	}
	return doLoad
}

// parse reads the flags. What is wrong with them it has told when it returns an error.
func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.length, "for", time.Minute, "how long to make payments")
	flags.IntVar(&o.concurrency, "c", 64, "how many payments are under way at once")
	flags.Uint64Var(&o.seed, "seed", 1, "the seed that the faults are drawn from")
	flags.IntVar(&o.kills, "kills", 0, "kill a paying process so often, instead of the load")
	flags.IntVar(&o.cancels, "cancels", 0, "cancel so many calls at once, instead of the load")
	flags.IntVar(&o.hosts, "hosts", 0, "call so many hosts, five times each, instead of the load")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if err := o.check(given, flags.Args()); err != nil {
		_ = failed(stderr, err)
		return o, err
	}
	return o, nil
}

const (
	maxLength      = 24 * time.Hour
	maxConcurrency = 1000 // more, and this machine's limits are what is tested
	maxNumber      = 100_000
)

func (o options) check(given map[string]bool, rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q; there are only flags", rest[0])
	case o.length < time.Second || o.length > maxLength:
		return fmt.Errorf("-for is %v; it must be between 1s and 24h", o.length)
	case o.concurrency < 1 || o.concurrency > maxConcurrency:
		return fmt.Errorf("-c is %d; it must be between 1 and %d", o.concurrency, maxConcurrency)
	}
	jobs := 0
	for _, j := range []struct {
		name string
		n    int
	}{{"kills", o.kills}, {"cancels", o.cancels}, {"hosts", o.hosts}} {
		if !given[j.name] {
			continue
		}
		if j.n < 1 || j.n > maxNumber {
			return fmt.Errorf("-%s is %d; it must be between 1 and %d", j.name, j.n, maxNumber)
		}
		jobs++
	}
	if jobs > 1 {
		return errors.New("-kills, -cancels and -hosts are three different things to do; give one of them")
	}
	if jobs == 1 && (given["for"] || given["c"]) {
		return errors.New("-for and -c are about the load; they mean nothing with -kills, -cancels or -hosts")
	}
	return nil
}
