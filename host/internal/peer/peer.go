// Package peer says which process is at the other end of a unix socket, and what
// that process descends from. Read peer.go first.
//
// What it tells is the kernel's word and this machine's process table, not the
// peer's. It decides nothing: who may do what is decided by who asks. Each
// system's part is in a file of its own; where a system does not say who the peer
// is, Of says ErrUnsupported, so that who asks can refuse.
//
// It starts no goroutine.
package peer

import (
	"errors"
	"net"
)

var (
	// ErrUnsupported says that this system does not tell who a peer is.
	ErrUnsupported = errors.New("this system does not say who is at the other end of a socket")
	// ErrGone says that the peer has ended, so that its pid may be another's by now.
	ErrGone = errors.New("the process that connected is gone")
)

// Peer is the process that connected, or, for who connected, the one that listens.
type Peer struct {
	// PID is its process id as this process sees it; 0 for one that this process
	// cannot see, in a PID namespace of others.
	PID int
	// UID is its user.
	UID int

	handle handle
}

// Process is a line of the process table.
type Process struct {
	PID int
	// Mark is the value of the variable that Lineage was asked for, as the process
	// was started with it, "" where it has none.
	Mark string
	// Hidden is why its environment could not be read, so that Mark says nothing; nil
	// where it could.
	Hidden error
}

// Of returns who is at the other end of a connection. Close frees it.
func Of(conn *net.UnixConn) (*Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := new(Peer)
	var found error
	if err := raw.Control(func(fd uintptr) { found = p.identify(int(fd)) }); err != nil {
		return nil, err
	}
	if found != nil {
		return nil, found
	}
	return p, nil
}

// maxLineage bounds a walk through the process table; no tree of processes is as deep.
const maxLineage = 128

// Lineage returns the peer and what it descends from, the nearest first, as far
// as this process can see, each with its value of an environment variable.
//
// It is the truth of one moment: a process whose parent has ended descends from
// whoever took it over. The error is ErrGone when the peer has ended meanwhile.
func (p *Peer) Lineage(variable string) ([]Process, error) {
	if p.PID <= 0 {
		return nil, ErrGone
	}
	line, err := lineage(p.PID, variable)
	if err != nil {
		return nil, err
	}
	if p.ended() {
		return nil, ErrGone
	}
	return line, nil
}

// Close frees what the peer holds.
func (p *Peer) Close() { p.handle.close() }

// PIDOf is the pid of who is at the other end of a connection, 0 where the system
// does not say.
func PIDOf(conn net.Conn) int {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return 0
	}
	p, err := Of(u)
	if err != nil {
		return 0
	}
	defer p.Close()
	return p.PID
}
