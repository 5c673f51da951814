package fakeserver

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

// exit {code, after, after_ms, stderr, kill}: ends the process before it answers, or
// after it has if after; with a text on stderr; by SIGKILL if kill.
func (c *call) exit() {
	a := struct {
		Code    int    `json:"code"`
		After   bool   `json:"after"`
		AfterMS int    `json:"after_ms"`
		Stderr  string `json:"stderr"`
		Kill    bool   `json:"kill"`
	}{Code: 1}
	c.arg(&a)
	if a.After {
		c.text("goodbye")
	}
	time.Sleep(time.Duration(a.AfterMS) * time.Millisecond)
	if a.Stderr != "" {
		_, _ = os.Stderr.WriteString(a.Stderr + "\n")
	}
	if a.Kill {
		die()
	}
	os.Exit(a.Code)
}

// closeStdout closes the process's stdout without an answer, and stays.
func (c *call) closeStdout() {
	if stdio.out != nil {
		stdio.out.mu.Lock()
		_ = stdio.out.out.Close()
		stdio.out.mu.Unlock()
	}
}

// closeStdin answers, then closes the process's stdin and stays.
func (c *call) closeStdin() {
	if stdio.in == nil {
		c.fail(-32603, "not over stdio", "")
		return
	}
	stdio.stopped.Store(true)
	_ = stdio.in.Close()
	c.text("closed")
}

// stopReading answers, and lets stdin run full from then on.
func (c *call) stopReading() {
	stdio.stopped.Store(true)
	c.text("deaf")
}

// spawn {kind, pipes}: starts a child process; see --child.
func (c *call) spawn() {
	a := struct {
		Kind  string `json:"kind"`
		Pipes bool   `json:"pipes"`
	}{Kind: "child"}
	c.arg(&a)
	o := c.srv.opt
	o.childPipes = o.childPipes || a.Pipes
	if err := spawnChild(o, a.Kind); err != nil {
		c.fail(-32603, err.Error(), "")
		return
	}
	c.text("spawned")
}

// run {argv, env, bare}: runs a program to its end and answers with what it printed,
// on both streams; its environment is the server's, unless bare, and env.
func (c *call) run() {
	var a struct {
		Argv []string `json:"argv"`
		Env  []string `json:"env"`
		Bare bool     `json:"bare"`
	}
	c.arg(&a)
	if len(a.Argv) == 0 {
		c.fail(-32602, "nothing to run", "")
		return
	}
	cmd := exec.CommandContext(c.ctx, a.Argv[0], a.Argv[1:]...)
	cmd.Env = a.Env
	if !a.Bare {
		cmd.Env = append(os.Environ(), a.Env...)
	} else if cmd.Env == nil {
		cmd.Env = []string{}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		out = fmt.Appendf(out, "%v\n", err)
	}
	c.text(string(out))
}
