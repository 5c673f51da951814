package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// gcPercent lets the heap, which is a few megabytes, grow to five times what is in
// use before it is collected. At Go's default a busy host spends a fifth of its
// time collecting.
const gcPercent = 400

func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// tunePlugin fits the runtime to a plugin, which only carries messages between two
// pipes: with more than one processor each hand-over between its goroutines wakes
// a thread that finds nothing to do, and costs more than the work.
func tunePlugin() {
	tuneGC()
	runtime.GOMAXPROCS(1)
}
