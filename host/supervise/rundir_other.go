//go:build !unix

package supervise

import (
	"io/fs"
	"os"
	"path/filepath"
)

// fallbackBase: plugins listen on loopback here, no socket's path can be too long.
func fallbackBase() (string, error) { return filepath.Join(os.TempDir(), "drawbridge"), nil }

func sessionDirs() []string { return nil }

// checkOwner: the folder is under the user's own profile, whose access list it has.
func checkOwner(string, fs.FileInfo) error { return nil }
