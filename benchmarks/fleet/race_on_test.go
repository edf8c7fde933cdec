//go:build race

package fleet

// small is a fleet for tests. The race detector is slow, and dies of more than 8,128 goroutines.
var small = Shape{Processes: 100, PerSecond: 2}

// quiet is a fleet of processes that call once a second.
var quiet = Shape{Processes: 100, PerSecond: 1}

// raceEnabled: so small a fleet shows races, and figures of chance.
const raceEnabled = true
