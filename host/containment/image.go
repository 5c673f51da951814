package containment

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// ErrScript is returned for an executable that is a script: what runs is its
// interpreter, and that can only read it at its own path.
var ErrScript = errors.New("it starts with #!, so declare it with command, args and files instead of path")

// MismatchError says that an executable is not the one that was declared. Nothing
// of it has run.
type MismatchError struct {
	Path string
	// Want is the digest that was declared, Got that of the file: SHA-256, in
	// hexadecimal digits.
	Want, Got string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s has the SHA-256 %s, but %s was declared", e.Path, e.Got, e.Want)
}

// Sealed is a copy of an executable, whose content had a certain checksum when it
// was made. On Linux it is in memory and sealed: nobody can change it, so what was
// checked is what runs. Elsewhere it is a file that only this user can change.
type Sealed struct {
	sha256 string
	path   string   // of the copy; or of the original, if the copy is in memory
	memory *os.File // nil if the copy is a file
}

// SHA256 is the digest of what runs.
func (i *Sealed) SHA256() string { return i.sha256 }

// In makes a command run the copy.
func (i *Sealed) In(c Command) Command {
	c.Path, c.Image = i.path, i.memory
	return c
}

// Images keeps one image per checksum, for every start that asks for it. It is
// safe for concurrent use.
type Images struct {
	dir string

	mu   sync.Mutex
	held map[string]*heldImage
}

// heldImage is made under its own lock, so that one large executable does not hold
// up the start of another.
type heldImage struct {
	mu    sync.Mutex
	image *Sealed
}

// NewImages returns an empty store. Where images cannot be in memory they are files
// in dir, which nobody else may write to.
func NewImages(dir string) *Images {
	return &Images{dir: dir, held: map[string]*heldImage{}}
}

// Seal returns the image with the checksum want, 64 hexadecimal digits. The first
// time it is made from the file at path; an executable with another checksum is a
// *MismatchError. Afterwards path is not looked at again: what runs is what was
// declared, whatever has become of the file.
func (s *Images) Seal(path, want string) (*Sealed, error) {
	want = strings.ToLower(want)
	if digest, err := hex.DecodeString(want); err != nil || len(digest) != sha256.Size {
		return nil, fmt.Errorf("%q is no SHA-256", want)
	}
	s.mu.Lock()
	held, ok := s.held[want]
	if !ok {
		held = &heldImage{}
		s.held[want] = held
	}
	s.mu.Unlock()
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.image != nil {
		return held.image, nil
	}
	image, err := s.make(path, want)
	if err != nil {
		return nil, err
	}
	held.image = image
	return image, nil
}

// Close gives the images up. Processes that run one are not affected.
func (s *Images) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, held := range s.held {
		held.mu.Lock()
		if held.image != nil {
			errs = append(errs, held.image.close())
			held.image = nil
		}
		held.mu.Unlock()
	}
	return errors.Join(errs...)
}

func (i *Sealed) close() error {
	if i.memory != nil {
		return i.memory.Close()
	}
	return removeIfThere(i.path)
}

func (s *Images) make(path, want string) (*Sealed, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	source, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	image, err := memoryImage(path, want, source)
	if !errors.Is(err, ErrUnsupported) {
		return image, err
	}
	if _, err := source.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return s.fileImage(path, want, source)
}

// fileImage makes an image that is a file. It gets its name when it is whole.
func (s *Images) fileImage(path, want string, source io.Reader) (*Sealed, error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	copied, err := os.CreateTemp(s.dir, "image-*"+filepath.Ext(path))
	if err != nil {
		return nil, err
	}
	err = copyChecked(copied, source, path, want)
	if err == nil {
		err = copied.Chmod(0o500)
	}
	if err := errors.Join(err, copied.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(copied.Name()))
	}
	return &Sealed{sha256: want, path: copied.Name()}, nil
}

// copyChecked copies an executable and checks what it has copied.
func copyChecked(to io.Writer, source io.Reader, path, want string) error {
	var start [2]byte
	n, err := io.ReadFull(source, start[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if string(start[:n]) == "#!" {
		return fmt.Errorf("%s: %w", path, ErrScript)
	}
	hash := sha256.New()
	both := io.MultiWriter(to, hash)
	if _, err := both.Write(start[:n]); err != nil {
		return err
	}
	if _, err := io.Copy(both, source); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return &MismatchError{Path: path, Want: want, Got: got}
	}
	return nil
}
