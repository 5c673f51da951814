//go:build !unix

package main

import "os"

// hangups are signals that this system does not have.
type hangups struct{ got chan os.Signal }

func onHangup() hangups { return hangups{} }

func (hangups) terminalGone() bool { return false }

func (hangups) forget() {}
