//go:build !unix

package main

import "os"

// pollable is for systems whose pipes have a poller.
func pollable(f *os.File) *os.File { return f }
