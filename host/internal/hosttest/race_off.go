//go:build !race

package hosttest

// Race says whether tests, and the hosts they build, run with the race detector.
const Race = false
