//go:build unix

package sdk

import (
	"bufio"
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

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// limit bounds every wait of a test; nothing waits for it that goes well.
const limit = 20 * time.Second

func TestMain(m *testing.M) {
	if role := os.Getenv("SDK_TEST_ROLE"); role != "" {
		Serve(&sleeper{role: role})
		_, _ = fmt.Fprintln(Stderr(), "main returned")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// sleeper is a provider whose server is sleep, in the plugin's process group. As
// "stubborn" its Stop does nothing.
type sleeper struct {
	role string
	cmd  *exec.Cmd
}

func (s *sleeper) Describe(context.Context) (provider.Description, error) {
	fmt.Println("printed on standard output")
	return provider.Description{Name: "sleeper"}, nil
}

func (s *sleeper) Validate(context.Context, provider.Config) (provider.Diagnostics, error) {
	return nil, nil
}

func (s *sleeper) Start(context.Context, provider.StartRequest) (provider.Diagnostics, error) {
	s.cmd = exec.Command("sleep", "1000")
	return nil, s.cmd.Start()
}

func (s *sleeper) Exchange(ctx context.Context, c provider.Conn) error {
	if err := c.Send(provider.Noise{Line: []byte(strconv.Itoa(s.cmd.Process.Pid))}); err != nil {
		return err
	}
	_ = s.cmd.Wait()
	return c.Send(provider.Exited{Status: provider.ExitStatus{Signal: 9}})
}

func (s *sleeper) Stop(context.Context, provider.StopRequest) (provider.ExitStatus, error) {
	if s.role == "stubborn" {
		return provider.ExitStatus{}, errors.New("no")
	}
	_, _ = fmt.Fprintln(Stderr(), "stop was called")
	return provider.ExitStatus{Signal: 9}, s.cmd.Process.Kill()
}

// process is a plugin run by hand, the way a host does it.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *bufio.Reader
	pipe   *os.File // under stderr
	addr   string
	token  string
	exited chan error
}

func command(t *testing.T, role string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(provider.BaseEnv(os.Environ()), "SDK_TEST_ROLE="+role,
		"PLUGIN_UNIX_SOCKET_DIR="+t.TempDir(), "PLUGIN_PROTOCOL_VERSIONS=1",
		provider.CookieKey+"="+provider.CookieValue)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

func run(t *testing.T, role string) *process {
	t.Helper()
	p := &process{cmd: command(t, role), token: provider.NewToken(), exited: make(chan error, 1)}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin, p.pipe, p.stderr, p.cmd.Stderr = stdin, stderr, bufio.NewReader(stderr), w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
		_ = stderr.Close()
	})
	if _, err := io.WriteString(stdin, p.token+"\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	go func() { p.exited <- p.cmd.Wait(); close(p.exited) }()
	if err != nil {
		t.Fatalf("handshake: %v", err)
	}
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 5 || parts[0] != "1" || parts[1] != "1" || parts[2] != "unix" || parts[4] != "grpc" {
		t.Fatalf("handshake %q", line)
	}
	p.addr = parts[3]
	return p
}

func (p *process) dial(t *testing.T, token string) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient("unix:"+p.addr,
		append(provider.DialOptions(token), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// start starts the server and returns its pid.
func (p *process) start(t *testing.T) (provider.HostConn, int) {
	t.Helper()
	r := provider.NewRemote(p.dial(t, p.token))
	if _, err := r.Start(t.Context(), provider.StartRequest{MaxMessage: 1}); err != nil {
		t.Fatal(err)
	}
	c, err := r.Exchange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Recv()
	if err != nil {
		t.Fatal(err)
	}
	noise, ok := e.(provider.Noise)
	if !ok {
		t.Fatalf("got %T", e)
	}
	pid, err := strconv.Atoi(string(noise.Line))
	if err != nil {
		t.Fatal(err)
	}
	return c, pid
}

func (p *process) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.exited:
		return err
	case <-time.After(limit):
		t.Fatal("the plugin lives on")
		return nil
	}
}

// alive says whether pid runs; a zombie does not.
func alive(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !errors.Is(err, os.ErrNotExist)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func waitGone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(limit); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}

func TestLifelineEndsServerAndPlugin(t *testing.T) {
	for _, role := range []string{"polite", "stubborn"} {
		t.Run(role, func(t *testing.T) {
			p := run(t, role)
			_, pid := p.start(t)
			if err := p.stdin.Close(); err != nil {
				t.Fatal(err)
			}
			_ = p.wait(t)
			waitGone(t, pid)
		})
	}
}

func TestTerminateStopsTheServer(t *testing.T) {
	p := run(t, "polite")
	c, pid := p.start(t)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if e, err := c.Recv(); err != nil {
		t.Errorf("the last event: %v, %v", e, err)
	} else if _, ok := e.(provider.Exited); !ok {
		t.Errorf("the last event: %T", e)
	}
	if err := p.wait(t); err != nil {
		t.Errorf("the plugin ended with %v", err)
	}
	waitGone(t, pid)
	if text, _ := io.ReadAll(p.stderr); !strings.Contains(string(text), "stop was called\nmain returned") {
		t.Errorf("stderr: %q", text)
	}
}

func TestInterruptIsTheHostsAffair(t *testing.T) {
	p := run(t, "polite")
	r := provider.NewRemote(p.dial(t, p.token))
	for range 3 {
		if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Describe(t.Context()); err != nil {
			t.Fatalf("after SIGINT: %v", err)
		}
	}
}

// A host that dies takes the readers of stdout and stderr with it. Writing there
// must not kill the plugin before it has stopped its server.
func TestBrokenPipesDoNotKill(t *testing.T) {
	p := run(t, "polite")
	_, pid := p.start(t)
	// sleeper's Stop writes to standard error before it ends the server.
	if err := p.pipe.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = p.wait(t)
	waitGone(t, pid)
}

// A process of the same user that finds the socket gets one answer from every
// method of every service.
func TestStrangerIsRefusedEverywhere(t *testing.T) {
	p := run(t, "polite")
	methods := allMethods(t, p.dial(t, p.token))
	services := map[string]bool{}
	for _, m := range methods {
		services[strings.Split(m, "/")[1]] = true
	}
	for _, s := range []string{
		"drawbridge.provider.v1.Provider", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
		"plugin.GRPCBroker", "plugin.GRPCController", "plugin.GRPCStdio",
	} {
		if !services[s] {
			t.Errorf("service %s is not among %v", s, services)
		}
	}
	for _, token := range []string{"", provider.NewToken()} {
		cc := p.dial(t, token)
		for _, m := range append(methods, "/no.such.Service/Method") {
			s, err := cc.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, m)
			if err != nil {
				t.Fatal(err)
			}
			_ = s.SendMsg(&descriptorpb.FileDescriptorSet{})
			_ = s.CloseSend()
			if err := s.RecvMsg(&descriptorpb.FileDescriptorSet{}); status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: %v", m, err)
			}
		}
	}
	// Shutdown was among them: the plugin is still there.
	if _, err := provider.NewRemote(p.dial(t, p.token)).Describe(t.Context()); err != nil {
		t.Errorf("after the stranger: %v", err)
	}
}

