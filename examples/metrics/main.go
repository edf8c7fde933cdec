// Command metrics shows what Prometheus sees of a program that pays through outbound. It charges a few hundred orders at a
// payment gateway on this machine that loses requests and replies at random, takes the gateway off the network, tries some
// more, and then scrapes itself over HTTP, as Prometheus would.
//
//	go run ./examples/metrics        # an excerpt with a word on each metric
//	go run ./examples/metrics -raw   # the whole page as it is scraped
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/outbound-go/outbound"
	outboundotel "github.com/outbound-go/outbound/otel"
	"github.com/outbound-go/outbound/outboundtest"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// How many orders are charged before the gateway goes away, and how many are tried afterwards.
const (
	orders       = 300
	outageOrders = 40
)

func main() {
	raw := flag.Bool("raw", false, "print the whole page as it is scraped")
	flag.Parse()
	if err := run(os.Stdout, *raw); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, raw bool) error {
	page, err := scrapeAfterABadDay()
	if err != nil {
		return err
	}
	if raw {
		_, err = out.Write(page)
		return err
	}
	return excerpt(out, page)
}

// scrapeAfterABadDay makes the calls and returns the page that a scrape gives right after them.
func scrapeAfterABadDay() (page []byte, err error) {
	gw, err := outboundtest.Start(outboundtest.Config{Mix: outboundtest.DefaultMix(1)})
	if err != nil {
		return nil, err
	}
	defer gw.Close()

	// The part to copy: a registry of its own, the exporter, and a provider that exports there.
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, err
	}
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer func() { err = errors.Join(err, provider.Shutdown(context.Background())) }()

	// One Instrumentation: its Hooks go into the Transport, and the Transport is observed by it.
	tel, err := outboundotel.New(outboundotel.Config{MeterProvider: provider})
	if err != nil {
		return nil, err
	}
	transport, err := outbound.New(transportConfig(tel.Hooks()))
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	watch, err := tel.Observe(transport)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, watch.Unregister()) }()

	client := &http.Client{Transport: transport}
	chargeAll(client, gw.PaymentsURL(), orders)
	gw.Stop()
	chargeAll(client, gw.PaymentsURL(), outageOrders)
	return scrape(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
}
