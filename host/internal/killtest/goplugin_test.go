//go:build linux

package killtest

func plainRole() bool { return false }
