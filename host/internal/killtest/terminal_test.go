//go:build linux

package killtest

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onTerminal is a host whose controlling terminal is the test's, with MCP on pipes as
// a client has it that was started in a terminal.
type onTerminal struct {
	*host
	terminal *os.File
}

// serveOnTerminal starts a host in the foreground of a terminal of its own.
func (p place) serveOnTerminal(t *testing.T, config string, flags ...string) onTerminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	t.Cleanup(func() { _ = ours.Close() })
	fd := int(ours.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = theirs.Close() }()
	h := &host{ended: make(chan struct{}), pending: map[int]chan reply{}}
	h.cmd = p.command(drawbridge(), append([]string{"serve", "--stdio", "--config", config}, flags...)...)
	h.cmd.ExtraFiles = []*os.File{theirs}
	h.cmd.SysProcAttr.Setsid, h.cmd.SysProcAttr.Setctty, h.cmd.SysProcAttr.Ctty = true, true, 3
	h.run(t)
	return onTerminal{h, ours}
}

// ctrlC presses it: the terminal sends SIGINT to its foreground group.
func (o onTerminal) ctrlC(t *testing.T) {
	t.Helper()
	if _, err := o.terminal.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	address := l.Addr().String()
	return address[strings.LastIndexByte(address, ':')+1:]
}

// TestTheEndOfATerminalEndsTheHost: SIGHUP makes a host read its files again, but for
// the one that says that its terminal is gone.
func TestTheEndOfATerminalEndsTheHost(t *testing.T) {
	t.Parallel()
	p := newPlace(t, os.Getuid())
	h := p.serveOnTerminal(t, p.config(t, "c.hcl", provider{"p", []string{"--life", "5m", "--log", p.path("p.log")}, restarts}))
	h.ready(t, p)
	h.echo(t)
	if err := h.cmd.Process.Signal(unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the files are read", func() bool { return strings.Contains(h.stderr(), "are read anew") })
	h.echo(t)
	if err := h.terminal.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.end(t); err != nil {
		t.Errorf("the host ended with %v", err)
	}
	if left := marked(h.id); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
