package containment

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The processes of the tests. A host starts trees by this package; a tree is
//
//	plugin ── server ┬─ child                  in the server's group
//	                 ├─ sidchild               in a session of its own
//	                 ├─ daemon                 twice forked, in a session of its own
//	                 └─ hydra, hydra, hydra …  a new pid and session at every step
//
// Server and all below ignore every signal that can be ignored, and the end of
// their input.

// roleLimit is when a process of the tests ends by itself, so that a test that
// fails leaves nothing for long.
const roleLimit = 2 * time.Minute

// hostConfig is what a host of the tests is told, as JSON in its environment.
type hostConfig struct {
	State, Sockets string
	Tier           Tier
	// Trees is how many to start.
	Trees int
	// Plugin is the role of the trees' plugins, and what stands in their argv[1:].
	Plugin []string
	// Hydra is the script that hydras run, Log where they write; "" for none.
	Hydra, Log string

	mark string // in the host's own environment
}

const hostEnv = "CONTAINMENT_TEST_HOST"

// told is a line that a host of the tests writes.
type told struct {
	Event  string // swept, spawned, done, stat, failed
	ID     string `json:",omitempty"` // the host's
	Report *Report
	Mark   string `json:",omitempty"`
	Guard  int    `json:",omitempty"`
	Plugin int    `json:",omitempty"`
	Exit   Exit   `json:",omitzero"`
	Lost   bool   `json:",omitempty"`
	Error  string `json:",omitempty"`
	// Unsupported goes with an Error that says that the tier does not work here.
	Unsupported bool `json:",omitempty"`

	Files, Goroutines int   `json:",omitempty"`
	Children          []int `json:",omitempty"`
}

func init() { play = playRole }

func playRole(role string) int {
	time.AfterFunc(roleLimit, func() { os.Exit(99) })
	switch role {
	case "host":
		return playHost()
	case "plugin":
		return playPlugin()
	case "server":
		return playServer()
	case "daemonize":
		start("daemon", nil)
		return 0
	case "child", "sidchild", "daemon":
		select {}
	case "opinion":
		return playOpinion()
	case "mount":
		return playMount()
	case "withoutnamespaces":
		return playWithoutNamespaces()
	case "hideproc":
		return playHideProc()
	case "withoutproc":
		return playWithoutProc()
	default:
		return playSmall(role)
	}
}

// start starts another role with this process's environment, and fails loudly.
func start(role string, attr *syscall.SysProcAttr) *exec.Cmd {
	c := &exec.Cmd{Path: "/proc/self/exe", Args: []string{rolePrefix + role}, SysProcAttr: attr, Stderr: os.Stderr}
	if err := c.Start(); err != nil {
		panic(err)
	}
	return c
}

// playPlugin is a plugin that starts a server and ends with it, and that nothing
// else moves.
func playPlugin() int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	server := start("server", nil)
	_ = server.Wait()
	return 3
}

func playServer() int {
	start("child", nil)
	start("sidchild", &syscall.SysProcAttr{Setsid: true})
	_ = start("daemonize", &syscall.SysProcAttr{Setsid: true}).Wait()
	if script := os.Getenv("HYDRA"); script != "" {
		hydra := exec.Command("/bin/sh", script, os.Getenv("HYDRA_LOG"), "20000")
		hydra.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := hydra.Start(); err != nil {
			panic(err)
		}
	}
	select {}
}

// hydraScript starts itself anew in a new session and ends, again and again.
const hydraScript = `echo >> "$1" || exit
[ "$2" -gt 0 ] || exit
setsid /bin/sh "$0" "$1" $(($2 - 1)) &
`

// playHost is a host: it starts its trees, then does what its input says, and ends
// with it.
func playHost() int {
	var config hostConfig
	if err := json.Unmarshal([]byte(os.Getenv(hostEnv)), &config); err != nil {
		panic(err)
	}
	h := &testHost{config: config, out: json.NewEncoder(os.Stdout)}
	if err := h.run(); err != nil {
		h.tell(told{Event: "failed", Error: err.Error(), Unsupported: errors.Is(err, ErrUnsupported)})
		return 1
	}
	return 0
}

type testHost struct {
	config hostConfig
	run_   *Run
	guards *Guarded
	trees  []GuardTree
	wait   sync.WaitGroup

	mu  sync.Mutex
	out *json.Encoder
}

func (h *testHost) tell(t told) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.out.Encode(t)
}

