package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/host/doctor"
	"github.com/drawbridge-mcp/drawbridge/host/internal/identity"
)

// contain finds out how processes are held here.
func (x *examination) contain(required string) {
	c := &doctor.Containment{Required: required}
	x.facts.Containment = c
	support, err := containment.Probe()
	if err != nil {
		c.WhyNot = err.Error()
		return
	}
	c.Tier, c.WhyNot = support.String(), support.Why()
	c.Best = c.WhyNot == ""
	if err := support.Require(containment.Tier(required)); err != nil {
		c.Unmet, c.WhyNot = true, err.Error()
	}
}

// privateFiles are those of the state dir that hold a secret.
var privateFiles = []string{"token", "key"}

// state looks at the state dir, and makes nothing in it that stays.
func (x *examination) state() {
	s := &doctor.State{Dir: x.cfg.Host.StateDir}
	x.facts.State = s
	info, err := os.Stat(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		s.Writable = mayWrite(closest(s.Dir))
		return
	}
	if err != nil { // a folder above it cannot be entered
		return
	}
	s.Exists, s.Folder, s.Mode, s.Foreign = true, info.IsDir(), rights(info), !identity.Own(info)
	if f, err := os.CreateTemp(s.Dir, ".doctor-*"); err == nil {
		_ = f.Close()
		s.Writable = os.Remove(f.Name()) == nil
	}
	for _, name := range privateFiles {
		path := filepath.Join(s.Dir, name)
		if info, err := os.Stat(path); err == nil {
			s.Private = append(s.Private, doctor.PrivateFile{Path: path, Mode: rights(info)})
		}
	}
}

// rights are those of a file, as far as its system has them.
func rights(info fs.FileInfo) fs.FileMode {
	if runtime.GOOS == "windows" {
		return info.Mode() &^ 0o077
	}
	return info.Mode()
}

// closest is the first folder at or above path that is there.
func closest(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || filepath.Dir(path) == path {
			return path
		}
		path = filepath.Dir(path)
	}
}

// leftovers looks for what a sweep would find, and ends nothing.
func (x *examination) leftovers(ctx context.Context) {
	l := new(doctor.Leftovers)
	x.facts.Leftovers = l
	report, err := containment.Look(ctx, x.cfg.Host.StateDir)
	if err != nil {
		l.Wrong = err.Error()
	}
	l.Runs = len(report.Runs)
	for _, p := range report.Ended {
		l.Processes = append(l.Processes, doctor.Process{PID: p.Pid, Mark: p.Mark})
	}
	for _, p := range report.Left {
		l.Unsure = append(l.Unsure, p.Why)
	}
}

// listen finds out whether the host could listen where it is to.
func (x *examination) listen(ctx context.Context) {
	address := x.cfg.Host.HTTP.Listen
	_, port, err := net.SplitHostPort(address)
	if err != nil || port == "0" { // a mistake that is told, or any that is free
		return
	}
	l := &doctor.Listen{Address: address}
	x.facts.Listen = l
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		_ = listener.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		l.Busy = true
		for _, h := range x.facts.Hosts {
			if u, err := url.Parse(h.URL); err == nil && h.URL != "" && u.Port() == port {
				l.Holder = h.ID
			}
		}
	default:
		l.Wrong = err.Error()
	}
}
