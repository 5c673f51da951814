//go:build unix

package identity

import (
	"io/fs"
	"os"
	"syscall"
)

// Own says whether a file is this user's.
func Own(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) == os.Geteuid()
}
