package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ErrRunDir marks every reason for which there is no folder for sockets.
var ErrRunDir = errors.New("no private folder for sockets")

const (
	// maxSocketPath is what a unix socket's path may have on every system (104 on
	// macOS and BSD, 108 on Linux, the last byte a NUL).
	maxSocketPath = 103
	// socketRoom is what go-plugin appends: /plugin-dirN/pluginN, where N has at
	// most ten digits.
	socketRoom = len("/plugin-dir0123456789/plugin0123456789")
	// hostDigits of a host's id name its folder.
	hostDigits = 12
)

// RunDir is a short private folder for the sockets of one host. TMPDIR plays no
// part in it: a path that is too long for a socket is a common one there.
type RunDir struct {
	// Base is shared by the hosts of one user: $XDG_RUNTIME_DIR/drawbridge, or
	// /tmp/drawbridge-UID.
	Base string
	// Path is this host's own, and goes with Close.
	Path string
}

// OpenRunDir makes the folder of a host. It refuses one that is not a folder of
// this user's with mode 0700. The error wraps ErrRunDir and names path, cause and
// limit.
func OpenRunDir(hostID string) (*RunDir, error) {
	base, err := runBase(os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return nil, err
	}
	return openRunDir(base, hostID)
}

func openRunDir(base, hostID string) (*RunDir, error) {
	path := filepath.Join(base, hostID[:min(len(hostID), hostDigits)])
	if n := len(path) + socketRoom; n > maxSocketPath {
		return nil, fmt.Errorf("%w: %s: a socket's path there would have %d bytes, the limit is %d",
			ErrRunDir, path, n, maxSocketPath)
	}
	if err := ensureRunDir(path); err != nil {
		return nil, err
	}
	return &RunDir{Base: base, Path: path}, nil
}

// ensureRunDir makes a host's folder and its base where they are missing: what
// cleans /tmp may have found them idle.
func ensureRunDir(path string) error {
	for _, dir := range []string{filepath.Dir(path), path} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %w", ErrRunDir, err)
		}
		if err := checkPrivate(dir); err != nil {
			return fmt.Errorf("%w: %w", ErrRunDir, err)
		}
	}
	return nil
}

// Close removes the host's folder and the sockets in it. Base stays: another host
// may be about to make its own in it.
func (r *RunDir) Close() error { return os.RemoveAll(r.Path) }

// RunBases are the folders in which hosts of this user have theirs, as far as there
// are any and they are this user's alone. Where a host's own is depends on the
// environment that it was started in, which is not that of who looks for it: a
// service and a terminal may differ.
func RunBases() []string {
	var found []string
	for _, dir := range append(sessionDirs(), os.Getenv("XDG_RUNTIME_DIR")) {
		if dir != "" {
			found = append(found, filepath.Join(dir, "drawbridge"))
		}
	}
	if base, err := fallbackBase(); err == nil {
		found = append(found, base)
	}
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(dir string) bool { return checkPrivate(dir) != nil })
}

// runBase takes XDG_RUNTIME_DIR if it is short enough and this user's alone.
func runBase(xdg string) (string, error) {
	if xdg != "" && filepath.IsAbs(xdg) && checkPrivate(xdg) == nil {
		base := filepath.Join(xdg, "drawbridge")
		if len(base)+1+hostDigits+socketRoom <= maxSocketPath {
			return base, nil
		}
	}
	return fallbackBase()
}

// checkPrivate says what keeps a folder from being this user's alone.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder (%v)", dir, info.Mode())
	}
	return checkOwner(dir, info)
}

// TempDirProblem says what is wrong with the folder for temporary files that
// plugins and servers inherit (TMPDIR), nil if nothing is. The host itself keeps
// nothing there.
func TempDirProblem() error {
	dir := os.TempDir()
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("TMPDIR %s does not exist", dir)
	case err != nil:
		return fmt.Errorf("TMPDIR %s: %w", dir, err)
	case !info.IsDir():
		return fmt.Errorf("TMPDIR %s is no folder", dir)
	}
	f, err := os.CreateTemp(dir, "drawbridge-*")
	if err != nil {
		return fmt.Errorf("TMPDIR %s is not writable: %w", dir, errors.Unwrap(err))
	}
	_ = f.Close()
	return os.Remove(f.Name())
}
