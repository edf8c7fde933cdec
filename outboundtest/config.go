package outboundtest

import (
	"errors"
	"fmt"
	"time"
)

// Config says how a gateway behaves. The zero Config is one that works.
type Config struct {
	// KeyHeader is the header that carries the key; "Idempotency-Key" if empty.
	KeyHeader string
	// IgnoreKeys makes a gateway that knows nothing of keys: every POST is
	// work and charges, and none is refused or replayed because of its key.
	IgnoreKeys bool
	// Work is how long a charge takes. Zero takes no time.
	Work time.Duration
	// Script is the faults of the first writes. Nil is none.
	Script Script
	// Mix draws the faults of the writes after the script. The zero Mix draws
	// none.
	Mix Mix
}

func (c Config) withDefaults() Config {
	if c.KeyHeader == "" {
		c.KeyHeader = "Idempotency-Key"
	}
	return c
}

// validate returns every mistake in the config, joined.
func (c Config) validate() error {
	var work error
	if c.Work < 0 {
		work = fmt.Errorf("negative Work %v", c.Work)
	}
	return errors.Join(work, c.Script.validate(), c.Mix.validate())
}
