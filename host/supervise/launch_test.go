//go:build unix

package supervise

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
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

// What the containment looks for is what plugins are told to hand on.
func TestTheMarkHasOneName(t *testing.T) {
	if containment.MarkEnv != provider.MarkEnv {
		t.Errorf("the containment knows processes by %s, and plugins hand on %s", containment.MarkEnv, provider.MarkEnv)
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
