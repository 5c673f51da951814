//go:build !unix

package sdk

import (
	"os"
	"os/signal"
)

// catchSignals swallows the console's interrupt; there is no SIGTERM here.
func catchSignals() <-chan struct{} {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, os.Interrupt)
	go func() {
		for range ch {
			continue
		}
	}()
	return make(chan struct{})
}

// killGroup does nothing: a job object of the host's ends the tree.
func killGroup() {}
