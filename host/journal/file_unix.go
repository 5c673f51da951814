//go:build unix

package journal

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errElsewhere is for a file that has been moved, or its folder: nobody who reads the
// journal would find what is written to it.
var errElsewhere = errors.New("it is no longer where it was made")

// intact says whether the file is still where it was made, and as long as it was
// written. It costs two system calls, without which lines would go on into a file
// that its name does not lead to.
func (f *file) intact() error {
	raw, err := f.f.SyscallConn()
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Fstat(int(fd), &stat) }); err != nil {
		return err
	}
	switch {
	case failed != nil:
		return failed
	case stat.Nlink == 0:
		return errRemoved
	case stat.Size < f.size.Load():
		return errCut
	}
	var there unix.Stat_t
	switch err := unix.Lstat(f.path, &there); {
	case err == unix.ENOENT, err == unix.ENOTDIR, err == nil && (there.Dev != stat.Dev || there.Ino != stat.Ino):
		return errElsewhere
	}
	return nil // where its folder cannot be looked into now, it can be written all the same
}

// appendOnce hands a line to the system, without the lock that os.File has for
// those who write: the file stays open while the mutex is held.
func (f *file) appendOnce(line []byte) (int, error) {
	for {
		n, err := unix.Write(f.fd, line)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}
