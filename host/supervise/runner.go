package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin/runner"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
)

// drainGrace is how long the output of a plugin that ended is still read while
// somebody else holds the other end. What the plugin wrote is in the pipe by then;
// it only takes reading.
const drainGrace = 100 * time.Millisecond

// errNoHandshake is go-plugin's view of a start whose reason runner.problem holds.
var errNoHandshake = errors.New("no handshake")

// runner is go-plugin's runner of one plugin process.
//
// go-plugin gets of the plugin's standard output the handshake line and nothing
// else, and of its standard error nothing; both of its readers end when the
// process has ended, whoever else holds the pipes.
type runner struct {
	image *image
	token string
	env   []string // in addition to go-plugin's
	tier  containment.Containment
	// output gets each line of standard error, and of standard output after the
	// handshake.
	output func(line []byte, cut bool)

	// set by prepare
	command   containment.Command
	socketDir string

	// set by Start
	stdout, stderr *os.File
	// forward carries the handshake line to go-plugin.
	forward     *io.PipeWriter
	forwarded   *io.PipeReader
	errorless   *io.PipeReader // go-plugin's standard error: nothing, until the end
	errorlessIn *io.PipeWriter
	done        chan struct{}

	mu        sync.Mutex
	tree      containment.Tree // set by Start, once
	cancelled bool             // by us; the tree's end says nothing then
	problem   error            // the first thing that was wrong with the start
	network   string           // where the plugin listens, after the handshake
	address   string
}

// prepare is go-plugin's RunnerFunc: cmd has the environment that it sets.
func (r *runner) prepare(_ hclog.Logger, cmd *exec.Cmd, socketDir string) (goplugin.Runner, error) {
	r.socketDir = socketDir
	r.command = r.image.command(append(append([]string{}, r.env...), cmd.Env...))
	r.command.Token = r.token
	r.forwarded, r.forward = io.Pipe()
	r.errorless, r.errorlessIn = io.Pipe()
	return r, nil
}

// Start starts the plugin. Its goroutines have ended when done is closed.
func (r *runner) Start(context.Context) error {
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return r.fail(fmt.Errorf("pipe: %w", err))
	}
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		_, _ = stdout.Close(), stdoutW.Close()
		return r.fail(fmt.Errorf("pipe: %w", err))
	}
	r.command.Stdout, r.command.Stderr = stdoutW, stderrW
	err = r.spawn()
	_, _ = stdoutW.Close(), stderrW.Close()
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return r.fail(err)
	}
	r.stdout, r.stderr, r.done = stdout, stderr, make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(r.readStdout)
	readers.Go(func() { eachLine(r.stderr, r.output) })
	go r.finish(&readers)
	return nil
}

// spawn starts the process unless cancel came first.
func (r *runner) spawn() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cancelled {
		return context.Canceled
	}
	tree, err := r.tier.Spawn(r.command)
	if err != nil {
		return r.image.describeSpawn(err)
	}
	r.tree = tree
	return nil
}

// cancel ends the process, also one that is yet to be started.
func (r *runner) cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancelled = true
	if r.tree != nil {
		r.tree.Kill()
	}
}

// finish closes done when the tree is empty and what it wrote is read.
func (r *runner) finish(readers *sync.WaitGroup) {
	<-r.tree.Done()
	soon := time.Now().Add(drainGrace)
	for _, f := range []*os.File{r.stdout, r.stderr} {
		if err := f.SetReadDeadline(soon); err != nil {
			// No deadlines for pipes here (Windows): the end of the process has to do.
			_ = f.Close()
		}
	}
	readers.Wait()
	_, _ = r.stdout.Close(), r.stderr.Close()
	_, _ = r.forward.Close(), r.errorlessIn.Close()
	close(r.done)
}

// readStdout passes the handshake on and logs whatever comes after it. Without a
// proper handshake the plugin is of no use and ends at once.
func (r *runner) readStdout() {
	first := true
	eachLine(r.stdout, func(line []byte, cut bool) {
		if !first {
			r.output(line, cut)
			return
		}
		first = false
		if err := checkHandshake(r.image.name, string(line)); err != nil {
			_ = r.fail(err)
			r.output(line, cut)
			_ = r.forward.CloseWithError(errNoHandshake)
			r.cancel()
			return
		}
		// go-plugin reads it at once: its scanner runs before anything else.
		_, _ = r.forward.Write(append(line, '\n'))
	})
	if !first {
		return
	}
	// A plugin that printed nothing is most likely about to exit, with a code that
	// says more than our signal would; and go-plugin kills it when it reads the end.
	select {
	case <-r.tree.Done():
	case <-time.After(drainGrace):
		_ = r.fail(fmt.Errorf("%s closed its standard output before its handshake", r.image.name))
		r.cancel()
	}
	_ = r.forward.CloseWithError(errNoHandshake)
}

// fail keeps the first problem.
func (r *runner) fail(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.problem == nil {
		r.problem = err
	}
	return r.problem
}

// view is what is known of a start.
type view struct {
	problem   error
	running   bool // a process was started
	handshake bool // and its handshake done
	// exit is set when it ended, unless that was our doing.
	exit *containment.Exit
}

func (r *runner) view() view {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := view{problem: r.problem, running: r.tree != nil, handshake: r.address != ""}
	if r.tree == nil {
		return v
	}
	select {
	case <-r.tree.Done():
		if exit := r.tree.Exit(); !r.cancelled || exit.Signal != int(syscall.SIGKILL) {
			v.exit = &exit
		}
	default:
	}
	return v
}

// peer is where the plugin listens, once the handshake is done.
func (r *runner) peer() (network, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.network, r.address
}

// Wait returns when the tree is empty.
func (r *runner) Wait(context.Context) error {
	<-r.done
	if e := r.tree.Exit(); e != (containment.Exit{}) {
		return errors.New(Ended(r.image.name, exitStatus(e, "")))
	}
	return nil
}

// Kill does not wait; Wait does.
func (r *runner) Kill(context.Context) error {
	r.cancel()
	return nil
}

// Stdout is the handshake line.
func (r *runner) Stdout() io.ReadCloser { return r.forwarded }

// Stderr is nothing.
func (r *runner) Stderr() io.ReadCloser { return r.errorless }

// Name is the plugin's, for people.
func (r *runner) Name() string { return r.image.name }

// ID is the plugin's pid, empty if it did not start.
func (r *runner) ID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tree == nil {
		return ""
	}
	return strconv.Itoa(r.tree.PID())
}

// Diagnose has nothing to add: the launcher tells what problem holds.
func (r *runner) Diagnose(context.Context) string { return "" }

// PluginToHost refuses every address but a socket in the folder that the plugin
// was given; on Windows, but a port of the loopback.
func (r *runner) PluginToHost(network, address string) (string, string, error) {
	ok := network == "unix" && filepath.Dir(address) == filepath.Clean(r.socketDir)
	if runtime.GOOS == "windows" {
		ok = network == "tcp" && strings.HasPrefix(address, "127.0.0.1:")
	}
	if !ok {
		return "", "", r.fail(fmt.Errorf("%s listens on %s %q, not in the private folder that it was given",
			r.image.name, clean(network, 20), clean(address, 200)))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.network, r.address = network, address
	return network, address, nil
}

// HostToPlugin is for go-plugin's broker, which the contract does not use.
func (r *runner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
