package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/host/internal/redact"
)

func main() {
	// The host or `connect` starts these, not a person: they come before flags and config.
	if containment.IsGuard(os.Args) {
		os.Exit(containment.Guard(os.Args[2:]))
	}
	if name, ok := asPlugin(os.Args); ok {
		servePlugin(name)
		return
	}
	if asLauncher(os.Args) {
		os.Exit(launch(os.Args[2:]))
	}
	tuneGC()
	// A client that closes our output is an error to handle, not a signal to die of.
	signal.Ignore(syscall.SIGPIPE)
	stop, hurry := onSignals(os.Interrupt, syscall.SIGTERM)
	os.Exit(run(stop, os.Args[1:], process{in: os.Stdin, out: os.Stdout, err: os.Stderr, hurry: hurry}))
}

// process is what a command has of its process, as a value, so that tests can run
// commands in theirs.
type process struct {
	in       io.Reader
	out, err io.Writer
	// hurry ends when stopping is to skip its waits.
	hurry context.Context
	// redactor knows the secrets that err takes out of what is written to it; run
	// makes both so.
	redactor *redact.Redactor
}

// onSignals returns a context that ends with the first of the signals and one
// that ends with the second. Both live as long as the process.
func onSignals(signals ...os.Signal) (first, second context.Context) {
	first, stop := context.WithCancel(context.Background())
	second, hurry := context.WithCancel(context.Background())
	got := make(chan os.Signal, 2)
	signal.Notify(got, signals...)
	go func() {
		<-got
		stop()
		<-got
		hurry()
	}()
	return first, second
}

// The exit codes of every command.
const (
	exitOK       = 0
	exitError    = 1 // the command failed, or the call ended in an error
	exitChanges  = 2 // `fmt --check` found something to write, `plan` something that is not as locked
	exitWarnings = 2 // `doctor`: nothing is broken, and something is worth knowing
	exitTool     = 3 // `call`: the tool answered isError
	exitDenied   = 4 // `access`: what was asked for is denied in every project
)

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, p process) int {
	p.redactor = new(redact.Redactor)
	p.err = redact.Writer(p.err, p.redactor)
	root := newRoot(p) //nolint:contextcheck // the context comes with the command
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	return exitCode(root.ExecuteContext(ctx), p.err)
}
