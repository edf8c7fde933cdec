//go:build !race

package fleet

// small is a fleet for tests.
var small = Shape{Processes: 100, PerSecond: 5}

// quiet is a fleet of processes that call once a second.
var quiet = Shape{Processes: 1000, PerSecond: 1}

const raceEnabled = false
