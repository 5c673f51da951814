//go:build !linux && !darwin

package peer

// Supported says whether this system tells who a peer is.
const Supported = false

// handle is nothing where nobody is known.
type handle struct{}

func (handle) close() {}

func (*Peer) identify(int) error { return ErrUnsupported }

func (*Peer) ended() bool { return true }

func lineage(int, string) ([]Process, error) { return nil, ErrUnsupported }
