package soak

import (
	"crypto/tls"
	"time"

	"github.com/outbound-go/outbound/outboundtest"
)

// workTime is how long the gateway takes for a charge.
const workTime = 2 * time.Millisecond

// plant is all that stands at the other end during one round: the gateway, the fronts and the fault proxies.
type plant struct {
	gateway *outboundtest.Gateway
	fronts  map[string]*front
	proxies *proxies
	paths   map[string][]path // by server
}

func startPlant(cfg outboundtest.Config, cert tls.Certificate, count func(string)) (*plant, error) {
	gw, err := outboundtest.Start(cfg)
	if err != nil {
		return nil, err
	}
	p := &plant{
		gateway: gw,
		fronts:  map[string]*front{},
		// A handshake takes about 1.5 KiB; a reply takes 300 bytes over HTTP/1.1, and half of that over HTTP/2.
		paths: map[string][]path{serverGateway: faultPaths(3_000), serverTLS: faultPaths(6_000)},
	}
	if err := p.startFronts(cert, count); err != nil {
		p.close()
		return nil, err
	}
	all := specs(serverGateway, p.addr(serverGateway), p.paths[serverGateway])
	all = append(all, specs(serverTLS, p.addr(serverTLS), p.paths[serverTLS])...)
	if p.proxies, err = startProxies(all); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// idleTimeout is about as long as a client leaves a connection unused between two payments.
const idleTimeout = 3 * time.Millisecond

func (p *plant) startFronts(cert tls.Certificate, count func(string)) error {
	secure := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}}
	for name, f := range map[string]*front{
		serverTLS:       {tls: secure, goAway: 0.01, count: count},
		serverIdle:      {idle: idleTimeout, count: count},
		serverIdleHTTP2: {tls: secure, idle: idleTimeout, count: count},
	} {
		started, err := startFront(f, p.gateway.URL)
		if err != nil {
			return err
		}
		p.fronts[name] = started
	}
	return nil
}

// addr is where a server listens.
func (p *plant) addr(server string) string {
	if server == serverGateway {
		return p.gateway.URL[len("http://"):]
	}
	return p.fronts[server].addr
}

// routes are the ways that a lane's connections take while the network is bad.
func (p *plant) routes(kind laneKind) (routes []route) {
	if kind.direct {
		return p.calmRoutes(kind)
	}
	for _, path := range p.paths[kind.server] {
		routes = append(routes, route{path.name, p.proxies.addrs[proxyName(kind.server, path)], path.weight})
	}
	return routes
}

// calmRoutes is the one way that nothing befalls.
func (p *plant) calmRoutes(kind laneKind) []route {
	return []route{{"straight to the " + kind.server, p.addr(kind.server), 1}}
}

// calm ends the faults of the gateway and the fronts.
func (p *plant) calm() {
	p.gateway.Calm()
	for _, f := range p.fronts {
		f.calm.Store(true)
	}
}

// quiet takes down all that stands before the gateway and returns when nothing can change the ledger any more.
func (p *plant) quiet() {
	p.closeFronts()
	// Requests that were still on their way are read now, and their work ends.
	until(3*time.Second, func() bool { return p.gateway.ConnsOpen() == 0 })
	p.gateway.Stop()
	time.Sleep(50 * workTime) // work outlives its connection, and the gateway can't be asked whether it is done
}

func (p *plant) closeFronts() {
	if p.proxies != nil {
		p.proxies.end()
		p.proxies = nil
	}
	for _, f := range p.fronts {
		f.close()
	}
	p.fronts = nil
}

func (p *plant) close() {
	p.closeFronts()
	p.gateway.Close()
}
