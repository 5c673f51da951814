//go:build unix

package supervise

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

func TestLaunchAndStop(t *testing.T) {
	l := newLauncher(t)
	p := launch(t, l, "good")
	if p.Mark() != "h0/files/1" {
		t.Errorf("mark %q", p.Mark())
	}
	conn := startServer(t, p)
	if err := conn.Send(provider.Frame{Seq: 1, Data: []byte(`{"a":1}`), Last: true}); err != nil {
		t.Fatal(err)
	}
	if e, err := conn.Recv(); err != nil || string(e.(provider.Chunk).Data) != `{"a":1}` {
		t.Errorf("echo: %v, %v", e, err)
	}
	if _, ended := p.Exit(); ended {
		t.Error("an exit status while it runs")
	}
	st := p.Stop(t.Context(), time.Second)
	if st.Signal != 15 || st.StderrTail != "bye [redacted]" {
		t.Errorf("stop says %+v", st)
	}
	if own, ended := p.Exit(); !ended || own.Code != 0 || own.Signal != 0 {
		t.Errorf("the plugin ended with %+v, %v", own, ended)
	}
	if again := p.Stop(t.Context(), time.Second); again != st {
		t.Errorf("a second stop says %+v", again)
	}
	// The next start is another instance.
	if next := launch(t, l, "good"); next.Mark() != "h0/files/2" {
		t.Errorf("mark %q", next.Mark())
	}
}

// Four ways in which a plugin does not come up, four messages that say what to do.
func TestC105_OutputBeforeTheHandshake(t *testing.T) {
	l := newLauncher(t)
	dir := t.TempDir()
	file := func(name, body string, mode os.FileMode) Exec {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(body), mode); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(body))
		return Exec{Name: name, Path: path, SHA256: hex.EncodeToString(sum[:])}
	}
	elf := "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x2a\x00\x01\x00\x00\x00" + strings.Repeat("\x00", 200)
	builtin := func(role string) Exec { return Exec{Name: role, Builtin: true} }
	own := func(role string) Exec {
		path := copyPlugin(t, role)
		return Exec{Name: "acme", Path: path, SHA256: sumOf(t, path)}
	}
	printsFirst, exits := own("prints-first"), own("exits")
	for name, c := range map[string]struct {
		exec Exec
		says string
	}{
		"prints first":   {printsFirst, printsFirst.Path + ` printed "hello" on its standard output before its handshake`},
		"exits":          {exits, exits.Path + ` exited with code 3 before its handshake: Error: no licence, said [redacted]`},
		"exits quietly":  {builtin("exits-quietly"), `the built-in plugin "exits-quietly" exited with code 0 before its handshake`},
		"exits, an heir": {builtin("orphan-early"), `the built-in plugin "orphan-early" exited with code 4 before its handshake: gone early`},
		"closes stdout":  {builtin("closes"), `the built-in plugin "closes" closed its standard output before its handshake`},
		"not executable": {file("plain", "text", 0o640), filepath.Join(dir, "plain") + ` is not executable: its permissions are -rw-r-----`},
		"text":           {file("text", "just text\nmore", 0o755), filepath.Join(dir, "text") + ` is no program for ` + runtime.GOOS + "/" + runtime.GOARCH + `: it begins with "just text"`},
		"another cpu":    {file("elf", elf, 0o755), `is no program for`},
		"script":         {file("script", "#!/bin/sh\necho hi\n", 0o755), filepath.Join(dir, "script") + ` is a script: declare it with command, args and files instead of path`},
		"missing":        {Exec{Name: "x", Path: filepath.Join(dir, "none"), SHA256: "00"}, filepath.Join(dir, "none") + ` does not exist`},
		"a folder":       {Exec{Name: "x", Path: dir, SHA256: "00"}, dir + ` is no regular file`},
		"netrpc":         {builtin("netrpc"), `speaks "netrpc"`},
		"newer contract": {builtin("newer"), `the built-in plugin "newer" speaks version 2 of the provider contract, this host version 1`},
		"elsewhere":      {builtin("elsewhere"), `not in the private folder that it was given`},
		"no token":       {builtin("no-token"), `the built-in plugin "no-token" answers without the token`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := testSpec("")
			spec.Exec = c.exec
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			p, err := l.Launch(ctx, spec)
			if p != nil {
				t.Fatal("it runs")
			}
			var f *Failure
			if !errors.As(err, &f) || f.Phase != PhasePlugin || f.Provider != "files" {
				t.Fatalf("%v", err)
			}
			text := err.Error()
			if !strings.HasPrefix(text, `provider "Files" (providers.hcl:12): plugin: `) || !strings.Contains(text, c.says) {
				t.Errorf("it says %s", text)
			}
			if strings.Contains(text, "nrecognized remote plugin") || strings.Contains(text, "\n") {
				t.Errorf("it says %s", text)
			}
			if d := time.Since(began); d > 4*time.Second { // the case allows two, tests twice
				t.Errorf("it took %v", d)
			}
			killHeir()
		})
	}
}

