package artifact

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestForeignFilesAreLeftAlone: a server runs as the same user, and can put into the
// folder what it likes. Neither a pipe nor a folder holds the store up, or the others.
func TestForeignFilesAreLeftAlone(t *testing.T) {
	s, c := newStore(t, 100)
	r := put(t, s, origin, "mine")
	record, data, folder := newID(), put(t, s, origin, "pipe").ID, newID()
	for _, path := range []string{s.path(record, recordEnding), s.path(data, dataEnding)} {
		_ = os.Remove(path)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, ending := range []string{recordEnding, dataEnding, partEnding} {
		if err := os.MkdirAll(s.path(folder, ending)+"/full", 0o700); err != nil {
			t.Fatal(err)
		}
		old := c.Now().Add(-2 * abandonedAfter)
		if err := os.Chtimes(s.path(folder, ending), old, old); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		list, err := s.List(origin.Principal)
		if len(list) != 2 {
			err = errors.Join(err, errors.New("not both are listed"))
		}
		if _, _, e := s.Reader(origin.Principal, data); !errors.Is(e, ErrDamaged) {
			err = errors.Join(err, errors.New("the pipe was opened"), e)
		}
		_, e := s.Stat(origin.Principal, record)
		if !errors.Is(e, ErrDamaged) {
			err = errors.Join(err, errors.New("the pipe was read"), e)
		}
		ended <- errors.Join(err, s.Sweep())
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for a pipe")
	}
	if f, _, err := s.Reader(origin.Principal, r.ID); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
	if r := put(t, s, origin, string(make([]byte, 99))); r.Size != 99 { // makes room
		t.Errorf("%+v", r)
	}
}
