package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/host/internal/identity"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
)

// openJournal begins the record of this run's calls, and makes the table of those
// that their callers gave an id. It is closed before the run is over: then nobody
// takes what is open in it for the calls of a dead host.
func (h *host) openJournal(ctx context.Context) error {
	state := h.cfg.Host.StateDir
	dead := deadIn(context.WithoutCancel(ctx), state) // asked for as long as the host lives
	key, err := identity.LoadOrCreateKey(state)
	if err != nil {
		return err
	}
	h.callIDs = journal.NewCallIDs(journal.CallIDOptions{
		Path: filepath.Join(state, journal.CallIDFile), Folder: filepath.Join(state, journal.Folder), HostID: h.life.ID(), Key: []byte(key.Sum("arguments of calls")),
		Keep: h.cfg.Host.JournalKeep, Dead: dead, Logger: h.log,
	})
	h.journal, err = journal.Open(journal.Options{
		Dir: filepath.Join(state, journal.Folder), HostID: h.life.ID(), Dead: dead, Logger: h.log,
		Sync: h.cfg.Host.JournalSync, Keep: h.cfg.Host.JournalKeep, MaxSize: h.cfg.Host.JournalMaxSize,
	})
	return err
}

// closeJournal ends it; all calls have ended, or do now.
func (h *host) closeJournal() error {
	var errs []error
	if h.callIDs != nil {
		errs = append(errs, h.callIDs.Close())
	}
	if h.journal != nil {
		errs = append(errs, h.journal.Close())
	}
	return errors.Join(errs...)
}

// deadIn says of the runs of a state dir whether they are over.
func deadIn(ctx context.Context, stateDir string) journal.Dead {
	return func(id string) (bool, error) { return containment.Ended(ctx, stateDir, id) }
}
