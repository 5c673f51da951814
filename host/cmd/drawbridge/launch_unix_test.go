//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLaunchedSaysWhy: what a process that was to start another wrote into the log is why
// it did not, and what the log had before is not.
func TestLaunchedSaysWhy(t *testing.T) {
	log, err := openHostLog(filepath.Join(t.TempDir(), hostLog))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.WriteString("a line of an earlier host\n"); err != nil {
		t.Fatal(err)
	}
	open := openFiles(t)
	if _, pid, err := launched(nil, t.TempDir(), log, logged(log)); err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("process %d was started, or it is not said why not: %v", pid, err)
	}
	if now := openFiles(t); now > open {
		t.Errorf("%d files are open, %d were before", now, open)
	}
}

// openFiles is how many files this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