func (h *testHost) run() error {
	ctx := context.Background()
	var err error
	if h.run_, err = NewRun(ctx, h.config.State); err != nil {
		return err
	}
	sockets := filepath.Join(h.config.Sockets, h.run_.ID()[:OwnDigits])
	if err := errors.Join(h.run_.Own(sockets), os.Mkdir(sockets, 0o700)); err != nil {
		return err
	}
	report, err := Sweep(ctx, h.config.State)
	if err != nil {
		return err
	}
	h.tell(told{Event: "swept", ID: h.run_.ID(), Report: &report})
	h.guards, err = Open(Options{Use: h.config.Tier, Run: h.run_, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	for range h.config.Trees {
		if err := h.spawn(); err != nil {
			return err
		}
	}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		switch commands.Text() {
		case "spawn":
			err = h.spawn()
		case "kill":
			for _, t := range h.trees {
				t.Kill()
			}
		case "terminate":
			for _, t := range h.trees {
				err = t.Terminate()
			}
		case "stat":
			h.tell(h.stat())
		}
		if err != nil {
			return err
		}
	}
	for _, t := range h.trees {
		t.Kill()
	}
	h.wait.Wait()
	return h.run_.Close()
}

func (h *testHost) spawn() error {
	mark := fmt.Sprintf("%s/test/%d", h.run_.ID(), len(h.trees)+1)
	plugin := h.config.Plugin
	if plugin == nil {
		plugin = []string{"plugin"}
	}
	tree, err := h.guards.Spawn(Command{
		Path: "/proc/self/exe", Args: append([]string{rolePrefix + plugin[0]}, plugin[1:]...), Token: "secret",
		Env: []string{
			MarkEnv + "=" + mark, "PATH=" + os.Getenv("PATH"),
			"HYDRA=" + h.config.Hydra, "HYDRA_LOG=" + h.config.Log,
		},
		Stderr: os.Stderr,
	})
	if err != nil {
		return err
	}
	t := tree.(GuardTree)
	h.trees = append(h.trees, t)
	h.tell(told{Event: "spawned", Mark: mark, Guard: t.GuardPID(), Plugin: t.PID()})
	h.wait.Go(func() {
		<-t.Done()
		h.tell(told{Event: "done", Mark: mark, Exit: t.Exit(), Lost: t.Lost()})
	})
	return nil
}

func (h *testHost) stat() told {
	files, _ := readNames("/proc/self/fd")
	return told{
		Event: "stat", Files: len(files), Goroutines: runtime.NumGoroutine(), Children: childrenOf(os.Getpid()),
	}
}

// playSmall are the plugins of single tests: they tell something on their standard
// output.
func playSmall(role string) int {
	in := bufio.NewReader(os.Stdin)
	token, _ := in.ReadString('\n')
	switch role {
	case "token":
		fmt.Printf("%q\n", token)
		rest, err := io.ReadAll(in)
		fmt.Printf("%q %v\n", rest, err)
	case "exit7":
		return 7
	case "abort":
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		select {}
	case "show": // what a plugin is born with
		fmt.Println(shown())
	case "polite": // ends when it is told to, with a word
		told := make(chan os.Signal, 1)
		signal.Notify(told, syscall.SIGTERM)
		c := exec.Command("/proc/self/exe")
		c.Args, c.SysProcAttr = []string{rolePrefix + "politechild"}, &syscall.SysProcAttr{Setsid: true}
		c.Stdout = os.Stdout // where it says "ready"
		if err := c.Start(); err != nil {
			panic(err)
		}
		<-told
		_ = c.Wait()
		fmt.Println("told", c.ProcessState.ExitCode())
		return 5
	case "politechild":
		told := make(chan os.Signal, 1)
		signal.Notify(told, syscall.SIGTERM)
		fmt.Println("ready")
		<-told
		return 6
	case "family": // has one that stays
		start("child", &syscall.SysProcAttr{Setsid: true})
		select {}
	case "heir": // leaves one that holds its output
		start("child", &syscall.SysProcAttr{Setsid: true})
		return 0
	case "wait":
		fmt.Println("ready")
		_, _ = io.ReadAll(in)
	}
	return 0
}

// shown is what this process finds of itself, as JSON.
func shown() string {
	status, _ := os.ReadFile("/proc/self/status")
	lines := map[string]string{}
	for line := range strings.Lines(string(status)) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			lines[name] = strings.TrimSpace(value)
		}
	}
	self, _ := os.Readlink("/proc/self")
	files := map[string]string{}
	names, _ := readNames("/proc/self/fd")
	for _, name := range names {
		files[name], _ = os.Readlink("/proc/self/fd/" + name)
	}
	visible, _ := processes()
	executable, _ := os.Readlink("/proc/self/exe")
	text, err := json.Marshal(map[string]any{
		"status": lines, "pid": os.Getpid(), "self": self, "files": files, "visible": len(visible),
		"uid": os.Getuid(), "env": os.Environ(), "args": os.Args, "executable": executable,
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}
