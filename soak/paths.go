package soak

import "fmt"

// path is a way through the network with one fault on it. A new connection takes one of them, each as likely as its weight
// says.
type path struct {
	name   string
	weight int
	toxics []toxic
}

// faultPaths are the ways to a server. After so many bytes of replies the long-lived ones break: enough for a TLS handshake
// and some payments, so that a break finds connections in use.
func faultPaths(bytesBeforeBreak int64) []path {
	const long = 60_000 // milliseconds: longer than anybody waits
	return []path{
		{"no fault", 12, nil},
		{"latency", 4, []toxic{down("latency", 1, attrs{"latency": 15, "jitter": 15})}},
		{"bandwidth", 3, []toxic{down("bandwidth", 1, attrs{"rate": 40})}},
		{"slicing", 3, []toxic{
			up("slicer", 1, attrs{"average_size": 64, "size_variation": 32, "delay": 200}),
			down("slicer", 1, attrs{"average_size": 64, "size_variation": 32, "delay": 200}),
		}},
		{"reset of a request", 2, []toxic{up("reset_peer", 1, attrs{"timeout": 0})}},
		{"reset of a reply", 2, []toxic{down("reset_peer", 1, attrs{"timeout": 0})}},
		// A reset_peer that never strikes still has the proxy close the connection with a reset, whoever closes it.
		{"reset after some replies", 5, []toxic{
			down("limit_data", 1, attrs{"bytes": bytesBeforeBreak}),
			down("reset_peer", 0, attrs{"timeout": 0}),
		}},
		{"cut after some replies", 5, []toxic{down("limit_data", 1, attrs{"bytes": bytesBeforeBreak + 77})}},
		{"cut in a request", 3, []toxic{up("limit_data", 1, attrs{"bytes": bytesBeforeBreak + 33})}},
		{"silence", 1, []toxic{down("timeout", 1, attrs{"timeout": 0})}},
		{"silence, then the end", 1, []toxic{down("timeout", 1, attrs{"timeout": 150})}},
		// The limit ends the connection and slow_close holds that end back: replies stop coming, and nobody is told.
		{"half-open after some replies", 2, []toxic{
			down("limit_data", 1, attrs{"bytes": bytesBeforeBreak + 11}),
			down("slow_close", 1, attrs{"delay": long}),
		}},
	}
}

type attrs = map[string]int64

func down(kind string, toxicity float64, a attrs) toxic {
	return newToxic(kind, "downstream", toxicity, a)
}

func up(kind string, toxicity float64, a attrs) toxic { return newToxic(kind, "upstream", toxicity, a) }

func newToxic(kind, stream string, toxicity float64, a attrs) toxic {
	return toxic{Name: kind + " " + stream, Type: kind, Stream: stream, Toxicity: toxicity, Attributes: a}
}

// proxyName is what the proxy of a path to a server is called.
func proxyName(server string, p path) string { return fmt.Sprintf("%s: %s", server, p.name) }

// specs are the proxies of all paths to a server.
func specs(server, addr string, paths []path) (s []proxySpec) {
	for _, p := range paths {
		s = append(s, proxySpec{Name: proxyName(server, p), Upstream: addr, Toxics: p.toxics})
	}
	return s
}
