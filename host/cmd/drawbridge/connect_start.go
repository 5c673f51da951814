package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/drawbridge-mcp/drawbridge/host/control"
)

// errNotStarted says that a host was to be started and was not.
var errNotStarted = errors.New("the host could not be started")

const (
	// startLock in the state dir is held while a host is started; hostLog gets its log,
	// and is set aside when a host is started with one over maxHostLog bytes.
	startLock  = "start.lock"
	hostLog    = "host.log"
	maxHostLog = 8 << 20
	// startLimit bounds the start of a host, which waits for no provider: a machine that
	// has just booted, with a cold disk.
	startLimit = 60 * time.Second
	startPoll  = 20 * time.Millisecond
	// maxReason bounds what is told of the log of a host that did not come up.
	maxReason = 500
)

// startHost starts the host of this configuration and returns when it takes commands.
// Of those who come at once one starts it. It does not end with this process.
func (j *joiner) startHost(ctx context.Context) (*control.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	cfg, diags, err := j.g.load()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	if diags.HasErrors() {
		return nil, fmt.Errorf("%w: %s; `drawbridge validate` shows all that is wrong", errNotStarted, j.g.std.redactor.Text(firstError(diags)))
	}
	state := cfg.Host.StateDir
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, fmt.Errorf("%w: state_dir: %w", errNotStarted, err)
	}
	lock := flock.New(filepath.Join(state, startLock), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, startPoll); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errNotStarted, lock.Path(), err)
	}
	defer func() { _ = lock.Close() }() // which gives it up
	if host, err := j.find(ctx); err == nil || !errors.Is(err, errNoHost) {
		return host, err
	}
	log, err := openHostLog(filepath.Join(state, hostLog))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	defer log.Close()
	before := logged(log)
	path := canonical(cfg.Path)
	// Its folder is not the client's, which may want to be moved.
	ended, pid, err := launched([]string{"serve", "--config", path, "--log-level", j.g.logLevel}, filepath.Dir(path), log, before)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	j.log.Info("a host is being started", "pid", pid, "log", log.Name())
	return j.awaitHost(ctx, ended, log, before)
}

// openHostLog opens the log to write at its end.
func openHostLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxHostLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
}

// awaitHost waits until the host that was spawned takes commands, or has ended. What its
// log had before is not its own.
func (j *joiner) awaitHost(ctx context.Context, ended <-chan struct{}, log *os.File, before int64) (*control.Client, error) {
	look := time.NewTicker(startPoll)
	defer look.Stop()
	for {
		host, err := j.find(ctx)
		if err == nil || !errors.Is(err, errNoHost) && ctx.Err() == nil {
			return host, err
		}
		select {
		case <-ended:
			why := lastLine(log, before)
			if why == "" {
				why = "it ended and said nothing"
			}
			return nil, fmt.Errorf("%w: %s; its log is %s", errNotStarted, why, log.Name())
		case <-ctx.Done():
			return nil, fmt.Errorf("%w within %v; its log is %s", errNotStarted, startLimit, log.Name())
		case <-look.C:
		}
	}
}

// logged is how much a log has; 0 where that is not to be had.
func logged(log *os.File) int64 {
	info, err := log.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// lastLine is the last of what was written to a log from an offset on.
func lastLine(log *os.File, from int64) string {
	size := logged(log)
	from = max(from, size-maxReason)
	text, err := io.ReadAll(io.NewSectionReader(log, from, size-from))
	if err != nil {
		return ""
	}
	text = bytes.TrimSpace(text)
	return string(bytes.TrimPrefix(text[bytes.LastIndexByte(text, '\n')+1:], []byte("drawbridge: ")))
}