func sumOf(t *testing.T, path string) string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func TestLongFirstLineIsCut(t *testing.T) {
	_, err := newLauncher(t).Launch(t.Context(), testSpec("prints-long"))
	if err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "before its handshake") {
		t.Errorf("%.300v", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	l := newLauncher(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := l.Launch(ctx, testSpec("sleeps")); err == nil || !strings.Contains(err.Error(), "was not ready in time: it stood before its handshake") {
		t.Errorf("deadline: %v", err)
	}
	if _, err := l.Launch(ctx, testSpec("good")); err == nil || !strings.Contains(err.Error(), "no time was left") {
		t.Errorf("no time: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := l.Launch(ctx, testSpec("sleeps")); err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("cancelled: %v", err)
	}
}

func TestChecksumDecides(t *testing.T) {
	l := newLauncher(t)
	path := copyPlugin(t, "good")
	good := sumOf(t, path)
	spec := testSpec("")
	start := func(sum string) (*Process, error) {
		spec.Exec = Exec{Name: "acme", Path: path, SHA256: sum}
		return l.Launch(t.Context(), spec)
	}
	for range 2 {
		p, err := start(strings.ToUpper(good))
		if err != nil {
			t.Fatal(err)
		}
		p.Stop(t.Context(), 0)
	}
	if _, err := start(""); err == nil || !strings.Contains(err.Error(), "no declared sha256; it is "+good) {
		t.Errorf("no checksum: %v", err)
	}
	// Tampered with between two starts.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("\x00"); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	// What was sealed is what runs, whatever has become of the file.
	p, err := start(good)
	if err != nil {
		t.Fatalf("tampered after it was sealed: %v", err)
	}
	p.Stop(t.Context(), 0)
	// A host that has not sealed it yet starts nothing, and names both.
	l = newLauncher(t)
	_, err = start(good)
	if err == nil || !strings.Contains(err.Error(), good) || !strings.Contains(err.Error(), sumOf(t, path)) {
		t.Errorf("tampered: %v", err)
	}
	if l.count["files"] != 0 {
		t.Errorf("%d starts of what was tampered with", l.count["files"])
	}
}

func TestEnvironment(t *testing.T) {
	l := newLauncher(t)
	l.Env = append(l.Env, "HTTP_PROXY=A", "LANG=xx", "DATABASE_URL=secret")
	p := launch(t, l, "env")
	_, err := p.Remote().Start(t.Context(), provider.StartRequest{MaxMessage: 1})
	if err == nil {
		t.Fatal("no environment")
	}
	env := map[string]string{}
	for _, kv := range strings.Split(err.Error(), "\n") {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	if env["LANG"] != "xx" || env["PATH"] == "" || env[provider.MarkEnv] != p.Mark() {
		t.Errorf("environment %v", env)
	}
	for name := range env {
		base := len(provider.BaseEnv([]string{name + "=x"})) == 1
		if !base && name != provider.MarkEnv && name != provider.CookieKey && !strings.HasPrefix(name, "PLUGIN_") {
			t.Errorf("%s crossed", name)
		}
	}
}

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

// What the containment looks for is what plugins are told to hand on.
func TestTheMarkHasOneName(t *testing.T) {
	if containment.MarkEnv != provider.MarkEnv {
		t.Errorf("the containment knows processes by %s, and plugins hand on %s", containment.MarkEnv, provider.MarkEnv)
	}
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

func TestMTLS(t *testing.T) {
	l := newLauncher(t)
	spec := testSpec("good")
	spec.Exec.MTLS = true
	p, err := l.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	startServer(t, p)
	p.Stop(t.Context(), time.Second)
}

func TestDescribeAndValidate(t *testing.T) {
	l := newLauncher(t)
	spec := testSpec("good")
	first, err := l.Describe(t.Context(), spec)
	if err != nil || first.Name != "good" {
		t.Fatalf("%v, %v", first, err)
	}
	spec.Provider = "another"
	if again, err := l.Describe(t.Context(), spec); err != nil || again.Version != first.Version {
		t.Errorf("asked again: %v, %v", again, err)
	}
	spec.Config.JSON = []byte(`{"k":"v"}`)
	ds, err := l.Validate(t.Context(), spec)
	if err != nil || len(ds) != 1 || ds[0].Summary != "bad [redacted]" || ds[0].Detail != `{"k":"v"}` {
		t.Errorf("%v, %v", ds, err)
	}
	if _, err := l.Validate(t.Context(), testSpec("refuses")); err == nil ||
		err.Error() != `provider "Files" (providers.hcl:12): config: refused: [redacted]` {
		t.Errorf("%v", err)
	}
	if _, err := l.Describe(t.Context(), testSpec("exits")); err == nil || !strings.Contains(err.Error(), "exited with code 3") {
		t.Errorf("%v", err)
	}
}

func BenchmarkStart(b *testing.B) {
	l := newLauncher(b)
	for b.Loop() {
		p, err := l.Launch(b.Context(), testSpec("good"))
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		p.Stop(b.Context(), 0)
		b.StartTimer()
	}
}
