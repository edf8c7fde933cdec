package main

import (
	"fmt"
	"strings"

	"github.com/outbound-go/outbound/benchmarks/peers"
)

// column is one task in a table, with what is shown of it.
type column struct {
	title, task string
	cell        func(figures) string
}

func printTimes(r results) {
	table(r, "In memory: time and allocations of one call",
		column{"RoundTripper, GET", peers.AloneGET, timeAndAllocs},
		column{"RoundTripper, POST 1 KiB", peers.AlonePOST, timeAndAllocs},
		column{"call, GET", peers.CallGET, timeAndAllocs},
		column{"call, POST 1 KiB", peers.CallPOST, timeAndAllocs},
		column{"call, 503, 503, 200", peers.Retried, timeAndAllocs},
		column{"open circuit", peers.Open, timeAndAllocs})
	table(r, "Loopback (server included), cores, and a stream",
		column{"GET", peers.GotOnce, timeAndAllocs},
		column{"POST 1 KiB", peers.PostedOnce, timeAndAllocs},
		column{"GET, 64 goroutines", peers.Concurrent, perSecond},
		column{"in memory, 1 core", oneCore, perSecond},
		column{"2 cores", twoCores, perSecond},
		column{"16 MiB stream in memory", peers.StreamedGET, timeAndBytes})
}

func table(r results, title string, columns ...column) {
	fmt.Printf("### %s\n\n| |", title)
	for _, c := range columns {
		fmt.Printf(" %s |", c.title)
	}
	fmt.Printf("\n|---|%s\n", strings.Repeat("---:|", len(columns)))
	for _, p := range peers.All() {
		fmt.Printf("| %s |", p.Name)
		for _, c := range columns {
			fmt.Printf(" %s |", r.cell(c, p.Name))
		}
		fmt.Println()
	}
	fmt.Println()
}

func (r results) cell(c column, peer string) string {
	s := r[c.task][peer]
	if len(s) == 0 {
		return "–"
	}
	return c.cell(s.median())
}

func timeAndAllocs(f figures) string { return fmt.Sprintf("%s, %.0f", duration(f.ns), f.allocs) }
func timeAndBytes(f figures) string  { return fmt.Sprintf("%s, %s", duration(f.ns), bytes(f.bytes)) }
func perSecond(f figures) string     { return fmt.Sprintf("%.0f/s", 1e9/f.ns) }

func duration(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.1f µs", ns/1e3)
	default:
		return fmt.Sprintf("%.1f ms", ns/1e6)
	}
}

func bytes(n float64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%.0f B", max(n, 0))
	case n < 1<<20:
		return fmt.Sprintf("%.0f KiB", n/(1<<10))
	default:
		return fmt.Sprintf("%.0f MiB", n/(1<<20))
	}
}

func printUploads(uploads map[string][2]peers.Upload, size int64) {
	fmt.Printf("### A request body of %s: heap held during the first attempt, allocated by a call, and what each attempt sent after a 503\n\n", bytes(float64(size)))
	fmt.Println("| | with GetBody: held | allocated | sent | without: held | allocated | sent |")
	fmt.Println("|---|---:|---:|---|---:|---:|---|")
	for _, p := range peers.All() {
		fmt.Printf("| %s |", p.Name)
		for _, u := range uploads[p.Name] {
			fmt.Printf(" %s | %s | %s |", bytes(float64(u.Held)), bytes(float64(u.Copied)), attempts(u, size))
		}
		fmt.Println()
	}
	fmt.Println()
}

// attempts says what each attempt sent and how the call ended.
func attempts(u peers.Upload, size int64) string {
	var words []string
	for _, n := range u.Sent {
		switch n {
		case size:
			words = append(words, "all")
		case 0:
			words = append(words, "**nothing**")
		default:
			words = append(words, fmt.Sprintf("**%d bytes**", n))
		}
	}
	end := "error"
	if u.Status != 0 {
		end = fmt.Sprint(u.Status)
	}
	return strings.Join(words, ", ") + ": " + end
}

func printHosts(hosts []peers.Hosts, n int) {
	fmt.Printf("### State after one call to each of %d hosts\n\n", n)
	fmt.Println("| | heap a host called | goroutines | hosts remembered |")
	fmt.Println("|---|---:|---:|---:|")
	for _, h := range hosts {
		fmt.Printf("| %s | %d B | %d | %d |\n", h.Name, h.Bytes, h.Goroutines, h.Kept)
	}
	fmt.Println()
}
