package soak

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/outbound-go/outbound/outboundtest"
)

// chaos takes servers down and brings them back until the context ends. All are up when it returns without an error.
func chaos(ctx context.Context, p *plant, rng *rand.Rand, count func(string)) error {
	for pause(ctx, between(rng, 200*time.Millisecond, 900*time.Millisecond)) {
		if err := strike(p, rng, count); err != nil {
			return err
		}
	}
	return nil
}

func strike(p *plant, rng *rand.Rand, count func(string)) error {
	switch rng.IntN(4) {
	case 0, 1:
		count("restart: gateway, its ledger kept")
		return restartGateway(p.gateway, between(rng, 20*time.Millisecond, 250*time.Millisecond))
	case 2:
		count("restart: TLS front in good order, with GOAWAY")
		return p.fronts[serverTLS].restart(true)
	default:
		count("restart: TLS front, all connections closed")
		return p.fronts[serverTLS].restart(false)
	}
}

// restartGateway takes the gateway off the network for a while. The kernel may need a moment to give the port back.
func restartGateway(gw *outboundtest.Gateway, down time.Duration) error {
	gw.Stop()
	time.Sleep(down)
	var err error
	until(5*time.Second, func() bool {
		err = gw.Restart()
		return err == nil
	})
	return err
}

func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)))
}

// pause waits and reports whether it did, rather than end with the context.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
