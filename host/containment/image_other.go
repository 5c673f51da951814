//go:build !linux

package containment

import "io"

// canRunOpenFiles says whether Command.Image can be run.
const canRunOpenFiles = false

// memoryImage has no counterpart here.
func memoryImage(string, string, io.Reader) (*Sealed, error) { return nil, ErrUnsupported }
