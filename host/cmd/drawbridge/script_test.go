package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
	"github.com/drawbridge-mcp/drawbridge/shared/sdk"
)

// acmeFile is the name of a third-party plugin's file, under which this binary is it.
const acmeFile = "drawbridge-provider-acme"

var update = flag.Bool("update", false, "write what commands print into the scripts that compare it")

// TestMain makes this binary the commands of the scripts. `drawbridge` starts its
// guards and its built-in plugins by running itself, which is this binary too.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"drawbridge": main,
		"fakeserver": func() { os.Exit(fakeserver.Main(os.Args[1:])) },
		acmeFile:     func() { sdk.Serve(acme{}) },
	})
}

// TestScript runs the scripts of testdata/script, each in a folder of its own.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "acme": declareAcme, "checksum": declareChecksum, "absent": absent, "json": checkJSON, "record": recordCalls,
			"speak": speak, "serving": serving,
		},
	})
}

// exits runs a command that has to end with a code: exits CODE COMMAND ARG…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case err == nil && want == 0:
	case !errors.As(err, &exit):
		ts.Fatalf("it ended with %v, want code %d", err, want)
	case exit.ExitCode() != want:
		ts.Fatalf("it ended with code %d, want %d", exit.ExitCode(), want)
	}
}

// environ is what a command of a script has of its environment.
func environ(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "WORK"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

// speak runs drawbridge as an MCP client does: it writes the lines of a file, each request
// when the one before it is answered, and what it hears to another file, with what the
// command says on stderr: speak FILE OUT ARG…. A host that it starts ends with the script.
func speak(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: speak FILE OUT ARG…")
	}
	cmd := exec.Command("drawbridge", args[2:]...)
	cmd.Dir, cmd.Env = ts.Getenv("WORK"), environ(ts)
	if slices.Contains(args, "--start") {
		ts.Defer(func() { stopHost(cmd.Env, cmd.Dir) })
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	heard := json.NewDecoder(out)
	var said bytes.Buffer
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		_, err := io.WriteString(in, line)
		ts.Check(err)
		for answered := !strings.Contains(line, `"id":`); !answered; {
			var m map[string]json.RawMessage
			ts.Check(heard.Decode(&m))
			text, err := json.Marshal(m)
			ts.Check(err)
			said.Write(append(text, '\n'))
			answered = m["id"] != nil
		}
	}
	ts.Check(in.Close())
	ts.Check(cmd.Wait())
	said.Write(errs.Bytes())
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), said.Bytes(), 0o600))
}

// serving starts `drawbridge serve` and waits until it is ready; it ends with the script:
// serving ARG…
func serving(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: serving ARG…")
	}
	cmd := exec.Command("drawbridge", append([]string{"serve"}, args...)...)
	cmd.Dir, cmd.Env = ts.Getenv("WORK"), environ(ts)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "ready at") {
		_ = cmd.Wait()
		ts.Fatalf("serve: %q, %v\n%s", line, err, errs.Bytes())
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // at once: stopHost waits until its number is free
	ts.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
	})
}

// stopHost ends the host of a script's configuration, if one runs, and waits for its end.
func stopHost(env []string, dir string) {
	cmd := exec.Command("drawbridge", "status", "--json")
	cmd.Dir, cmd.Env = dir, env
	var status struct {
		Host struct{ PID int }
	}
	if text, err := cmd.Output(); err != nil || json.Unmarshal(text, &status) != nil {
		return
	}
	host, err := os.FindProcess(status.Host.PID)
	for err == nil && host.Signal(os.Interrupt) == nil {
		for host.Signal(syscall.Signal(0)) == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// declareAcme puts the plugin into the script's folder, and its checksum into a file
// in place of the word SHA256: acme FILE
func declareAcme(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: acme FILE")
	}
	self, err := os.Executable()
	ts.Check(err)
	program, err := os.ReadFile(self)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(acmeFile), program, 0o700))
	text := bytes.ReplaceAll([]byte(ts.ReadFile(args[0])), []byte("SHA256"), fmt.Appendf(nil, "%x", sha256.Sum256(program)))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
}

