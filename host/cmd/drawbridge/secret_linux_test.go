package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-mcp/drawbridge/host/internal/secretstore"
)

// terminal is a pseudo terminal: ours is where a person sits, theirs what a command
// has as its input.
func terminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	if theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = theirs.Close() })
	return ours, theirs
}

// echoes says whether a terminal shows what is typed.
func echoes(t *testing.T, f *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

func untilSilent(t *testing.T, f *os.File) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); echoes(t, f); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the terminal shows what is typed")
		}
	}
}

// asked runs `secret set` on a terminal.
func asked(ctx context.Context, t *testing.T, input *os.File) (state string, ended <-chan int) {
	t.Helper()
	dir := t.TempDir()
	state = filepath.Join(dir, "state")
	file := filepath.Join(dir, "providers.hcl")
	if err := os.WriteFile(file, fmt.Appendf(nil, "host {\n  state_dir = %q\n}\n", state), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"secret", "set", "API_KEY", "--config", file}, process{in: input, out: io.Discard, err: io.Discard, hurry: ctx})
	}()
	return state, done
}

func TestWhatIsTypedDoesNotShow(t *testing.T) {
	ours, theirs := terminal(t)
	state, ended := asked(t.Context(), t, theirs)
	untilSilent(t, theirs)
	if _, err := ours.WriteString("t0p-s3cret\n"); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	if !echoes(t, theirs) {
		t.Error("the terminal stays silent")
	}
	if got, err := secretstore.In(state).Get("API_KEY"); err != nil || string(got) != "t0p-s3cret" {
		t.Errorf("kept %q, %v", got, err)
	}
	_ = theirs.Close()
	shown, _ := io.ReadAll(ours) // ends with an error of the terminal that nobody is at any more
	if strings.Contains(string(shown), "s3cret") {
		t.Errorf("it shows %q", shown)
	}
}

func TestAnInterruptedPromptLeavesTheTerminalAsItWas(t *testing.T) {
	ours, theirs := terminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	state, ended := asked(ctx, t, theirs)
	untilSilent(t, theirs)
	interrupt()
	if code := <-ended; code != exitError {
		t.Errorf("exit code %d", code)
	}
	if !echoes(t, theirs) {
		t.Error("the terminal stays silent")
	}
	if _, err := secretstore.In(state).Get("API_KEY"); err == nil {
		t.Error("something was kept")
	}
	_, _ = ours.WriteString("\n") // for who still reads
}
