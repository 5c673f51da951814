//go:build unix

package containment

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keeper is how a guard of one tier holds its tree.
type keeper interface {
	// prepare makes this process the one that holds the tree. What it could not do
	// but can live without, it says.
	prepare() (noProc error, err error)
	// unprivileged gives up, on the thread that will start the plugin, what the
	// plugin must not have.
	unprivileged() error
	// attributes are the plugin's.
	attributes() *syscall.SysProcAttr
	// signal sends sig to every process of the tree of this plugin, in one pass.
	signal(plugin int, sig syscall.Signal)
	// empty is asked when this process has no child left, and says whether the tree
	// is empty.
	empty(plugin int) bool
}

// guard is the process that holds a tree. Everything it does happens on one
// goroutine, so that no child is reaped between the moment it was listed and the
// moment it is signalled: until it is reaped, its pid is nobody else's.
type guard struct {
	guardOptions
	keep   keeper
	status *os.File

	plugin int // its pid
	ended  bool
	exit   Exit
	// tokenPipe is the writing end of the plugin's standard input. It is held and
	// never used again: a second lifeline, for a plugin that is left alone with a
	// guard that was killed.
	tokenPipe *os.File
}

// The files that a guard finds open, after the standard ones.
const (
	statusFile = 3
	imageFile  = 4
)

func runGuard(o guardOptions) int {
	children := catchSignals()
	KeepFiles()
	status := os.NewFile(statusFile, "status")
	lifeline := bufio.NewReaderSize(os.Stdin, maxToken)
	token, err := readToken(lifeline)
	if err != nil {
		return guardNothing
	}
	g := &guard{guardOptions: o, keep: newKeeper(o), status: status}
	noProc, err := g.start(token)
	if err != nil {
		failedNotice(err).send(status)
		return guardFailed
	}
	started := notice{Event: eventStarted, Pid: g.plugin}
	if noProc != nil {
		started.NoProc = noProc.Error()
	}
	started.send(status)
	g.watch(children, follow(lifeline))
	notice{Event: eventEnded, Code: g.exit.Code, Signal: g.exit.Signal}.send(status)
	if g.exit.Signal != 0 {
		return 128 + g.exit.Signal
	}
	return g.exit.Code
}

// KeepFiles keeps every file but the standard ones from the processes that this one
// starts from now on: its own, and what it was started with and never knew of.
func KeepFiles() {
	for _, dir := range []string{"/proc/self/fd", "/dev/fd"} {
		files, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, f := range files {
			if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
				unix.CloseOnExec(fd)
			}
		}
		return
	}
}

// catchSignals makes the guard deaf to every signal that can be caught: a
// terminal's Ctrl-C or hangup, or a stray SIGTERM, must not end the process that
// cleans up. They are caught and dropped, not ignored, for what a process ignores
// its children ignore too. It returns the channel of SIGCHLD.
func catchSignals() <-chan os.Signal {
	dropped := make(chan os.Signal, 1) // nobody receives, and sends to it do not block
	signal.Notify(dropped, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGTERM,
		syscall.SIGPIPE, syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGIO)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	return children
}

// start starts the plugin with the token on its standard input.
func (g *guard) start(token string) (noProc error, err error) {
	if noProc, err = g.keep.prepare(); err != nil {
		return nil, err
	}
	path := g.path
	if g.image {
		defer func() { _ = unix.Close(imageFile) }()
		path = fmt.Sprintf("/proc/self/fd/%d", imageFile)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	stdin, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	g.tokenPipe = write
	if _, err := write.WriteString(token); err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	onSpawnThread(func() { // a guard never lets go of it
		if err = g.keep.unprivileged(); err != nil {
			return
		}
		g.plugin, err = syscall.ForkExec(path, g.argv, &syscall.ProcAttr{
			Env: os.Environ(), Files: []uintptr{stdin.Fd(), 1, 2}, Sys: g.keep.attributes(),
		})
	})
	stdin.Close()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.argv[0], err)
	}
	detachOutput(null)
	return noProc, nil
}

// detachOutput lets go of the plugin's output, which ends with the tree and not
// with the guard.
func detachOutput(null *os.File) {
	for fd := 1; fd <= 2; fd++ {
		_ = unix.Close(fd)
		_, _ = unix.Dup(int(null.Fd())) // takes the lowest that is free, which is fd
	}
}

// watch returns when the plugin has ended and the tree is empty. It kills the tree
// when the lifeline ends and when the plugin does, pass after pass, and never
// gives up.
func (g *guard) watch(children <-chan os.Signal, lifeline <-chan byte) {
	pause := killPauseMin
	for killing := false; ; {
		reaped, childless := g.reap()
		killing = killing || g.ended
		if childless && g.keep.empty(g.plugin) {
			return
		}
		if killing {
			if reaped > 0 {
				pause = killPauseMin
			}
			g.keep.signal(g.plugin, syscall.SIGKILL)
			select {
			case <-children:
			case <-time.After(pause):
				pause = min(2*pause, killPauseMax)
			}
			continue
		}
		select {
		case <-children:
		case b, ok := <-lifeline:
			if !ok {
				killing = true
			} else if b == terminateByte {
				g.keep.signal(g.plugin, syscall.SIGTERM)
			}
		}
	}
}

// reap collects every child that has ended, the plugin and what fell to us, and
// says whether there are no more: for a process to which all orphans below fall,
// no children means no descendants.
func (g *guard) reap() (reaped int, childless bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // ECHILD
			return reaped, true
		case pid == 0:
			return reaped, false
		}
		reaped++
		if pid == g.plugin {
			g.ended, g.exit = true, exitOf(status)
		}
	}
}

func exitOf(status syscall.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: -1, Signal: int(status.Signal())}
	}
	return Exit{Code: status.ExitStatus()}
}
