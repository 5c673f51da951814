package journal

import "golang.org/x/sys/unix"

// datasync forces what was written to the disk, and as much of the inode as it
// takes to read it.
func (f *file) datasync() error {
	raw, err := f.f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for failed = unix.EINTR; failed == unix.EINTR; {
			failed = unix.Fdatasync(int(fd))
		}
	})
	if err != nil {
		return err
	}
	return failed
}
