package crossing

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// plain builds the host without the race detector, which takes memory for itself.
func plain(t *testing.T, p hosttest.Place) string {
	t.Helper()
	if !hosttest.Race {
		return filepath.Join(hosttest.Build(t), "drawbridge")
	}
	path := p.Path("drawbridge")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/drawbridge-mcp/drawbridge/host/cmd/drawbridge").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// peak is the most memory that a process has had since fromNow, in KiB.
func peak(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the kernel says nothing of VmHWM")
	return 0
}

// fromNow forgets what a process has had before; see proc(5), clear_refs.
func fromNow(t *testing.T, pid int) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Skipf("the peak of a process cannot be measured here: %v", err)
	}
}

// TestALargeResultTakesLittleMemory: of 100 MiB the host has never more than 32 MiB in
// memory above what a small call takes, neither on the way up nor when it is read back
// in parts, and what is read back is what the server sent.
func TestALargeResultTakesLittleMemory(t *testing.T) {
	const size, most = 100 * mib, 32 << 10
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "fake", body: limits("max_message = \"128MiB\"\n    call_timeout = \"5m\"")})
	cmd := p.Command(t, "serve", "--config", path)
	cmd.Path = plain(t, p)
	h := hosttest.StartHTTP(t, cmd)
	c := h.Client(t)
	hosttest.CallTool(t, c, "fake_big", `{"bytes":100}`)
	fromNow(t, h.PID())
	hosttest.CallTool(t, c, "fake_big", `{"bytes":100}`)
	small := peak(t, h.PID())
	rises := func(what string) {
		t.Helper()
		rise := peak(t, h.PID()) - small
		t.Logf("| %-34s %6d KiB above a small call's %d, of %d", what, rise, small, most)
		if rise >= most {
			t.Errorf("%s: %d KiB more than a small call, want less than %d", what, rise, most)
		}
		fromNow(t, h.PID())
	}
	fromNow(t, h.PID())
	link := big(t, c, "fake_big", size)
	rises("a result of 100 MiB")
	want := sumOf(size)
	if got := readParts(t, c, link, 10*mib+1); got != want {
		t.Errorf("resources/read: the sha256 is %s, want %s", got, want)
	}
	rises("resources/read in parts of 10 MiB")
	if res, body := web(t, h, http.MethodGet, h.Token, idOf(link)); res.StatusCode != http.StatusOK || res.Header.Get("ETag") != `"`+want+`"` || len(body) != size {
		t.Errorf("GET: %s with %d bytes, ETag %s", res.Status, len(body), res.Header.Get("ETag"))
	}
	rises("GET of the whole")
}

// TestAFullDiskCostsNoOutcome: where the disk is full in the middle of an artifact the
// call is ok all the same, says what it lacks, and nothing of it stays; when there is
// room again, results are kept again.
func TestAFullDiskCostsNoOutcome(t *testing.T) {
	p := hosttest.NewPlace(t)
	disk := smallDisk(t, p, "state/artifacts", "2m")
	path := config(t, p, "", provider{name: "fake", body: standing})
	c := p.ServeStdio(t, path)
	first := big(t, c, "fake_big", mib)
	r := tool(t, c, "fake_big", fmt.Sprintf(`{"bytes":%d}`, 3*mib))
	if links := linksOf(t, r); len(links) != 0 {
		t.Errorf("on a full disk there are the links %+v", links)
	}
	if text := textOf(t, r); !strings.Contains(text, "could not be kept") || !strings.Contains(text, "no space left") {
		t.Errorf("the caller is told %.600s", text)
	}
	if got := readParts(t, c, first, mib); got != sumOf(mib) {
		t.Errorf("what was kept before is read as %s", got)
	}
	if parts, _ := filepath.Glob(disk + "/*.part"); len(parts) != 0 {
		t.Errorf("of what could not be kept there is %v", parts)
	}
	if again := big(t, c, "fake_big", mib/2+1<<17); readParts(t, c, again, mib) != sumOf(mib/2+1<<17) {
		t.Error("what fits is not kept")
	}
	var got []string
	for _, row := range rowsOf(t, p, path) {
		got = append(got, fmt.Sprintf("%s %d %v", row.ended(), len(row.Artifacts), row.ResultBytes > mib/2))
	}
	if want := []string{"big ok sent 1 true", "big ok sent 0 true", "big ok sent 1 true"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
}
