package outboundtest

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config says how a gateway behaves. The zero Config is one that works.
type Config struct {
	// Dialect is the API that the gateway speaks like. Zero is Plain.
	Dialect Dialect
	// KeyHeader is the header that carries the key with Plain;
	// "Idempotency-Key" if empty. Any other dialect has its own.
	KeyHeader string
	// IgnoreKeys makes a gateway that knows nothing of keys, whatever its
	// dialect: every POST is work and charges, and none is refused or replayed
	// because of its key.
	IgnoreKeys bool
	// Work is how long a charge takes. Zero takes no time.
	Work time.Duration
	// Script is the faults of the first writes. Nil is none.
	Script Script
	// Mix draws the faults of the writes after the script. The zero Mix draws
	// none.
	Mix Mix
}

// dialect returns the gateway's own copy of its row of the table.
func (c Config) dialect() *dialect {
	d := dialects[c.Dialect]
	if c.KeyHeader != "" {
		d = plain(c.KeyHeader)
	}
	d.keys.ignored = d.keys.ignored || c.IgnoreKeys
	return &d
}

// validate returns every mistake in the config, joined.
func (c Config) validate() error {
	var errs []error
	if !c.Dialect.valid() {
		errs = append(errs, fmt.Errorf("unknown %v", c.Dialect))
	}
	if c.KeyHeader != "" && c.Dialect != Plain {
		errs = append(errs, fmt.Errorf("a KeyHeader, where %v has its own", c.Dialect))
	}
	if c.KeyHeader != "" && !isHeaderName(c.KeyHeader) {
		errs = append(errs, fmt.Errorf("KeyHeader %q is no header name", c.KeyHeader))
	}
	if c.Work < 0 {
		errs = append(errs, fmt.Errorf("negative Work %v", c.Work))
	}
	return errors.Join(append(errs, c.Script.validate(), c.Mix.validate())...)
}

// isHeaderName reports whether s is a token of RFC 9110, section 5.6.2.
func isHeaderName(s string) bool {
	return strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
