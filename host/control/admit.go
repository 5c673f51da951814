package control

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/drawbridge-mcp/drawbridge/host/internal/peer"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// errHidden is for a process of this user whose environment cannot be read: it may
// carry a mark.
var errHidden = errors.New("it may be a provider's server, for its environment cannot be read")

// admit says why who connected may not give commands; nil if they may.
//
// Only this user and root may, and nobody whom a host has started: neither what
// carries an instance's mark, nor what descends from it or from this host. A server
// can take the mark off its children, but not choose what they descend from: below
// a guard, what loses its parents falls to the guard or to the host. Where there is
// no guard (containment "direct", or "pgroup" on macOS), a process that was started
// twice removed, and without the mark, falls to the system and is taken for the
// user's own. The user's other programs are the user: the gate is not between them.
func admit(conn *net.UnixConn) error {
	p, err := peer.Of(conn)
	if err != nil {
		return err
	}
	defer p.Close()
	self := os.Geteuid()
	if p.UID != self && p.UID != 0 {
		return fmt.Errorf("it belongs to user %d", p.UID)
	}
	line, err := p.Lineage(provider.MarkEnv)
	if err != nil {
		return err
	}
	return judge(line, os.Getpid(), p.UID == self)
}

// judge looks at a process and what it descends from. own says that it is of the
// host's user, as every server is. Who is not is root, whose processes a host of
// another user cannot look into, and need not: root can do as it likes with them.
func judge(line []peer.Process, host int, own bool) error {
	for i, one := range line {
		switch {
		case one.PID == host:
			return errors.New("it was started by the host itself")
		case one.Mark != "" && i == 0:
			return fmt.Errorf("it belongs to instance %s", one.Mark)
		case one.Mark != "":
			return fmt.Errorf("it descends from process %d of instance %s", one.PID, one.Mark)
		case one.Hidden != nil && i == 0 && own:
			return fmt.Errorf("%w: %w", errHidden, one.Hidden)
		}
	}
	return nil
}