// allMethods asks reflection for /service/method of everything that is served.
func allMethods(t *testing.T, cc *grpc.ClientConn) []string {
	t.Helper()
	s, err := grpc_reflection_v1.NewServerReflectionClient(cc).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *grpc_reflection_v1.ServerReflectionRequest) *grpc_reflection_v1.ServerReflectionResponse {
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
		in, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	list := ask(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	})
	var out []string
	for _, svc := range list.GetListServicesResponse().GetService() {
		files := ask(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: svc.GetName()},
		}).GetFileDescriptorResponse().GetFileDescriptorProto()
		for _, raw := range files {
			var fd descriptorpb.FileDescriptorProto
			if err := proto.Unmarshal(raw, &fd); err != nil {
				t.Fatal(err)
			}
			file, err := protodesc.FileOptions{AllowUnresolvable: true}.New(&fd, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range file.Services().Len() {
				sd := file.Services().Get(i)
				if sd.FullName() != protoreflect.FullName(svc.GetName()) {
					continue
				}
				for j := range sd.Methods().Len() {
					out = append(out, fmt.Sprintf("/%s/%s", sd.FullName(), sd.Methods().Get(j).Name()))
				}
			}
		}
	}
	_ = s.CloseSend()
	return out
}

func TestNotStartedByAHost(t *testing.T) {
	for name, c := range map[string]struct {
		stdin io.Reader
		env   string
		says  string
	}{
		"by hand":       {strings.NewReader(""), provider.CookieKey + "=", "the host runs it"},
		"no token":      {strings.NewReader(""), "", "no token"},
		"empty token":   {strings.NewReader("\n"), "", "no token"},
		"half a line":   {strings.NewReader("abc"), "", "no token"},
		"endless token": {strings.NewReader(strings.Repeat("x", 1<<16)), "", "no token"},
	} {
		cmd := command(t, "polite", c.env)
		cmd.Stdin = c.stdin
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(stderr.String(), c.says) || stdout.Len() > 0 {
			t.Errorf("%s: %v, stdout %q, stderr %q", name, err, &stdout, &stderr)
		}
	}
}
