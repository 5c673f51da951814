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
	case stat.Size < f.size:
		return errCut
	}
	return nil
}
