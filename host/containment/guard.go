package containment

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
)

// GuardCommand is the first argument by which the host's binary becomes a guard.
const GuardCommand = "guard"

// IsGuard says whether argv, with the program's name first, asks for a guard.
// main, and TestMain of a package whose tests start guards, ask this before
// anything else and then exit with Guard(argv[2:]).
func IsGuard(argv []string) bool { return len(argv) > 1 && argv[1] == GuardCommand }

// The lifeline is the guard's standard input. It carries the token line, and then
// single bytes; its end means that the tree is to be killed.
const terminateByte = 'T'

// What a guard answers to who runs it by hand.
const guardUsage = "drawbridge guard is started by the host and is of no use by itself"

// Exit codes of a guard that started nothing. One that did exits with the
// plugin's, or 128 and the number of the signal that ended it.
const (
	guardNothing = 0   // the host was gone before it said what to start
	guardMisused = 2   // wrong arguments
	guardFailed  = 125 // the plugin could not be started; the status pipe says why
)

// pause bounds, between two passes of killing when nothing dies in between. A
// process that cannot be killed now (in the middle of device I/O) must not cost
// CPU, and must not be given up.
const (
	killPauseMin = time.Millisecond
	killPauseMax = 250 * time.Millisecond
)

// guardOptions is what the host tells a guard on its command line. The rest comes
// on the lifeline (the token) and as files: 0 the lifeline, 1 and 2 the plugin's
// output, 3 the status pipe, 4 the image if there is one.
type guardOptions struct {
	tier   Tier
	userns bool // capabilities of a new user namespace are to be dropped
	image  bool // file 4 is what to execute
	status uint // where the status pipe is, if it is not file 3
	idle   bool // be the process that a probe starts

	mark string
	path string
	argv []string
}

// args is the guard's argument vector.
func (o guardOptions) args() []string {
	args := []string{"drawbridge", GuardCommand, "-tier=" + string(o.tier)}
	if o.userns {
		args = append(args, "-userns")
	}
	if o.image {
		args = append(args, "-image")
	}
	if o.status != 0 {
		args = append(args, "-status="+strconv.FormatUint(uint64(o.status), 10))
	}
	args = append(args, "--", o.mark, o.path)
	return append(args, o.argv...)
}

// parseGuard reads what args wrote, without its first two.
func parseGuard(args []string) (guardOptions, error) {
	var o guardOptions
	flags := flag.NewFlagSet(GuardCommand, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar((*string)(&o.tier), "tier", "", "")
	flags.BoolVar(&o.userns, "userns", false, "")
	flags.BoolVar(&o.image, "image", false, "")
	flags.UintVar(&o.status, "status", 0, "")
	flags.BoolVar(&o.idle, "idle", false, "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.idle {
		return o, nil
	}
	rest := flags.Args()
	if len(rest) < 3 || rest[0] == "" || rest[1] == "" || strength(o.tier) == 0 {
		return o, errors.New("wrong arguments")
	}
	o.mark, o.path, o.argv = rest[0], rest[1], rest[2:]
	return o, nil
}

// Guard is the main of a guard: the process between the host and a plugin that
// ends the plugin, and all below it, when the host ends, however it ends. It
// returns the exit code when no process of the tree is left.
func Guard(args []string) int {
	o, err := parseGuard(args)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, guardUsage)
		return guardMisused
	case o.idle:
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	return runGuard(o)
}

// event is the kind of a notice.
type event string

const (
	eventStarted event = "started" // the plugin runs
	eventFailed  event = "failed"  // it does not, and nothing is left
	eventEnded   event = "ended"   // the plugin ended and the tree is empty
)

// notice is one line of the status pipe, from a guard to its host.
type notice struct {
	Event event `json:"event"`
	// Pid is the plugin's as the guard sees it; with started.
	Pid int `json:"pid,omitempty"`
	// NoProc says why the guard has no /proc of its own; with started.
	NoProc string `json:"no_proc,omitempty"`
	// Error and Errno say why nothing was started; with failed.
	Error string `json:"error,omitempty"`
	Errno int    `json:"errno,omitempty"`
	// Code and Signal say how the plugin ended; with ended.
	Code   int `json:"code,omitempty"`
	Signal int `json:"signal,omitempty"`
}

// maxNotices bounds what a host reads from a status pipe.
const maxNotices = 64 << 10

// send writes n. That a host is gone shows on the lifeline, so nobody looks at
// errors here.
func (n notice) send(w io.Writer) { _ = json.NewEncoder(w).Encode(n) }

func failedNotice(err error) notice {
	n := notice{Event: eventFailed, Error: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		n.Errno = int(errno)
	}
	return n
}

// startError is a failed notice as an error of the host.
type startError struct {
	text  string
	errno syscall.Errno
}

func (e *startError) Error() string { return e.text }

// Unwrap lets errors.Is see fs.ErrNotExist, fs.ErrPermission and the rest.
func (e *startError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

func (n notice) err() error { return &startError{text: n.Error, errno: syscall.Errno(n.Errno)} }

// maxToken bounds the token line.
const maxToken = 4 << 10

// readToken reads the first line of the lifeline, newline included, and not a
// byte more than the reader's buffer holds.
func readToken(lifeline *bufio.Reader) (string, error) {
	line, err := lifeline.ReadSlice('\n')
	return string(line), err
}

// follow passes on what comes on the lifeline, and closes the channel at its end.
// The goroutine lives as long as the guard.
func follow(lifeline *bufio.Reader) <-chan byte {
	said := make(chan byte)
	go func() {
		defer close(said)
		for {
			b, err := lifeline.ReadByte()
			if err != nil {
				return
			}
			said <- b
		}
	}()
	return said
}
