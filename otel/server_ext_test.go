package outboundotel_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/outbound-go/outbound"
	outboundotel "github.com/outbound-go/outbound/otel"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serversOf are the servers in the lines of one metric, as scheme address port.
func serversOf(lines []string, metric string) []string {
	found := map[string]bool{}
	for _, line := range of(lines, metric) {
		found[labelOf(line, "url.scheme")+" "+labelOf(line, "server.address")+" "+labelOf(line, "server.port")] = true
	}
	return slices.Sorted(maps.Keys(found))
}

func labelOf(line, key string) string {
	_, labels, _ := strings.Cut(line, "{")
	labels, _, _ = strings.Cut(labels, "}")
	for _, label := range strings.Split(labels, ",") {
		if value, ok := strings.CutPrefix(label, key+"="); ok {
			return value
		}
	}
	return "none"
}

func TestServers(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"https://pay.test/v1", "https pay.test 443"},
		{"http://pay.test", "http pay.test 80"},
		{"HTTP://Pay.Test:8080/v1", "http pay.test 8080"},
		{"https://[2001:db8::1]:8443/", "https 2001:db8::1 8443"},
		{"https://pay.test:0/", "https pay.test 0"},
		{"https://pay.test:99999/", "https pay.test 0"},
		{"ftp://pay.test:21/", "_OTHER pay.test 21"},
		{"ftp://pay.test/", "_OTHER pay.test 0"},
		{"//user:word@pay.test/", "_OTHER pay.test 0"},
		{"tenant://acme-customer-42", "_OTHER acme-customer-42 0"},
		{"https:///v1", "_OTHER _OTHER 0"},
		{"/v1/payments?key=1", "_OTHER _OTHER 0"},
		{"https://pay test/", "_OTHER _OTHER 0"},
		{"", "_OTHER _OTHER 0"},
	} {
		tel := newTelemetry(t, outboundotel.Config{})
		tel.Hooks().Attempt(t.Context(), outbound.Attempt{URL: tt.url})
		tel.Hooks().Circuit(outbound.CircuitChange{Target: tt.url})
		assert.Equal(t, []string{tt.want}, serversOf(tel.lines(t), "http.client.request.duration"), tt.url)
		asTarget := tt.want
		if strings.HasPrefix(asTarget, "_OTHER") {
			asTarget = "_OTHER _OTHER 0" // a target may be a name that Config.Target made, and hold anything
		}
		assert.Equal(t, []string{asTarget}, serversOf(tel.lines(t), "outbound.circuit.changes"), "as a target: %s", tt.url)
	}
}

func TestHost(t *testing.T) {
	regions := func(host string) string {
		switch {
		case strings.HasSuffix(host, ".pay.test"):
			return "*.pay.test"
		case host == "Tenant 7":
			return "tenants"
		case host == "old.test":
			return "_OTHER"
		case host == "_OTHER":
			return "asked about a URL without a host"
		default:
			return ""
		}
	}
	tel := newTelemetry(t, outboundotel.Config{Host: regions})
	for _, url := range []string{"https://EU.pay.test/1", "https://us.pay.test:8443/1", "https://else.test/", "https://old.test/", "http:///none"} {
		tel.Hooks().Done(t.Context(), outbound.Report{URL: url})
	}
	assert.Equal(t, []string{"_OTHER _OTHER 0", "https *.pay.test 443", "https *.pay.test 8443", "https _OTHER 0"},
		serversOf(tel.lines(t), "outbound.calls"))
	for _, target := range []string{"https://eu.pay.test:443", "Tenant 7", "Tenant 8"} {
		tel.Hooks().Circuit(outbound.CircuitChange{Target: target})
	}
	assert.Equal(t, []string{"_OTHER _OTHER 0", "_OTHER tenants 0", "https *.pay.test 443"},
		serversOf(tel.lines(t), "outbound.circuit.changes"))
}

// However many servers are called, from however many goroutines, the metrics tell MaxServers of them apart.
func TestServersAreBounded(t *testing.T) {
	for _, tt := range []struct{ limit, want int }{{3, 3}, {0, 100}} {
		tel := newTelemetry(t, outboundotel.Config{MaxServers: tt.limit})
		transport := newTransport(t, outbound.Config{Base: instant(200), Hooks: tel.Hooks()})
		_, err := tel.Observe(transport)
		require.NoError(t, err)
		const goroutines, each = 8, 25
		var group sync.WaitGroup
		for g := range goroutines {
			group.Go(func() {
				for n := range each {
					call(t.Context(), transport, http.MethodGet, fmt.Sprintf("https://host%d.test/", g*each+n))
				}
			})
		}
		group.Wait()
		lines := tel.lines(t)
		for _, metric := range []string{"http.client.request.duration", "outbound.calls", "outbound.circuits"} {
			found := serversOf(lines, metric)
			assert.Len(t, found, tt.want+1, metric)
			assert.Contains(t, found, "https _OTHER 0", metric)
		}
		assert.Equal(t, serversOf(lines, "outbound.calls"), serversOf(lines, "outbound.circuits"), "the same ones everywhere")
		var closed int
		for _, line := range of(lines, "outbound.circuits") {
			if labelOf(line, "outbound.circuit.state") == "closed" {
				closed += valueOf(t, line)
			}
		}
		assert.Equal(t, goroutines*each, closed, "all are counted")
	}
}

func valueOf(t *testing.T, line string) (n int) {
	t.Helper()
	_, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &n)
	require.NoError(t, err)
	return n
}

// instant answers without taking time.
type instant int

func (status instant) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(status), Body: http.NoBody, Request: req}, nil
}

// What is not told apart takes no place from those that are.
func TestOtherTakesNoPlace(t *testing.T) {
	tel := newTelemetry(t, outboundotel.Config{MaxServers: 1})
	tel.Hooks().Done(t.Context(), outbound.Report{})
	tel.Hooks().Done(t.Context(), outbound.Report{URL: "https://pay.test/"})
	assert.Equal(t, []string{"_OTHER _OTHER 0", "https pay.test 443"}, serversOf(tel.lines(t), "outbound.calls"))
}

// An unknown method is one label, whatever is sent; so are an unknown scheme and an error that nobody knows.
func TestLabelsAreBounded(t *testing.T) {
	tel := newTelemetry(t, outboundotel.Config{MaxServers: 1})
	for n := range 200 {
		name := fmt.Sprint("X", n)
		url, err := name+"://pay.test/"+name, errors.New(name)
		tel.Hooks().Attempt(t.Context(), outbound.Attempt{Method: name, URL: url, Err: err})
		tel.Hooks().Retry(t.Context(), outbound.Attempt{Method: name, URL: url, Err: err}, time.Second)
		tel.Hooks().Done(t.Context(), outbound.Report{Method: name, URL: url, Stopped: err})
		tel.Hooks().Circuit(outbound.CircuitChange{Target: name})
	}
	assert.Len(t, tel.lines(t), 7, "one line for each instrument")
}
