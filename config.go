package outbound

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

func (p RetryPolicy) withDefaults() RetryPolicy {
	p.MaxAttempts = orDefault(p.MaxAttempts, 4)
	p.MaxRetryAfter = max(orDefault(p.MaxRetryAfter, 60*time.Second), 0)
	if p.Backoff == nil {
		p.Backoff = FullJitter{}
	}
	p.Budget.Ratio = orDefault(p.Budget.Ratio, 0.1)
	p.Budget.Burst = orDefault(p.Budget.Burst, 10)
	return p
}

func (p BreakerPolicy) withDefaults(window time.Duration) BreakerPolicy {
	p.ConsecutiveFailures = orDefault(p.ConsecutiveFailures, 10)
	p.FailureRatio = orDefault(p.FailureRatio, 0.5)
	p.MinRequests = orDefault(p.MinRequests, 20)
	p.Window = min(window, unlimited/4)
	p.OpenFor = min(orDefault(p.OpenFor, 1250*time.Millisecond), unlimited/2)
	p.Probes = orDefault(p.Probes, 1)
	p.SlowCall = max(p.SlowCall, 0)
	p.MaxCircuits = orDefault(p.MaxCircuits, 4096)
	return p
}

func fault(text string, args ...any) error {
	return errors.New("outbound: " + fmt.Sprintf(text, args...))
}

// faults names everything that is wrong with the Config.
func (cfg Config) faults() []error {
	return slices.Concat(cfg.baseFaults(), cfg.contradictions(), cfg.Retry.faults(), cfg.Breaker.faults(),
		count("Bulkhead.MaxInFlight", cfg.Bulkhead.MaxInFlight), cfg.Provider.faults())
}

func (cfg Config) baseFaults() []error {
	if cfg.Base == nil {
		return nil
	}
	if isNil(cfg.Base) {
		return []error{fault("Base is a nil %T: leave it unset for the default", cfg.Base)}
	}
	given, ok := cfg.Base.(*http.Transport)
	if ok && cfg.ConnectTimeout > 0 && dialsWithoutContext(given) {
		return []error{fault("ConnectTimeout (%v) cannot be applied to a Base with Dial or DialTLS: set DialContext or DialTLSContext instead", cfg.ConnectTimeout)}
	}
	if !ok && cfg.ConnectTimeout > 0 {
		return []error{fault("ConnectTimeout (%v) cannot be applied to a Base of type %T: set it where that dials, or give an *http.Transport", cfg.ConnectTimeout, cfg.Base)}
	}
	return nil
}

func isNil(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan, reflect.Interface:
		return r.IsNil()
	}
	return false
}

func count(name string, n int) []error {
	if n >= 0 {
		return nil
	}
	return []error{fault("%s is %d: a count cannot be negative; leave it 0 for the default", name, n)}
}

func (p RetryPolicy) faults() []error {
	faults := slices.Concat(count("Retry.MaxAttempts", p.MaxAttempts), count("Retry.Budget.Burst", p.Budget.Burst))
	if r := p.Budget.Ratio; !(r >= 0) || math.IsInf(r, 0) {
		faults = append(faults, fault("Retry.Budget.Ratio is %v: it must be a positive number; leave it 0 for the default", r))
	}
	if p.Backoff != nil && isNil(p.Backoff) {
		return append(faults, fault("Retry.Backoff is a nil %T: leave it unset for the default", p.Backoff))
	}
	jitter, ok := p.Backoff.(FullJitter)
	if pointer, isPointer := p.Backoff.(*FullJitter); isPointer {
		jitter, ok = *pointer, true
	}
	if ok {
		faults = append(faults, jitter.faults()...)
	}
	return faults
}

func (f FullJitter) faults() []error {
	var faults []error
	if f.Base < 0 {
		faults = append(faults, fault("Retry.Backoff: FullJitter.Base is %v: it cannot be negative", f.Base))
	}
	if f.Cap < 0 {
		faults = append(faults, fault("Retry.Backoff: FullJitter.Cap is %v: it cannot be negative", f.Cap))
	}
	if f.Base > 0 && f.Cap > 0 && f.Cap < f.Base {
		faults = append(faults, fault("Retry.Backoff: FullJitter.Cap (%v) is below Base (%v)", f.Cap, f.Base))
	}
	return faults
}

func (p BreakerPolicy) faults() []error {
	faults := slices.Concat(
		count("Breaker.ConsecutiveFailures", p.ConsecutiveFailures),
		count("Breaker.MinRequests", p.MinRequests),
		count("Breaker.Probes", p.Probes),
		count("Breaker.MaxCircuits", p.MaxCircuits))
	if p.FailureRatio != 0 && !(p.FailureRatio > 0 && p.FailureRatio <= 1) {
		faults = append(faults, fault("Breaker.FailureRatio is %v: it must be above 0 and at most 1", p.FailureRatio))
	}
	if p.OpenFor < 0 {
		faults = append(faults, fault("Breaker.OpenFor is %v: set Breaker.Disabled for no circuit at all", p.OpenFor))
	}
	return faults
}

// reservedHeaders are those that a Transport takes from elsewhere than the header map: a key there would never be sent.
var reservedHeaders = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true, "User-Agent": true, "Connection": true,
}

func (p Provider) faults() []error {
	faults := slices.Concat(count("Provider.MinKeyLength", p.MinKeyLength), count("Provider.MaxKeyLength", p.MaxKeyLength))
	if longest := orDefault(p.MaxKeyLength, defaultMaxKeyLength); longest > 0 && p.MinKeyLength > longest {
		faults = append(faults, fault("Provider.MinKeyLength (%d) is above MaxKeyLength (%d)", p.MinKeyLength, longest))
	}
	if p.KeyOf != nil && (p.NoKeys || p.KeyHeader != "" || p.QuoteKey) {
		faults = append(faults, fault("Provider.KeyOf finds the key outside of a header: NoKeys, KeyHeader and QuoteKey contradict it"))
	}
	_, bad := newKeyRoutes(p.KeyRoutes)
	faults = append(faults, bad...)
	for name, header := range map[string]string{"KeyHeader": p.KeyHeader, "ReplayHeader": p.ReplayHeader} {
		if header != "" && !isToken(header) {
			faults = append(faults, fault("Provider.%s %q is no valid header name", name, header))
		}
	}
	if reservedHeaders[http.CanonicalHeaderKey(p.KeyHeader)] {
		faults = append(faults, fault("Provider.KeyHeader %q is a header that net/http writes itself", p.KeyHeader))
	}
	for _, method := range p.KeyMethods {
		if !isToken(method) || !isWrite(strings.ToUpper(method)) || method != strings.ToUpper(method) {
			faults = append(faults, fault("Provider.KeyMethods has %q: it must be a method that writes, in upper case", method))
		}
	}
	return faults
}
