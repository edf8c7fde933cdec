//go:build !race

package fleet

// small is a fleet for tests.
var small = Shape{Processes: 100, PerSecond: 5}
