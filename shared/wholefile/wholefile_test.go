package wholefile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// names are what is in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestWrite: the text is there, with the mode that was asked for, and nothing beside it.
func TestWrite(t *testing.T) {
	for _, o := range []Options{{}, {Mode: 0o644}, {Synced: true}, {Prefix: "new-"}} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a")
		for _, text := range []string{"one", "two and more", ""} {
			if err := Write(path, []byte(text), o); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("%+v: %q, %v, want %q", o, got, err, text)
			}
		}
		want := o.Mode
		if want == 0 {
			want = 0o600
		}
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != want {
			t.Errorf("%+v: mode %v, want %v (%v)", o, info.Mode(), want, err)
		}
		if got := fmt.Sprint(names(t, dir)); got != "[a]" {
			t.Errorf("%+v: the folder holds %s", o, got)
		}
	}
}

// TestCreate: of many at once one wins, whole, and the others are told.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	var all sync.WaitGroup
	var won atomic.Int32
	for i := range 16 {
		all.Go(func() {
			err := Create(path, bytes.Repeat([]byte{byte('a' + i)}, 1000), Options{})
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(path)
	if err != nil || won.Load() != 1 || len(text) != 1000 || bytes.Count(text, text[:1]) != 1000 {
		t.Errorf("%d won, %d bytes, %v", won.Load(), len(text), err)
	}
	if got := fmt.Sprint(names(t, dir)); got != "[a]" {
		t.Errorf("the folder holds %s", got)
	}
}

// TestDiscard: what is not put into its place leaves nothing, and what was stays.
func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := Prepare(path, []byte("new"), Options{Prefix: "beside-"})
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 2 || got[1][:7] != "beside-" {
		t.Errorf("the folder holds %q", got)
	}
	n.Discard()
	n.Discard()
	if got := fmt.Sprint(names(t, dir)); got != "[a]" {
		t.Errorf("the folder holds %s", got)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestErrors: a place that cannot be had is an error and leaves nothing.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	if err := Write(filepath.Join(dir, "none", "a"), nil, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(taken, []byte("text"), Options{}); err == nil {
		t.Error("a folder was replaced")
	}
	if got := fmt.Sprint(names(t, dir)); got != "[taken]" {
		t.Errorf("the folder holds %s", got)
	}
}

// TestWritable: a file without the right to write is left alone, by root too.
func TestWritable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for mode, want := range map[fs.FileMode]bool{0o600: true, 0o400: false} {
		if err := Write(path, nil, Options{Mode: mode}); err != nil {
			t.Fatal(err)
		}
		if got := Writable(path, mode); got != want {
			t.Errorf("%v: %v", mode, got)
		}
	}
	if Writable(filepath.Dir(path), 0o700) {
		t.Error("a folder may be written")
	}
}
