//go:build !race

package containment

// raceEnv is nothing without the race detector.
var raceEnv []string
