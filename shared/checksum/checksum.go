package checksum

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

var (
	// ErrNotRegular is returned for a folder, a device or a pipe.
	ErrNotRegular = errors.New("not a regular file")
	// ErrNoFiles is returned for a script without a file: its checksum would hold of
	// every script.
	ErrNoFiles = errors.New("no files")
)

// Named is a file under the name by which it is declared.
type Named struct {
	// Name is as it was written, Path where the file is.
	Name, Path string
}

// File is the SHA-256 of a file, in lower-case hexadecimal. Errors are a
// *fs.PathError: the file system's, or ErrNotRegular.
func File(path string) (string, error) {
	info, err := os.Stat(path) // opening a pipe would wait for its other end
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", &fs.PathError{Op: "read", Path: path, Err: ErrNotRegular}
	}
	f, err := os.Open(path) // the file that the owner declared
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Files is the checksum of a script, in lower-case hexadecimal. Errors are
// ErrNoFiles, and File's of the first file that cannot be read.
func Files(files []Named) (string, error) {
	if len(files) == 0 {
		return "", ErrNoFiles
	}
	h := sha256.New()
	for _, file := range files {
		one, err := File(file.Path)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(h, "%s  %s\n", one, file.Name) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
