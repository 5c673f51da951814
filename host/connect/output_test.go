package connect

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// unread is the output of a client that reads nothing: each write hangs until it is cut.
type unread struct {
	hangs chan struct{} // has room for one
	cut   chan struct{}
	once  sync.Once
}

func (u *unread) Write([]byte) (int, error) {
	select {
	case u.hangs <- struct{}{}:
	default:
	}
	<-u.cut
	return 0, os.ErrDeadlineExceeded
}

func (u *unread) SetWriteDeadline(time.Time) error {
	u.once.Do(func() { close(u.cut) })
	return nil
}

// TestEndsWithItsContextWhoeverReads: what the bridge answers itself, here a line that is
// no message, may find a client that reads nothing. That keeps nobody from ending it.
func TestEndsWithItsContextWhoeverReads(t *testing.T) {
	out := &unread{hangs: make(chan struct{}, 1), cut: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{
			In: strings.NewReader("no message\n"), Out: out, SpoolDir: t.TempDir(),
			Dial: func(context.Context, How) (Stream, error) { return nil, errNone },
		})
	}()
	t.Cleanup(func() { _ = out.SetWriteDeadline(time.Time{}) })
	<-out.hangs
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Run = %v", err)
		}
	case <-time.After(limit):
		t.Fatal("it does not end")
	}
}
