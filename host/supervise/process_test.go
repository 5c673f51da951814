//go:build unix

package supervise

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// A message over gRPC's default limit of 4 MiB, both ways, through a real plugin.
func TestC108_BigMessages(t *testing.T) {
	l := newLauncher(t)
	conn := startServer(t, launch(t, l, "good"))
	message := make([]byte, 5<<20+17)
	for i := range message {
		message[i] = 'a' + byte(i*7%26)
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		for off := 0; off < len(message); off += provider.SendChunk {
			end := min(off+provider.SendChunk, len(message))
			if err := conn.Send(provider.Frame{Seq: 1, Data: message[off:end], Last: end == len(message)}); err != nil {
				t.Errorf("send: %v", err)
				return
			}
		}
	})
	defer sending.Wait()
	var back []byte
	for {
		e, err := conn.Recv()
		if err != nil {
			t.Fatal(err)
		}
		chunk, ok := e.(provider.Chunk)
		if !ok {
			t.Fatalf("%T", e)
		}
		back = append(back, chunk.Data...)
		if chunk.Last {
			break
		}
	}
	if sha256.Sum256(back) != sha256.Sum256(message) {
		t.Errorf("%d bytes came back of %d", len(back), len(message))
	}
}

// A line that panics a host which reads standard error with go-plugin.
func TestStderrIsOurs(t *testing.T) {
	l := newLauncher(t)
	p := launch(t, l, "talks")
	startServer(t, p)
	p.Stop(t.Context(), time.Second)
	for _, text := range []string{`{"@message": 1}`, "[ERROR] plain", "token [redacted] here", "… (cut)"} {
		if text != "… (cut)" && !strings.Contains(p.StderrTail(), text) {
			t.Errorf("the tail has no %q", text)
		}
	}
	path := filepath.Join(l.LogDir, "files.log")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the log's permissions are %v", info.Mode())
	}
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(log, []byte("s3cret")) {
		t.Error("a secret in the log")
	}
	if !regexp.MustCompile(`(?m)^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z #1 token \[redacted\] here$`).Match(log) {
		t.Errorf("log %.500s", log)
	}
	if !bytes.Contains(log, []byte("… (cut)\n")) || len(log) > 2*maxLine {
		t.Errorf("a long line made a log of %d bytes", len(log))
	}
}

// What a plugin prints after its handshake reaches the log and is no handshake.
func TestPrintedLater(t *testing.T) {
	l := newLauncher(t)
	p := launch(t, l, "prints")
	if _, err := p.Remote().Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(limit); !strings.Contains(p.StderrTail(), "printed on standard output") ||
		!strings.Contains(p.StderrTail(), "printed on standard error"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("tail %q", p.StderrTail())
		}
	}
}

// A process that outlives the plugin with its descriptors 1 and 2 hides its end
// from who waits for the pipes.
func TestHeirDoesNotHideTheExit(t *testing.T) {
	l := newLauncher(t)
	p := launch(t, l, "heir")
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, p, 5*time.Second)
	if st, ended := p.Exit(); !ended || st.Signal != 9 {
		t.Errorf("exit %+v, %v", st, ended)
	}
	if f := p.Failure(PhaseRunning); !strings.Contains(f.Error(), "the plugin was killed by signal 9 (killed)") {
		t.Errorf("failure %v", f)
	}
}

// A host that is killed leaves nothing, in each tier. Processes are known by the
// mark in their environment: the pids that they have inside of a namespace are
// others' out here.
func TestHostKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	for _, tier := range []string{"direct", "subreaper", "pidns"} {
		t.Run(tier, func(t *testing.T) {
			run, err := OpenRunDir(provider.NewToken())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = run.Close() }()
			cmd := exec.Command("/proc/self/exe", "host", run.Path, t.TempDir(), tier)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var id string
			_, err = fmt.Fscan(out, &id)
			commands := strings.Join(slices.Collect(maps.Values(marked(t, id))), "\n")
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if id == "refused" {
				t.Skip("this machine refuses the tier")
			}
			for _, want := range []string{"drawbridge plugin good", "sleep 1000"} {
				if !strings.Contains(commands, want) {
					t.Errorf("before the kill there was no %q among\n%s", want, commands)
				}
			}
			for end := time.Now().Add(10 * time.Second); len(marked(t, id)) > 0; time.Sleep(time.Millisecond) { // five, and as much again
				if time.Now().After(end) {
					t.Fatalf("left: %v", marked(t, id))
				}
			}
		})
	}
}

// marked are the processes, but for zombies, that carry the mark of a host: what
// they run, by pid.
func marked(t *testing.T, host string) map[int]string {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil || len(environs) == 0 {
		t.Fatalf("no processes: %v", err)
	}
	found := map[int]string{}
	for _, path := range environs {
		env, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(append([]byte{0}, env...), []byte("\x00"+provider.MarkEnv+"="+host+"/")) {
			continue // another's, or gone
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		if command, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline")); err == nil && len(command) > 0 { // a zombie has none
			found[pid] = strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

func TestWedgedPluginIsStopped(t *testing.T) {
	l := newLauncher(t)
	p := launch(t, l, "good")
	startServer(t, p)
	if err := syscall.Kill(p.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p.Stop(t.Context(), 10*time.Millisecond)
	if d := time.Since(began); d > 10*time.Millisecond+stopSlack+wedgedBudget+2*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestHurryGoesToTheLastStep(t *testing.T) {
	l := newLauncher(t)
	p := launch(t, l, "stubborn")
	startServer(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	began := time.Now()
	st := p.Stop(ctx, time.Hour)
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
	if st.Signal != 9 {
		t.Errorf("%+v", st)
	}
}

func TestServersEndIsTold(t *testing.T) {
	l := newLauncher(t)
	p := launch(t, l, "server-dies")
	conn := startServer(t, p)
	e, err := conn.Recv()
	exited, ok := e.(provider.Exited)
	if err != nil || !ok || exited.Status.StderrTail != "loading\nkey [redacted]\n" {
		t.Fatalf("%v, %v", e, err)
	}
	want := `provider "Files" (providers.hcl:12): running: the server was killed by signal 9 (killed): key [redacted]`
	if got := p.Failure(PhaseRunning).Error(); got != want {
		t.Errorf("failure %s", got)
	}
}

func TestBadFramesEndTheExchange(t *testing.T) {
	l := newLauncher(t)
	conn := startServer(t, launch(t, l, "bad-frames"))
	if e, err := conn.Recv(); !errors.Is(err, provider.ErrContract) {
		t.Errorf("%v, %v", e, err)
	}
}

func TestCondemn(t *testing.T) {
	l := newLauncher(t)
	p := launch(t, l, "good")
	startServer(t, p)
	f := p.Spec().failure(PhaseRunning, "three pings without an answer")
	p.Condemn(f, 0)
	p.Condemn(p.Spec().failure(PhaseRunning, "another"), 0)
	<-p.Condemned()
	await(t, p, limit)
	if got := p.Failure(PhaseRunning); got != f {
		t.Errorf("failure %v", got)
	}
}
