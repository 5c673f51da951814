//go:build race

package containment

// raceEnv goes into the environment of guards and plugins that have the race
// detector: without it each of them sleeps for a second before it exits, so that
// every stop takes two, and no limit on one means anything.
var raceEnv = []string{"GORACE=atexit_sleep_ms=0"}
