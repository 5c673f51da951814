package fakeserver

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Exit codes of the program's own.
const (
	exitUsage = 2
	exitTaken = 98 // --bind: the port is taken
	exitLife  = 99 // --life is over
)

// Main runs the fake server with args and returns its exit code.
func Main(args []string) int {
	o, err := parse(args, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return exitUsage
	}
	if o.wrapper {
		return wrap(args)
	}
	log, err := newLogger(o.log)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	time.AfterFunc(o.life, func() { os.Exit(exitLife) })
	if o.role != "" {
		return childMain(o, log)
	}
	log.add(DirStart, strings.Join(args, " "))
	watchSignals(o, log)
	if o.bind != "" {
		listener, err := net.Listen("tcp", "127.0.0.1:"+o.bind)
		if err != nil {
			log.add(DirNote, "address in use")
			return exitTaken
		}
		defer func() { _ = listener.Close() }()
	}
	if o.child != "" {
		for kind := range strings.SplitSeq(o.child, ",") {
			if err := spawnChild(o, kind); err != nil {
				log.add(DirNote, "child: "+err.Error())
			}
		}
	}
	return serve(o, log)
}

func serve(o options, log *logger) int {
	if o.stderr != "" {
		fmt.Fprintln(os.Stderr, o.stderr)
	}
	if o.stderrBytes > 0 {
		floodLines(o.stderrBytes)
	}
	if o.exitAtStart >= 0 {
		time.Sleep(o.exitAfter)
		return o.exitAtStart
	}
	if o.exitAfter > 0 {
		time.AfterFunc(o.exitAfter, func() { os.Exit(0) })
	}
	s := newServer(o, log)
	if o.http != "" {
		return s.serveHTTP()
	}
	return s.serveStdio(os.Stdin, os.Stdout)
}

func floodLines(n int) {
	line := strings.Repeat("e", 99) + "\n"
	for ; n > 0; n -= len(line) {
		_, _ = os.Stderr.WriteString(line[:min(n, len(line))])
	}
}

// wrap is a launcher as npx or a shell script is one: it waits for the real
// server and passes no signal on.
func wrap(args []string) int {
	var rest []string
	for _, arg := range args {
		if arg != "--wrapper" && arg != "-wrapper" {
			rest = append(rest, arg)
		}
	}
	cmd := exec.Command(self(), rest...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}
