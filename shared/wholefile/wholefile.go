// Package wholefile writes files that are there whole or not at all: a text is
// written beside its place under another name, and put there in one step. Whoever
// reads sees the old file or the new one, and a writer that dies leaves a file of
// another name and nothing else.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Options say how a file is written.
type Options struct {
	// Prefix begins the name that the text has until it is in its place; random
	// characters follow. It is what a writer's leavings are known by. "" is the file's
	// own name after a dot.
	Prefix string
	// Mode is the file's, whatever the umask; 0 for 0600.
	Mode fs.FileMode
	// Synced has the text on the disk before it takes its place, and its place after.
	Synced bool
}

// New is a text that waits beside its place. Exactly one of Replace and Create is
// called, or Discard, which does nothing after one of them has succeeded.
type New struct {
	path, temp string
	synced     bool
}

// Prepare writes a text beside the place at path, whose folder must be there.
func Prepare(path string, text []byte, o Options) (*New, error) {
	if o.Prefix == "" {
		o.Prefix = "." + filepath.Base(path) + "."
	}
	f, err := os.CreateTemp(filepath.Dir(path), o.Prefix+"*") // made with 0600
	if err != nil {
		return nil, err
	}
	n := &New{path: path, temp: f.Name(), synced: o.Synced}
	_, err = f.Write(text)
	if err == nil && o.Mode != 0 {
		err = f.Chmod(o.Mode)
	}
	if err == nil && o.Synced {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		n.Discard()
		return nil, err
	}
	return n, nil
}

// Replace puts the text into its place, and whatever is there out of it.
func (n *New) Replace() error {
	if err := os.Rename(n.temp, n.path); err != nil {
		return err
	}
	n.temp = ""
	n.sync()
	return nil
}

// Create puts the text into its place, if nothing is there: the first of several
// wins. The error of the others wraps fs.ErrExist.
func (n *New) Create() error {
	if err := os.Link(n.temp, n.path); err != nil {
		return err
	}
	n.Discard()
	n.sync()
	return nil
}

// Discard removes a text that is not in its place.
func (n *New) Discard() {
	if n.temp != "" {
		_ = os.Remove(n.temp) // what stays is known by its prefix
		n.temp = ""
	}
}

// sync takes the folder to the disk. Some systems cannot; the file is in its place
// all the same.
func (n *New) sync() {
	if !n.synced {
		return
	}
	if dir, err := os.Open(filepath.Dir(n.path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
}

// Writable says whether the regular file at path, which has these rights, may be written.
// Another can be put in the place of one that may not: who may do the one need not want
// the other. A file that is meant to be left alone is, by root too.
func Writable(path string, mode fs.FileMode) bool {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil && mode&0o200 != 0
}

// Write puts a text into the place at path, and whatever is there out of it.
func Write(path string, text []byte, o Options) error {
	return place(path, text, o, (*New).Replace)
}

// Create puts a text into the place at path, if nothing is there. Else its error
// wraps fs.ErrExist.
func Create(path string, text []byte, o Options) error {
	return place(path, text, o, (*New).Create)
}

func place(path string, text []byte, o Options, put func(*New) error) error {
	n, err := Prepare(path, text, o)
	if err != nil {
		return err
	}
	defer n.Discard()
	return put(n)
}
