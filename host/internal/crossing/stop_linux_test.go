package crossing

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestStopWithAClientThatReadsNothing: a host that is told to stop ends, with all that
// it started, long before write_timeout gives up a client that reads nothing.
func TestStopWithAClientThatReadsNothing(t *testing.T) {
	p := hosttest.NewPlace(t)
	path := config(t, p, `write_timeout = "30m"`, provider{name: "fake", body: "  start = \"eager\"\n" + limits(`stop_grace = "1s"`)})
	unread, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := p.Command(t, "serve", "--stdio", "--config", path)
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _, _, _, _ = cmd.Process.Kill(), unread.Close(), stdout.Close(), stdin.Close() })
	if _, err := stdin.Write([]byte(strings.Repeat("no message\n", 4000))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the host does not fill its output", func() bool {
		n, err := unix.IoctlGetInt(int(unread.Fd()), unix.TIOCINQ)
		return err == nil && n >= 60<<10
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var failure error
	eventually(t, "the host does not end", func() bool {
		select {
		case failure = <-ended:
			return true
		default:
			return false
		}
	})
	if failure == nil || !strings.Contains(stderr.String(), "the client reads nothing, and the host stops: what it has not read is lost") {
		t.Errorf("%v; it says %s", failure, stderr.String())
	}
}
