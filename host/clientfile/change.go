package clientfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/shared/wholefile"
)

var (
	// ErrChanged says that a file was changed while it was being edited.
	ErrChanged = errors.New("the file was changed meanwhile; nothing was written, try again")
	// ErrReadOnly marks a file that this user may not write.
	ErrReadOnly = errors.New("the file may not be written by this user")
)

// Read reads a client's file; nil where there is none.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is no regular file", ErrUnusable, path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%w: it is larger than %d MiB; a client's file of servers is not", ErrUnusable, maxFile>>20)
	}
	text, err := os.ReadFile(path)
	if text == nil && err == nil {
		text = []byte{}
	}
	return text, err
}

// Backups keeps in a private folder what clients' files were before they were written, so
// that they can be put back to the byte.
type Backups struct{ Dir string }

// record is what is known of a file that was written.
type record struct {
	Path string `json:"path"`
	// Existed says that there was a file; its text is in the backup. Made are the folders
	// that were made for it, the innermost first.
	Existed bool     `json:"existed"`
	Made    []string `json:"made,omitempty"`
	// Entries are the names of those that were written, and that it had not before.
	Entries []string `json:"entries"`
	// After is the SHA-256 of what was written.
	After string `json:"after"`
}

// place is where the backup of a file is; its record is beside it.
func (b Backups) place(path string) string {
	sum := sha256.Sum256([]byte(resolved(path)))
	return filepath.Join(b.Dir, hex.EncodeToString(sum[:8])+"-"+filepath.Base(path))
}

func (b Backups) recordOf(path string) (r record, ok bool) {
	text, err := os.ReadFile(b.place(path) + ".record")
	if err != nil || json.Unmarshal(text, &r) != nil {
		return record{}, false
	}
	return r, true
}

// Backup is the path of what is kept of a file, "" where nothing is.
func (b Backups) Backup(path string) string {
	if r, ok := b.recordOf(path); ok && r.Existed {
		return b.place(path)
	}
	return ""
}

// Write replaces a file, or makes it, to have an entry of a name, and keeps what was there.
// Of a file that is as it was written before, what was there before that stays kept.
func (b Backups) Write(path, entry string, before, after []byte) error {
	if err := unchanged(path, before); err != nil {
		return err
	}
	old, known := b.recordOf(path)
	again := known && old.After == sum(before)
	r := old
	if !again {
		r = record{Path: path, Existed: before != nil}
		if err := b.keep(path, before); err != nil {
			return err
		}
	}
	if before == nil {
		made, err := makeFolders(filepath.Dir(path))
		r.Made = made
		if err != nil {
			return err
		}
	}
	if r.After = sum(after); !slices.Contains(r.Entries, entry) {
		r.Entries = append(slices.Clone(r.Entries), entry)
	}
	err := b.note(path, r)
	if err == nil {
		err = replace(path, before, after)
	}
	switch {
	case err == nil:
	case again:
		err = errors.Join(err, b.note(path, old))
	default:
		b.forget(path)
	}
	return err
}

func (b Backups) note(path string, r record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return wholefile.Write(b.place(path)+".record", text, wholefile.Options{})
}

func (b Backups) keep(path string, before []byte) error {
	if err := os.MkdirAll(b.Dir, 0o700); err != nil {
		return err
	}
	if before == nil {
		return nil
	}
	return os.WriteFile(b.place(path), before, 0o600)
}

func (b Backups) forget(path string) {
	if b.Dir == "" {
		return
	}
	_ = os.Remove(b.place(path))
	_ = os.Remove(b.place(path) + ".record")
}

// Before is what a file was, nil for none, before an entry was written, if the file is now
// as it was written then; else ok is false: something else has changed it since, or it has
// other entries that were written.
func (b Backups) Before(path, entry string, now []byte) (before []byte, ok bool) {
	r, known := b.recordOf(path)
	if !known || now == nil || r.After != sum(now) || !slices.Equal(r.Entries, []string{entry}) {
		return nil, false
	}
	if !r.Existed {
		return nil, true
	}
	before, err := os.ReadFile(b.place(path))
	if err == nil && before == nil {
		before = []byte{}
	}
	return before, err == nil
}

// Undo puts a file to a text without an entry, nil for no file. What is kept of it is
// dropped, unless it stands for other entries still.
func (b Backups) Undo(path, entry string, now, after []byte) error {
	r, known := b.recordOf(path)
	if after == nil {
		if err := unchanged(path, now); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		removeEmpty(r.Made)
		b.forget(path)
		return nil
	}
	if err := replace(path, now, after); err != nil {
		return err
	}
	stands := known && r.After == sum(now) && slices.Contains(r.Entries, entry)
	if r.Entries = slices.DeleteFunc(r.Entries, func(name string) bool { return name == entry }); !stands || len(r.Entries) == 0 {
		b.forget(path)
		return nil
	}
	r.After = sum(after)
	return b.note(path, r)
}

// removeEmpty removes folders, the innermost first, up to one that something is in by now.
func removeEmpty(dirs []string) {
	for _, dir := range dirs {
		if os.Remove(dir) != nil {
			return
		}
	}
}

// makeFolders makes a folder and those above it, and returns which, the innermost first.
func makeFolders(dir string) (made []string, err error) {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, at)
	}
	return made, os.MkdirAll(dir, 0o700)
}

// replace puts a text in the place of another, whole or not at all; a link stays one, and
// so do the rights. A client's file may hold secrets: a new one is its user's alone.
func replace(path string, before, after []byte) error {
	path = resolved(path)
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		if mode = info.Mode().Perm(); !wholefile.Writable(path, mode) {
			return ErrReadOnly
		}
	}
	beside, err := wholefile.Prepare(path, after, wholefile.Options{Mode: mode, Synced: true})
	if err != nil {
		return err
	}
	defer beside.Discard()
	if err := unchanged(path, before); err != nil {
		return err
	}
	return beside.Replace()
}

// unchanged says whether a file still holds a text, nil for none.
func unchanged(path string, text []byte) error {
	now, err := Read(path)
	if err == nil && (!bytes.Equal(now, text) || (now == nil) != (text == nil)) {
		err = ErrChanged
	}
	return err
}

func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}
