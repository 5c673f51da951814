package journal

import (
	"errors"
	"io/fs"
	"syscall"
)

// Unwritable says that the journal cannot be written, and why.
type Unwritable struct {
	// Cause is a clause for people; it names no path.
	Cause string
	Err   error
}

func (u *Unwritable) Error() string { return "the journal cannot be written: " + u.Cause }

// Unwrap gives the failure of the system.
func (u *Unwritable) Unwrap() error { return u.Err }

// causes are the failures that a person can mend, in words.
var causes = []struct {
	err   error
	cause string
}{
	{syscall.ENOSPC, "the disk is full"},
	{syscall.EDQUOT, "the disk quota is used up"},
	{syscall.EFBIG, "its file may not grow any more"},
	{syscall.EROFS, "its file system is read-only"},
	{syscall.EIO, "the disk has failed"},
	{syscall.ENOTDIR, "there is no folder where its folder is to be"},
	{fs.ErrPermission, "its folder does not allow it"},
	{fs.ErrNotExist, "its folder is not there"},
}

func cause(err error) string {
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.cause
		}
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		return no.Error()
	}
	return err.Error()
}

// outOfSpace says that the same file may take a line later.
func outOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
