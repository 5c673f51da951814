package containment

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// Direct starts plugins as children of the host, each in a process group of its
// own, which is killed when the plugin ends, however it ends.
//
// When the host dies, the plugin's lifeline ends (and on Linux it gets a
// SIGTERM): a plugin made with the sdk then stops its server, kills its group
// and ends. What ignores both lives on.
type Direct struct{}

var _ Containment = Direct{}

// Tier is "direct".
func (Direct) Tier() string { return "direct" }

// Spawn starts the plugin.
func (Direct) Spawn(c Command) (Tree, error) {
	stdin, life, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("lifeline: %w", err)
	}
	defer func() { _ = stdin.Close() }()
	// The line fits into the pipe's buffer, so this does not block.
	if _, err := life.WriteString(c.Token + "\n"); err != nil {
		_ = life.Close()
		return nil, fmt.Errorf("token: %w", err)
	}
	cmd := &exec.Cmd{
		Path: c.Path, Args: c.Args, Env: c.Env,
		Stdin: stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		SysProcAttr: processAttributes(),
	}
	if c.Image != nil {
		cmd.Path = imagePath(c.Image, c.Path)
	}
	release, err := startOnHeldThread(cmd)
	if err != nil {
		_ = life.Close()
		return nil, err
	}
	t := &tree{cmd: cmd, pid: cmd.Process.Pid, life: life, done: make(chan struct{})}
	go t.wait(release)
	return t, nil
}

// tree is a plugin of Direct. Its one goroutine is in wait and ends with Done.
type tree struct {
	cmd  *exec.Cmd
	pid  int
	life *os.File
	done chan struct{}
	exit Exit // written before done is closed

	mu sync.Mutex
	// reaped is set before the plugin's pid may belong to another process.
	reaped bool
}

func (t *tree) PID() int              { return t.pid }
func (t *tree) Release()              { _ = t.life.Close() }
func (t *tree) Done() <-chan struct{} { return t.done }

func (t *tree) Kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reaped {
		killGroup(t.cmd.Process)
	}
	t.Release()
}

func (t *tree) Exit() Exit {
	select {
	case <-t.done:
		return t.exit
	default:
		return Exit{}
	}
}

// wait ends the group as soon as the plugin has ended, and tells when it is empty.
func (t *tree) wait(release func()) {
	// The error of Wait says no more than the state does.
	held := awaitExit(t.pid)
	if !held {
		_ = t.cmd.Wait()
	}
	t.mu.Lock()
	killGroup(t.cmd.Process)
	t.reaped = true
	t.mu.Unlock()
	if held {
		_ = t.cmd.Wait()
	}
	release()
	awaitEmptyGroup(t.pid)
	t.Release()
	t.exit = exitStatus(t.cmd.ProcessState)
	close(t.done)
}
