//go:build unix

package journal

import "golang.org/x/sys/unix"

// intact says whether the file is still where it was made, and as long as it was
// written. It costs one system call, without which lines would go on into a file
// that no name leads to.
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
	return nil
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
