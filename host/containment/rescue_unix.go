//go:build unix

package containment

import (
	"syscall"
	"time"
)

// killMarked ends the tree of a process-group guard that was killed: the plugin's
// group, as long as it is the plugin's, and what carries the mark. It returns when
// neither finds anything.
func killMarked(mark string, plugin int) {
	keep := &processGroup{mark: mark}
	for pause := killPauseMin; ; pause = min(2*pause, killPauseMax) {
		keep.signal(plugin, syscall.SIGKILL)
		if keep.empty(plugin) {
			return
		}
		time.Sleep(pause)
	}
}
