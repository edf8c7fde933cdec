//go:build race

package fleet

// small is a fleet for tests. The race detector is slow, and dies of more than 8,128 goroutines.
var small = Shape{Processes: 100, PerSecond: 2}
