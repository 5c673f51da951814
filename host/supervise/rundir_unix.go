//go:build unix

package supervise

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// fallbackBase is under /tmp whatever TMPDIR says.
func fallbackBase() (string, error) { return fmt.Sprintf("/tmp/drawbridge-%d", os.Geteuid()), nil }

// sessionDirs are where XDG_RUNTIME_DIR usually is, for who was started without it.
func sessionDirs() []string { return []string{fmt.Sprintf("/run/user/%d", os.Geteuid())} }

func checkOwner(dir string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: its owner cannot be read", dir)
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d; remove it, or set XDG_RUNTIME_DIR to a folder of your own", dir, st.Uid)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s has the permissions %v, others may enter it; chmod 700 it", dir, perm)
	}
	return nil
}
