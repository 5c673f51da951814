//go:build unix

package secretstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// private says whether a file is this user's, and nobody else's to read or write.
// mode is what it should have.
func private(path string, info fs.FileInfo, mode fs.FileMode) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s %w (uid %d)", path, ErrOwner, st.Uid)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s %w: its mode is %#o. Whoever read it knows the secret: replace that where it came from, then run: chmod %o '%s'",
			path, ErrOpen, perm, mode, path)
	}
	return nil
}

// openFile opens a file for reading. It follows no link, and waits for no pipe.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s %w: it is a link", path, ErrDamaged)
	}
	return f, err
}

// syncDir makes the names in a folder last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
