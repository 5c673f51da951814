package secretstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/shared/wholefile"
)

const (
	// folder is where the files stand, in the state dir.
	folder = "secrets"
	// extension ends the name of a file; before it stands the secret's name.
	extension = ".secret"
	// temporary begins the name of a file that is being written.
	temporary = ".writing-"
	// abandoned is the age from which a temporary file is one that its writer left.
	abandoned = time.Hour
	// MaxValue is the most bytes of a value: twice that is what an environment
	// holds in one variable on Linux.
	MaxValue = 64 << 10
	// MaxName is the most characters of a name.
	MaxName = 64
)

// What goes wrong with a secret. All but ErrName and ErrValue come with the file.
var (
	// ErrName: no secret can have this name.
	ErrName = fmt.Errorf("a name has 1 to %d of A-Z a-z 0-9 _ - and the dot, and begins with neither of the last two", MaxName)
	// ErrValue: no secret can have this value.
	ErrValue = fmt.Errorf("a value has 1 to %d bytes", MaxValue)
	// ErrNotSet: there is no secret of this name.
	ErrNotSet = errors.New("is not set")
	// ErrOpen: users other than its owner may read or write it.
	ErrOpen = errors.New("is open to other users")
	// ErrOwner: it belongs to another user.
	ErrOwner = errors.New("belongs to another user")
	// ErrDamaged: it is not whole, or was not written as a secret.
	ErrDamaged = errors.New("is damaged, or is no secret's file")
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// CheckName says whether a secret can have this name; else the error is ErrName.
func CheckName(name string) error {
	if len(name) > MaxName || !validName.MatchString(name) {
		return ErrName
	}
	return nil
}

// Store is the secrets of one state dir. Processes that share it need no lock. It
// is safe for concurrent use.
type Store struct{ dir string }

// In returns the store of a state dir, which need not be there yet.
func In(stateDir string) *Store { return &Store{dir: filepath.Join(stateDir, folder)} }

// Dir is the folder of its files.
func (s *Store) Dir() string { return s.dir }

func (s *Store) path(name string) string { return filepath.Join(s.dir, name+extension) }

// Get returns a value as it was set. The error wraps one of the above, or says why
// the file cannot be read; it names the file.
func (s *Store) Get(name string) ([]byte, error) {
	e, err := s.read(name)
	return e.value, err
}

// read reads a secret's file.
func (s *Store) read(name string) (entry, error) {
	if err := CheckName(name); err != nil {
		return entry{}, err
	}
	switch err := s.checkFolder(); {
	case errors.Is(err, fs.ErrNotExist):
		return entry{}, ErrNotSet
	case err != nil:
		return entry{}, err
	}
	path := s.path(name)
	f, err := openFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return entry{}, ErrNotSet
	}
	if err != nil {
		return entry{}, fmt.Errorf("secret store: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return entry{}, fmt.Errorf("secret store: %w", err)
	}
	if !info.Mode().IsRegular() {
		return entry{}, fmt.Errorf("%s %w: it is no regular file", path, ErrDamaged)
	}
	if err := private(path, info, 0o600); err != nil {
		return entry{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return entry{}, fmt.Errorf("secret store: %w", err)
	}
	e, err := parse(text)
	if err == nil && e.name != name {
		err = fmt.Errorf("it was written as that of %q", e.name)
	}
	if err != nil {
		return entry{}, fmt.Errorf("%s %w: %w; set the secret again", path, ErrDamaged, err)
	}
	return e, nil
}

// checkFolder says whether nobody else can put files into the folder.
func (s *Store) checkFolder() error {
	info, err := os.Lstat(s.dir)
	if err != nil {
		return fmt.Errorf("secret store: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s %w: it is no folder", s.dir, ErrDamaged)
	}
	return private(s.dir, info, 0o700)
}

// Set keeps a value, its bytes as they are. The secret has the old value or the
// new one, whatever happens meanwhile.
func (s *Store) Set(name string, value []byte) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if len(value) == 0 || len(value) > MaxValue {
		return ErrValue
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("secret store: %w", err)
	}
	if err := s.checkFolder(); err != nil {
		return err
	}
	s.sweep()
	text := entry{name: name, set: time.Now(), value: value}.text()
	if err := wholefile.Write(s.path(name), text, wholefile.Options{Prefix: temporary, Synced: true}); err != nil {
		return fmt.Errorf("secret store: %w", err)
	}
	return s.sync()
}

// sweep removes what writers left that were killed: it may hold a value.
func (s *Store) sweep() {
	names, _ := filepath.Glob(filepath.Join(s.dir, temporary+"*")) // our own pattern
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(name)
		}
	}
}

// Remove forgets a secret, damaged ones too.
func (s *Store) Remove(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	err := os.Remove(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotSet
	}
	if err != nil {
		return fmt.Errorf("secret store: %w", err)
	}
	return s.sync()
}

func (s *Store) sync() error {
	if err := syncDir(s.dir); err != nil {
		return fmt.Errorf("secret store: %w", err)
	}
	return nil
}

// Entry is a secret without its value.
type Entry struct {
	Name string `json:"name"`
	// Set is when its value was set, to the second, in UTC.
	Set time.Time `json:"set"`
}

// List returns all secrets by name. The error names what is in the folder and is
// none, joined; the others are listed all the same.
func (s *Store) List() ([]Entry, error) {
	switch err := s.checkFolder(); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	files, err := os.ReadDir(s.dir) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("secret store: %w", err)
	}
	var out []Entry
	var wrong []error
	for _, file := range files {
		if strings.HasPrefix(file.Name(), temporary) {
			continue
		}
		name, ok := strings.CutSuffix(file.Name(), extension)
		if !ok || CheckName(name) != nil {
			wrong = append(wrong, fmt.Errorf("%s %w", filepath.Join(s.dir, file.Name()), ErrDamaged))
			continue
		}
		e, err := s.read(name)
		if errors.Is(err, ErrNotSet) {
			continue // removed meanwhile
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		out = append(out, Entry{Name: name, Set: e.set})
	}
	return out, errors.Join(wrong...)
}
