package soak

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// toxic is one fault of a proxy, in toxiproxy's own words.
type toxic struct {
	Name       string           `json:"name"`
	Type       string           `json:"type"`
	Stream     string           `json:"stream"`
	Toxicity   float64          `json:"toxicity"`
	Attributes map[string]int64 `json:"attributes"`
}

// proxySpec is a proxy that does the same to each of its connections.
type proxySpec struct {
	Name     string  `json:"name"`
	Upstream string  `json:"upstream"`
	Toxics   []toxic `json:"toxics"`
}

// proxies is the process with the fault proxies.
//
// They have a process of their own because toxiproxy leaves goroutines behind, with their buffers, where a toxic ends a
// connection and more data comes after it. In here they would be counted as outbound's. And a toxic is never added or taken
// away while connections are open: toxiproxy can wait for such a connection for ever. What changes is which proxy the next
// connection goes through.
type proxies struct {
	*child
	addrs map[string]string // by name
}

func startProxies(specs []proxySpec) (*proxies, error) {
	c, err := startChild(roleProxies)
	if err != nil {
		return nil, err
	}
	p := &proxies{child: c}
	if err := json.NewEncoder(c.stdin).Encode(specs); err != nil {
		return nil, c.failed(fmt.Errorf("telling the fault proxies what to do: %w", err))
	}
	if err := json.NewDecoder(c.stdout).Decode(&p.addrs); err != nil {
		return nil, c.failed(fmt.Errorf("starting the fault proxies: %w", err))
	}
	return p, nil
}

// runProxies is the child's side: it reads what proxies to open, writes their addresses, and runs until its input ends.
func runProxies(in io.Reader, out io.Writer) error {
	var specs []proxySpec
	if err := json.NewDecoder(in).Decode(&specs); err != nil {
		return fmt.Errorf("reading what proxies to open: %w", err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	addrs := map[string]string{}
	for _, s := range specs {
		addr, err := s.open(server)
		if err != nil {
			return fmt.Errorf("opening the proxy %q: %w", s.Name, err)
		}
		addrs[s.Name] = addr
	}
	if err := json.NewEncoder(out).Encode(addrs); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in) // until the parent closes it, or dies
	return nil
}

// open starts the proxy with its toxics in place before its first connection.
func (s proxySpec) open(server *toxiproxy.ApiServer) (addr string, err error) {
	p := toxiproxy.NewProxy(server, s.Name, "127.0.0.1:0", s.Upstream)
	for _, t := range s.Toxics {
		data, err := json.Marshal(t)
		if err != nil {
			return "", err
		}
		if _, err := p.Toxics.AddToxicJson(strings.NewReader(string(data))); err != nil {
			return "", fmt.Errorf("toxic %q: %w", t.Name, err)
		}
	}
	if err := p.Start(); err != nil {
		return "", err
	}
	return p.Listen, nil
}
