package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// launchCommand tells a process to start a host for another, and to end. Clients kill what
// is below the process that they have started, and a host that `connect` starts is nobody's:
// once its parent has ended it is below none of them.
const launchCommand = "launch"

// asLauncher says whether this process is to start a host and to end.
func asLauncher(args []string) bool { return len(args) > 2 && args[1] == launchCommand }

// launch starts this program with arguments, with its standard error as output, and says
// the pid on its standard output. Its standard input is handed on: a pipe whose end says
// that the host has ended. No other file can be handed on everywhere.
func launch(args []string) int {
	cmd, err := itself(args)
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
		detach(cmd)
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "drawbridge: %v\n", err)
		return exitError
	}
	fmt.Println(cmd.Process.Pid)
	return exitOK
}

// launched has a process started by one that ends then. Its output goes to a log, of which
// what it had before is not its own; ended is closed when it has ended.
func launched(args []string, dir string, log *os.File, before int64) (ended <-chan struct{}, pid int, err error) {
	cmd, err := itself(append([]string{launchCommand}, args...))
	if err != nil {
		return nil, 0, err
	}
	lifeline, held, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, held, log
	detach(cmd)
	said, err := cmd.Output()
	_ = held.Close()
	if why := lastLine(log, before); err != nil && why != "" {
		err = errors.New(why)
	}
	if err == nil {
		pid, err = strconv.Atoi(strings.TrimSpace(string(said)))
	}
	if err != nil {
		_ = lifeline.Close()
		return nil, 0, err
	}
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, lifeline) // nothing is written; its end is what counts
		_ = lifeline.Close()
		close(done)
	}()
	return done, pid, nil
}

// itself is this program, with arguments.
func itself(args []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, args...) //nolint:noctx // it outlives the command that starts it
	cmd.Args[0] = "drawbridge"
	return cmd, nil
}
