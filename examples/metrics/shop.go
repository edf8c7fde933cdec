package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/outbound-go/outbound"
)

// workers is how many payments are under way at once.
const workers = 16

// transportConfig suits a gateway on this machine that needs a few milliseconds; over a real network all of the times would
// be longer. A third of the requests fail on purpose, so the budget is larger than is good for a provider, and it takes an
// outage to open the circuit.
func transportConfig(hooks outbound.Hooks) outbound.Config {
	return outbound.Config{
		AttemptTimeout: 250 * time.Millisecond,
		TotalTimeout:   5 * time.Second,
		Retry: outbound.RetryPolicy{
			Backoff: outbound.FullJitter{Base: 10 * time.Millisecond, Cap: 80 * time.Millisecond},
			Budget:  outbound.BudgetPolicy{Ratio: 0.5, Burst: 50},
		},
		Breaker: outbound.BreakerPolicy{ConsecutiveFailures: 50, FailureRatio: 0.9, MinRequests: 50},
		Hooks:   hooks,
	}
}

// chargeAll charges n orders, several at once. How each ended is for the metrics to tell.
func chargeAll(client *http.Client, url string, n int) {
	next := make(chan int, n)
	for order := range n {
		next <- order
	}
	close(next)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for order := range next {
				charge(client, url, order)
			}
		})
	}
	group.Wait()
}

func charge(client *http.Client, url string, order int) {
	body := fmt.Sprintf(`{"amount":1234,"currency":"EUR","order":"order-%d"}`, order)
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return
	}
	_ = resp.Body.Close()
}

// scrape serves the handler on a port of its own and fetches what it has, over HTTP like Prometheus.
func scrape(metrics http.Handler) ([]byte, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: metrics, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }() // until it is closed
	defer func() { _ = server.Close() }()
	return fetch("http://" + listener.Addr().String() + "/metrics")
}

func fetch(url string) ([]byte, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}
