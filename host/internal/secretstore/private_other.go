//go:build !unix

package secretstore

import (
	"io/fs"
	"os"
)

// private cannot be told from a mode here: what a user's folder lets others do,
// it inherits from the profile that it is in.
func private(string, fs.FileInfo, fs.FileMode) error { return nil }

func openFile(path string) (*os.File, error) { return os.Open(path) }

// syncDir has no equal here; a rename is journaled by the file system.
func syncDir(string) error { return nil }
