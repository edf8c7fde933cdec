//go:build race

package soak

// underRace: the race detector makes everything ten times slower, and finds its races with a tenth of the calls.
const underRace = true
