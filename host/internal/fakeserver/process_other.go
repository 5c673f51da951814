//go:build !unix

package fakeserver

import (
	"os"
	"os/exec"
)

func newSession(*exec.Cmd) {}

func ignoreSignals() {}

func watchSignals(options, *logger) {}

func die() { os.Exit(137) }

func pollable(file *os.File) *os.File { return file }
