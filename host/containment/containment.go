package containment

import "os"

// Containment starts plugins.
type Containment interface {
	// Tier names the kind of containment, for people.
	Tier() string
	// Spawn starts a plugin. The error is the operating system's (it wraps
	// syscall errors such as EACCES and ENOEXEC); nothing runs then.
	Spawn(cmd Command) (Tree, error)
}

// Command says what to run.
type Command struct {
	// Path is the executable, absolute. Args is its whole argument vector, and
	// Env its whole environment.
	Path string
	Args []string
	Env  []string
	// Image, where set, is an open file that runs in place of whatever stands at
	// Path by then. Systems that cannot run an open file run Path. It stays the
	// caller's, who may close it when Spawn has returned.
	Image *os.File
	// Token is the first line on the plugin's standard input, which stays open
	// after it as the plugin's lifeline.
	Token string
	// Stdout and Stderr are the plugin's ends of pipes. The caller closes them
	// when Spawn has returned.
	Stdout, Stderr *os.File
}

// Tree is a running plugin and what it started. Its methods may be called at any
// time, from any goroutine.
type Tree interface {
	// PID is the plugin's process id as the host sees it.
	PID() int
	// Release closes the lifeline. A plugin of good will then ends its server and
	// itself.
	Release()
	// Kill ends the tree by force. It does not wait.
	Kill()
	// Done is closed when the plugin has ended and, as far as the tier can know,
	// the tree is empty. A restart starts only then.
	Done() <-chan struct{}
	// Exit says how the plugin ended; before Done it is the zero value.
	Exit() Exit
}

// Exit says how a plugin ended.
type Exit struct {
	// Code is -1 where Signal is set.
	Code int
	// Signal is the signal's number, or 0.
	Signal int
}
