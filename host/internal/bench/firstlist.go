package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// fromDisk stands in the place of a transport for the figures of a host's first
// list: with the catalogs of all servers on disk, against a host that has none
// and starts every server.
const fromDisk = "stdio, disk / cold"

// firstLists measures, from the start of the host's process on, the first list
// that has every tool: cold, and with what the cold host has left on disk.
func (b *bench) firstLists() (cold, disk float64, err error) {
	dir, err := os.MkdirTemp(b.dir, "host")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	config := filepath.Join(dir, "providers.hcl")
	// The whole list is what is measured, and not how long the host waits for it.
	text := strings.Replace(b.config(dir, b.providers(listProviders, listArgs(listTools, listBytes)...)),
		"host {\n", "host {\n  list_wait = \"1m\"\n", 1)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return 0, 0, err
	}
	if cold, err = b.firstList(config, listProviders); err != nil {
		return 0, 0, fmt.Errorf("cold: %w", err)
	}
	if disk, err = b.firstList(config, 0); err != nil {
		return 0, 0, fmt.Errorf("from disk: %w", err)
	}
	return cold, disk, nil
}

// firstList is the time from the start of a host to its first whole list, which
// must have taken as many plugins as are said.
func (b *bench) firstList(config string, plugins int) (took float64, err error) {
	began := time.Now()
	host, err := startProcess(b.host, "serve", "--stdio", "--config", config, "--log-level", "error")
	if err != nil {
		return 0, err
	}
	c, err := openStdio(host)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, host.stderr)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	size, err := c.call(0, "tools/list", "{}")
	took = time.Since(began).Seconds()
	if err != nil {
		return 0, err
	}
	if least := listProviders * listTools * listBytes; size < least {
		return 0, fmt.Errorf("the list has %d bytes, want %d", size, least)
	}
	running, err := pluginsOf(host.cmd.Process.Pid)
	if err == nil && len(running) != plugins {
		err = fmt.Errorf("%d plugins run, want %d", len(running), plugins)
	}
	return took, err
}
