package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// describe prints what the figures depend on.
func describe(p plan) {
	fmt.Printf("`go run ./benchmarks/cmd/compare`: %d interleaved rounds, medians; %s, %d cores, %s %s/%s\n\n",
		p.rounds, cpu(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// cpu is the processor's name where the system tells it in a file.
func cpu() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}