// declareChecksum puts the checksum of a script into a file in place of the word
// SUM: checksum FILE NAME…
func declareChecksum(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: checksum FILE NAME…")
	}
	var files []checksum.Named
	for _, name := range args[1:] {
		files = append(files, checksum.Named{Name: name, Path: ts.MkAbs(name)})
	}
	sum, err := checksum.Files(files)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.ReplaceAll([]byte(ts.ReadFile(args[0])), []byte("SUM"), []byte(sum)), 0o600))
}

// absent looks for a text where it must not be: absent TEXT PATH…, where a path is a
// file, a folder, or stdout or stderr of the last command.
func absent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: absent TEXT PATH…")
	}
	look := func(name, text string) {
		if bytes.Contains([]byte(text), []byte(args[0])) {
			ts.Fatalf("%s holds %q:\n%s", name, args[0], text)
		}
	}
	for _, path := range args[1:] {
		if path == "stdout" || path == "stderr" {
			look(path, ts.ReadFile(path))
			continue
		}
		files := 0
		ts.Check(filepath.WalkDir(ts.MkAbs(path), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			files++
			text, err := os.ReadFile(file)
			look(file, string(text))
			return err
		}))
		if files == 0 {
			ts.Fatalf("%s holds no file", path)
		}
	}
}

// checkJSON compares a value of stdout's JSON: json PATH WANT, where a path is keys
// and indexes with dots between them, and WANT is JSON.
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: json PATH WANT")
	}
	var value any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &value))
	for key := range bytes.SplitSeq([]byte(args[0]), []byte(".")) {
		switch at := value.(type) {
		case map[string]any:
			value = at[string(key)]
		case []any:
			i, err := strconv.Atoi(string(key))
			if err != nil || i >= len(at) {
				ts.Fatalf("%s: no element %s of %d", args[0], key, len(at))
			}
			value = at[i]
		default:
			ts.Fatalf("%s: no %s in %v", args[0], key, value)
		}
	}
	got, err := json.Marshal(value)
	ts.Check(err)
	if string(got) != args[1] {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}

// acme is a plugin of somebody else's, with a schema of its own and an opinion on
// what it is given. It starts nothing.
type acme struct{ provider.Provider }

func (acme) Describe(context.Context) (provider.Description, error) {
	text := json.RawMessage(`"string"`)
	return provider.Description{Name: "acme", Version: "1.0.0", Config: provider.Schema{
		Attributes: []provider.Attribute{
			{Name: "endpoint", Type: text, Required: true},
			{Name: "retries", Type: json.RawMessage(`"number"`)},
			{Name: "key", Type: text, Sensitive: true},
			{Name: "regions", Type: json.RawMessage(`["list","string"]`)},
		},
		Blocks: []provider.Block{{Name: "proxy", MaxItems: 1, Schema: provider.Schema{
			Attributes: []provider.Attribute{{Name: "port", Type: json.RawMessage(`"number"`), Required: true}},
		}}},
	}}, nil
}

// Validate refuses the region "mars" and ports below 1024, each at its place. Of a
// key it makes no secret.
func (acme) Validate(_ context.Context, c provider.Config) (provider.Diagnostics, error) {
	var config struct {
		Key     string
		Regions []string
		Proxy   *struct{ Port int }
	}
	if err := json.Unmarshal(c.JSON, &config); err != nil {
		return nil, err
	}
	var found provider.Diagnostics
	if config.Key != "" {
		fmt.Fprintf(os.Stderr, "acme was given %s and %s\n", c.JSON, base64.StdEncoding.EncodeToString([]byte(config.Key)))
		found = append(found, provider.Diagnostic{Severity: provider.Warning, Summary: "Key " + config.Key, Detail: "It is " + config.Key + ".",
			Path: provider.Path{provider.AttributeStep("key")}})
	}
	for i, region := range config.Regions {
		if region == "mars" {
			found = append(found, provider.Diagnostic{Severity: provider.Error, Summary: "No such region", Detail: "Acme has none there.",
				Path: provider.Path{provider.AttributeStep("regions"), provider.IndexStep(i)}})
		}
	}
	if config.Proxy != nil && config.Proxy.Port < 1024 {
		found = append(found, provider.Diagnostic{Severity: provider.Warning, Summary: "Odd port", Detail: "Ports below 1024 need a privilege.",
			Path: provider.Path{provider.AttributeStep("proxy"), provider.AttributeStep("port")}})
	}
	return found, nil
}
