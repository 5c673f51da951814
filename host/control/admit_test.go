package control

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/peer"
)

func TestJudge(t *testing.T) {
	const host = 100
	errDenied := fs.ErrPermission
	for name, c := range map[string]struct {
		line    []peer.Process
		foreign bool // of root, while the host is not
		says    string
	}{
		"the user's own":        {line: []peer.Process{{PID: 7}, {PID: 5}, {PID: 1}}},
		"below what is hidden":  {line: []peer.Process{{PID: 7}, {PID: 5, Hidden: errDenied}, {PID: 1, Hidden: errDenied}}},
		"hidden":                {line: []peer.Process{{PID: 7, Hidden: errDenied}, {PID: 1}}, says: "cannot be read: permission denied"},
		"root's":                {line: []peer.Process{{PID: 7, Hidden: errDenied}, {PID: 1, Hidden: errDenied}}, foreign: true},
		"a server":              {line: []peer.Process{{PID: 7, Mark: "h/p/1"}, {PID: 1}}, says: "it belongs to instance h/p/1"},
		"a server's child":      {line: []peer.Process{{PID: 7}, {PID: 6, Mark: "h/p/1"}}, says: "descends from process 6 of instance h/p/1"},
		"a scrubbed one's":      {line: []peer.Process{{PID: 7}, {PID: host}, {PID: 1}}, says: "started by the host itself"},
		"an orphan of the host": {line: []peer.Process{{PID: 7}, {PID: 6, Hidden: errDenied}, {PID: host}}, says: "started by the host itself"},
		"root's, of a server":   {line: []peer.Process{{PID: 7, Hidden: errDenied}, {PID: 6, Mark: "h/p/1"}}, foreign: true, says: "instance"},
	} {
		err := judge(c.line, host, !c.foreign)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	if err := judge([]peer.Process{{Hidden: errDenied}}, host, true); !errors.Is(err, errHidden) {
		t.Errorf("%v", err)
	}
}

// knockEnv names the socket that a child of the test asks for status.
const knockEnv = "CONTROL_TEST_KNOCK"

// knock asks as anybody could, and tells what comes back.
func knock(socket string) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET "+pathStatus+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	_, _ = io.Copy(os.Stdout, conn)
	return 0
}

// TestStrangerGivesNoCommand: what the host has started is refused, with its mark
// and without, and is told why.
func TestStrangerGivesNoCommand(t *testing.T) {
	if !peer.Supported {
		t.Skip("who connects is not known here, so there is no socket")
	}
	h := newHouse(t)
	h.serveWith(admit)
	for name, env := range map[string][]string{
		"with its mark":    {"DRAWBRIDGE_INSTANCE=h/files/1"},
		"without its mark": nil,
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(env, knockEnv+"="+h.control.opts.Info.socket(h.dir))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if text := string(out); !strings.HasPrefix(text, "HTTP/1.1 403 ") || !strings.Contains(text, "the host takes no commands from this process") ||
			strings.Contains(text, "providers") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// More than can be told are hung up on, and nobody else waits for them.
func TestKnockingWithoutEnd(t *testing.T) {
	if !peer.Supported {
		t.Skip("who connects is not known here, so there is no socket")
	}
	h := newHouse(t)
	var refusing atomic.Bool
	refusing.Store(true)
	knocked := make(chan struct{}, 10*maxRefusals+1)
	c := h.serveWith(func(*net.UnixConn) error {
		knocked <- struct{}{}
		if refusing.Load() {
			return errors.New("no")
		}
		return nil
	})
	for range 10 * maxRefusals { // they say nothing, and so hold on for as long as they may
		conn, err := net.Dial("unix", h.control.opts.Info.socket(h.dir))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		<-knocked
	}
	refusing.Store(false)
	if _, err := c.Status(t.Context()); err != nil {
		t.Error(err)
	}
}
