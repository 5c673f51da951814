package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/drawbridge-mcp/drawbridge/shared/wholefile"
)

// ErrChanged says that the file was changed while it was being added to.
var ErrChanged = errors.New("the file was changed meanwhile; nothing was written, import again")

// Rights of what is made: a configuration holds no secret, and its folder is the
// user's own.
const (
	fileMode   = 0o644
	folderMode = 0o700
)

// readTarget reads the file to add to; nil where there is none.
func readTarget(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, whyNot(err))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: it is no regular file", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, whyNot(err))
	}
	if text == nil {
		text = []byte{}
	}
	return text, nil
}

// Apply keeps the credentials and then puts the file in place, whole. Where the file
// cannot be written, what was kept is removed again. It says whether it wrote the file,
// and which secrets it kept; where nothing is new, it touches nothing.
func (m *Merged) Apply() (written bool, kept []string, err error) {
	undo := func() {
		for _, name := range kept {
			_ = m.store.Remove(name)
		}
		kept = nil
	}
	changes := m.Old == nil && len(m.New) > 0 || !bytes.Equal(m.Old, m.New)
	var place *placing
	if changes {
		// That it can be written is found out before a secret is kept.
		if place, err = m.prepare(); err != nil {
			return false, nil, err
		}
		defer place.Discard()
	}
	for _, c := range m.credentials {
		if err := m.store.Set(c.Name, []byte(c.Value)); err != nil {
			undo()
			return false, nil, fmt.Errorf("secret %s: %w", c.Name, err)
		}
		kept = append(kept, c.Name)
	}
	if !changes {
		return false, kept, nil
	}
	if err := place.put(m.Old); err != nil {
		undo()
		return false, nil, err
	}
	return true, kept, nil
}

// placing is a new file beside the one that it is to replace.
type placing struct {
	*wholefile.New
	path string
}

// prepare writes the new text beside the file.
func (m *Merged) prepare() (*placing, error) {
	path := m.Target.File
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved // a link stays one
	}
	mode := fs.FileMode(fileMode)
	if info, err := os.Stat(path); err == nil {
		if mode = info.Mode().Perm(); !wholefile.Writable(path, mode) {
			return nil, fmt.Errorf("%s: it may not be written by this user", path)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), folderMode); err != nil {
		return nil, fmt.Errorf("%s: its folder cannot be made: %w", path, cause(err))
	}
	beside, err := wholefile.Prepare(path, m.New, wholefile.Options{Prefix: ".drawbridge-", Mode: mode, Synced: true})
	if err != nil {
		return nil, fmt.Errorf("%s: it cannot be written: %w", path, cause(err))
	}
	return &placing{beside, path}, nil
}

// put renames the new file over the old one, if that is still what it was.
func (p *placing) put(old []byte) error {
	now, err := readTarget(p.path)
	if err != nil {
		return err
	}
	if (now == nil) != (old == nil) || !bytes.Equal(now, old) {
		return fmt.Errorf("%s: %w", p.path, ErrChanged)
	}
	if err := p.Replace(); err != nil {
		return fmt.Errorf("%s: it cannot be replaced: %w", p.path, cause(err))
	}
	return nil
}

// cause is what the system said, without the path it said it of.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		return link.Err
	}
	return err
}
