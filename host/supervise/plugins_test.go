//go:build unix

package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
	"github.com/drawbridge-mcp/drawbridge/shared/sdk"
)

// limit bounds every wait of a test; nothing waits for it that goes well.
const limit = 30 * time.Second

// thirdParty is the beginning of the name of a plugin that is a file of its own.
const thirdParty = "drawbridge-provider-"

// TestMain runs a plugin when the binary was started as one: as
// `drawbridge plugin ROLE`, or under a third-party plugin's name.
func TestMain(m *testing.M) {
	role := ""
	if len(os.Args) > 2 && os.Args[1] == "plugin" {
		role = os.Args[2]
	} else if base := filepath.Base(os.Args[0]); strings.HasPrefix(base, thirdParty) {
		role = strings.TrimPrefix(base, thirdParty)
	}
	if role != "" {
		runPlugin(role)
		os.Exit(0)
	}
	if containment.IsGuard(os.Args) {
		os.Exit(containment.Guard(os.Args[2:]))
	}
	if len(os.Args) > 4 && os.Args[1] == "host" {
		runHost(os.Args[2], os.Args[3], os.Args[4])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// runPlugin is the plugin side of every test here.
func runPlugin(role string) {
	switch role {
	case "prints-first":
		fmt.Println("hello")
	case "prints-long":
		fmt.Println(strings.Repeat("x", 1<<20))
	case "exits":
		_, _ = fmt.Fprintln(os.Stderr, "reading licence\nError: no licence, said s3cret-value")
		os.Exit(3)
	case "exits-quietly":
		os.Exit(0)
	case "closes":
		_ = os.Stdout.Close()
		forever()
	case "sleeps":
		forever()
	case "elsewhere":
		fmt.Printf("1|1|unix|%s|grpc\n", filepath.Join(os.TempDir(), "other.sock"))
		forever()
	case "netrpc":
		fmt.Println("1|1|unix|/x|netrpc")
		forever()
	case "newer":
		serveBare(map[int]plugin.PluginSet{2: {provider.PluginName: &provider.GRPCPlugin{Impl: &testProvider{}}}}, nil)
		return
	case "no-token":
		serveBare(provider.VersionedPlugins(&testProvider{}), nil)
		return
	case "heir":
		startHeir(os.Stdout, os.Stderr)
	case "orphan-early":
		// Leaves somebody with its standard output and goes, without a handshake.
		startHeir(os.Stdout, os.Stderr)
		_, _ = fmt.Fprintln(os.Stderr, "gone early")
		os.Exit(4)
	case "talks":
		_, _ = fmt.Fprintf(os.Stderr, "%s\n%s\n[ERROR] plain\npanic: not really\n",
			`{"@message": 1}`, `{"@level": [], "@timestamp": {}, "@message": "x"}`)
		_, _ = fmt.Fprintf(os.Stderr, "token s3cret-value here\n%s\n", strings.Repeat("y", 3*maxLine))
	}
	sdk.Serve(&testProvider{role: role})
}

// forever waits without being a deadlock to the runtime.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// serveBare serves without the sdk, and so without its token.
func serveBare(set map[int]plugin.PluginSet, opts []grpc.ServerOption) {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: provider.Handshake(), VersionedPlugins: set,
		GRPCServer: func(more []grpc.ServerOption) *grpc.Server { return grpc.NewServer(append(opts, more...)...) },
	})
}

// runHost is a host with one plugin and its server. It prints its id once both run,
// or "refused" where the tier does not work here.
func runHost(runDir, stateDir, tier string) {
	run, err := containment.NewRun(context.Background(), stateDir)
	if err != nil {
		panic(err)
	}
	l := &Launcher{HostID: run.ID(), RunDir: runDir, Env: os.Environ()}
	if tier != (containment.Direct{}).Tier() {
		held, err := containment.Open(containment.Options{Use: containment.Tier(tier), Run: run})
		if errors.Is(err, containment.ErrUnsupported) {
			fmt.Println("refused")
			return
		}
		if err != nil {
			panic(err)
		}
		l.Containment = held
	}
	p, err := l.Launch(context.Background(), testSpec("good"))
	if err != nil {
		panic(err)
	}
	if _, err := p.Remote().Start(context.Background(), provider.StartRequest{Mark: p.Mark(), MaxMessage: 1}); err != nil {
		panic(err)
	}
	fmt.Println(run.ID())
	forever()
}

// heirFile tells the pid of the process that outlives its plugin.
func heirFile() string { return filepath.Join(os.Getenv("HOME"), "heir") }

// startHeir starts a process in a session of its own, which the end of the
// plugin's group does not reach, with the plugin's own descriptors 1 and 2.
func startHeir(stdout, stderr *os.File) {
	cmd := exec.Command("sleep", "1000")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if err := os.WriteFile(heirFile(), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
		panic(err)
	}
}

