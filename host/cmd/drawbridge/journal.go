package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
)

// openJournal begins the record of this run's calls. It is closed before the run is
// over: then nobody takes what is open in it for the calls of a dead host.
func (h *host) openJournal() (err error) {
	state := h.cfg.Host.StateDir
	h.journal, err = journal.Open(journal.Options{
		Dir: filepath.Join(state, journal.Folder), HostID: h.life.ID(), Dead: deadIn(state), Logger: h.log,
		Sync: h.cfg.Host.JournalSync, Keep: h.cfg.Host.JournalKeep, MaxSize: h.cfg.Host.JournalMaxSize,
	})
	return err
}

// closeJournal ends it; all calls have ended, or do now.
func (h *host) closeJournal() error {
	if h.journal == nil {
		return nil
	}
	if err := h.journal.Close(); !errors.Is(err, journal.ErrClosed) {
		return err
	}
	return nil
}

// deadIn says of the runs of a state dir whether they are over.
func deadIn(stateDir string) journal.Dead {
	return func(id string) (bool, error) { return containment.Ended(context.Background(), stateDir, id) }
}
