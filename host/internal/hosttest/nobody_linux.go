package hosttest

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// AsNobody does something with the rights of a user who has none, for what root's own
// rights would hide. Where the test is not root's it is skipped.
func AsNobody(t testing.TB, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	const nobody = 65534
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		_, err := unix.SetfsuidRetUid(nobody)
		if err == nil {
			do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
