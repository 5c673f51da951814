//go:build !linux

package supervise

import "os"

func selfPath() (string, error) { return os.Executable() }
