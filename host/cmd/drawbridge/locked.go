package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
)

// readLock reads the lock file of a configuration; nil where there is none. A file
// that is there and no good is an error, also where nothing asks for it: whoever
// put it there relies on it.
func readLock(cfg *config.Config) (*lock.File, error) {
	file, err := lock.Load(lock.PathFor(cfg.Path))
	if errors.Is(err, lock.ErrMissing) {
		return nil, nil
	}
	return file, err
}

// needsLock says that a configuration relies on a lock file that is not there, nil
// if not so. The commands that make one do without.
func needsLock(cfg *config.Config) *hcl.Diagnostic {
	if !cfg.Host.Locked {
		return nil
	}
	if _, err := lock.Load(lock.PathFor(cfg.Path)); errors.Is(err, lock.ErrMissing) {
		return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "No lock file", Detail: fmt.Sprintf("With locked = true nothing that is not in it is shown: %v.", err), Subject: &cfg.Host.Range}
	}
	return nil
}

// lockToday is the lock file as it is on the disk now, nil where the configuration has
// no locked = true. Without a file nothing is approved.
func (h *host) lockToday() (*lock.File, *hcl.Diagnostic) {
	if !h.cfg.Host.Locked {
		return nil, nil
	}
	file, err := readLock(h.cfg)
	if err != nil {
		return nil, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Lock file not usable", Detail: err.Error(), Subject: &h.cfg.Host.Range}
	}
	if file == nil {
		file = lock.New()
	}
	return file, nil
}

// approveFound gives the plugins that were found by name the checksum that the lock
// file has of what stands there now. One that it has not stays without, and does
// not run.
func approveFound(cfg *config.Config, file *lock.File) {
	for _, p := range cfg.Plugins {
		if !p.Found {
			continue
		}
		sum, err := checksum.File(p.Path)
		if err == nil && file != nil && file.ApprovesPlugin(p.Name, sum) {
			p.SHA256 = sum
		}
	}
}

// unapproved says why a provider's plugin may not run, nil if it may.
func unapproved(p *config.Plugin, path string) *hcl.Diagnostic {
	if p == nil || !p.Found || p.SHA256 != "" {
		return nil
	}
	sum, err := checksum.File(p.Path)
	if err != nil {
		return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Plugin not readable", Detail: err.Error(), Subject: &p.Range}
	}
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: fmt.Sprintf("Plugin %q is not approved", p.Name), Subject: &p.Range,
		Detail: fmt.Sprintf("It was found at %s, has the SHA-256 %s, and %s does not have that. Find out whether it is what you mean to run, and then approve it with drawbridge lock, or declare it with a block plugin, which drawbridge plan prints.", p.Path, sum, path)}
}

// foreignPlugins are the third-party plugins that enabled providers name.
func foreignPlugins(cfg *config.Config) []*config.Plugin {
	var out []*config.Plugin
	for _, p := range cfg.Providers {
		if d := cfg.Plugins[p.Plugin]; d != nil && p.Enabled && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}