// testProvider's server is `sleep`, and its exchange echoes. Its role is its config.
type testProvider struct {
	role string
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *testProvider) Describe(context.Context) (provider.Description, error) {
	if p.role == "prints" {
		fmt.Println("printed on standard output")
		_, _ = fmt.Fprintln(os.Stderr, "printed on standard error")
	}
	return provider.Description{Name: p.role, Version: strconv.Itoa(os.Getpid())}, nil
}

func (p *testProvider) Validate(_ context.Context, c provider.Config) (provider.Diagnostics, error) {
	if p.role == "refuses" {
		return nil, errors.New("refused: s3cret-value")
	}
	return provider.Diagnostics{{
		Severity: provider.Error, Summary: "bad s3cret-value", Detail: string(c.JSON), Path: provider.Path{provider.AttributeStep("a")},
	}}, nil
}

func (p *testProvider) Start(context.Context, provider.StartRequest) (provider.Diagnostics, error) {
	if p.role == "env" {
		return nil, errors.New(strings.Join(os.Environ(), "\n"))
	}
	p.cmd, p.done = exec.Command("sleep", "1000"), make(chan struct{})
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return provider.Diagnostics{{Severity: provider.Warning, Summary: strconv.Itoa(p.cmd.Process.Pid)}}, nil
}

func (p *testProvider) Exchange(ctx context.Context, c provider.Conn) error {
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	switch p.role {
	case "bad-frames":
		_ = c.Send(provider.Chunk{Data: []byte("{}\n{}"), Last: true})
	case "server-dies":
		_ = p.cmd.Process.Kill()
		<-p.done
		return c.Send(provider.Exited{Status: provider.ExitStatus{Signal: 9, StderrTail: "loading\nkey s3cret-value\n"}})
	}
	go func() {
		for {
			f, err := c.Recv()
			if err != nil {
				return
			}
			_ = c.Send(provider.Chunk{Data: f.Data, Last: f.Last})
		}
	}()
	select {
	case <-p.done:
		return c.Send(provider.Exited{Status: provider.ExitStatus{Signal: 15}})
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *testProvider) Stop(ctx context.Context, _ provider.StopRequest) (provider.ExitStatus, error) {
	if p.role == "stubborn" {
		select {}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return provider.ExitStatus{}, err
	}
	return provider.ExitStatus{Signal: 15, StderrTail: "bye s3cret-value"}, nil
}

// newLauncher is one host's; what it leaves is looked for at the end of the test.
func newLauncher(t testing.TB) *Launcher {
	t.Helper()
	run, err := OpenRunDir(provider.NewToken())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	l := &Launcher{
		HostID: "h0", RunDir: run.Path, LogDir: filepath.Join(home, "logs"),
		Env:    append(os.Environ(), "HOME="+home),
		Redact: func(s string) string { return strings.ReplaceAll(s, "s3cret-value", "[redacted]") },
	}
	t.Cleanup(func() {
		if left, err := os.ReadDir(run.Path); err != nil || len(left) > 0 {
			t.Errorf("left in the folder for sockets: %v, %v", left, err)
		}
		if len(l.logs.open) > 0 {
			t.Errorf("%d log files are open", len(l.logs.open))
		}
		if err := run.Close(); err != nil {
			t.Error(err)
		}
		killHeir()
	})
	return l
}

func killHeir() {
	text, err := os.ReadFile(heirFile())
	if err != nil {
		return
	}
	if pid, err := strconv.Atoi(string(text)); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func testSpec(role string) Spec {
	return Spec{
		Provider: "files", Label: "Files", Where: "providers.hcl:12",
		Exec: Exec{Name: role, Builtin: true}, StopGrace: time.Second,
	}
}

// launch starts role and ends it with the test.
func launch(t *testing.T, l *Launcher, role string) *Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	p, err := l.Launch(ctx, testSpec(role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		p.Stop(now, 0)
	})
	return p
}

// startServer starts the server and opens the exchange.
func startServer(t *testing.T, p *Process) provider.HostConn {
	t.Helper()
	if ds, err := p.Remote().Start(t.Context(), provider.StartRequest{Mark: p.Mark(), MaxMessage: 1 << 20}); err != nil || ds.HasErrors() {
		t.Fatalf("start: %v, %v", ds, err)
	}
	conn, err := p.Remote().Exchange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func await(t *testing.T, p *Process, within time.Duration) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(within):
		t.Fatal("the process is not gone")
	}
}

// copyPlugin puts this binary under a third-party plugin's name.
func copyPlugin(t *testing.T, role string) string {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Skipf("needs /proc: %v", err)
	}
	defer func() { _ = self.Close() }()
	path := filepath.Join(t.TempDir(), thirdParty+role)
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, self); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
