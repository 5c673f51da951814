package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// stopLimit bounds an end that was asked for; a host's budget is 15 seconds.
	stopLimit = 30 * time.Second
	// readyLimit bounds a start.
	readyLimit = 30 * time.Second
)

// process is a process of ours; only its own pid is ever signalled.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr *tail
	once   sync.Once
	err    error
}

func startProcess(path string, args ...string) (*process, error) {
	cmd := exec.Command(path, args...)
	p := &process{cmd: cmd, stderr: &tail{}}
	cmd.Stderr = p.stderr
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, cmd.Start()
}

// stop closes the process's input, which ends a server and a host on stdio;
// with SIGTERM if it serves HTTP.
func (p *process) stop(signals ...os.Signal) error {
	p.once.Do(func() {
		_ = p.in.Close()
		for _, s := range signals {
			_ = p.cmd.Process.Signal(s)
		}
		kill := time.AfterFunc(stopLimit, func() { _ = p.cmd.Process.Kill() })
		defer kill.Stop()
		// The reader of p.out sees its end before Wait closes it.
		state, err := p.cmd.Process.Wait()
		_ = p.out.Close()
		if err == nil && state.ExitCode() != 0 {
			err = fmt.Errorf("%s ended with %v: %s", p.cmd.Path, state, p.stderr)
		}
		p.err = err
	})
	return p.err
}

// tail keeps the last bytes of what a process said, for an error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - 4096; over > 0 {
		t.text = bytes.Clone(t.text[over:])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

var (
	readyURL   = regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`)
	readyToken = regexp.MustCompile(`token is in (\S+)`)
)

// startHost starts a host that serves HTTP and waits until it says where.
func startHost(binary, config string) (p *process, url, token string, err error) {
	p, err = startProcess(binary, "serve", "--config", config, "--log-level", "error")
	if err != nil {
		return nil, "", "", err
	}
	timer := time.AfterFunc(readyLimit, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	lines := bufio.NewScanner(p.out)
	for (url == "" || token == "") && lines.Scan() {
		if found := readyURL.FindString(lines.Text()); found != "" {
			url = found
		}
		if found := readyToken.FindStringSubmatch(lines.Text()); found != nil {
			text, err := os.ReadFile(found[1])
			if err != nil {
				return nil, "", "", errors.Join(err, p.stop(syscall.SIGTERM))
			}
			token = strings.TrimSpace(string(text))
		}
	}
	if url == "" || token == "" {
		return nil, "", "", errors.Join(fmt.Errorf("the host did not become ready: %s", p.stderr), p.stop(syscall.SIGTERM))
	}
	go func() { _, _ = io.Copy(io.Discard, p.out) }()
	return p, url, token, nil
}

// freeAddr is an address on loopback that nobody listens on.
func freeAddr() (string, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return free.Addr().String(), free.Close()
}

// startServer starts a program that listens on addr and waits until it accepts.
func startServer(addr, path string, args ...string) (*process, error) {
	p, err := startProcess(path, args...)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(readyLimit); ; time.Sleep(200 * time.Microsecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return p, c.Close()
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("%s does not listen: %w: %s", path, err, p.stderr), p.stop(syscall.SIGTERM))
		}
	}
}

// memory is what a process holds, in KiB: resident, and its share of what is shared.
type memory struct{ rss, pss int }

// memoryOf reads /proc/PID/smaps_rollup.
func memoryOf(pid int) (memory, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return memory{}, err
	}
	var m memory
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, _ := strconv.Atoi(fields[1])
		switch fields[0] {
		case "Rss:":
			m.rss = n
		case "Pss:":
			m.pss = n
		}
	}
	return m, nil
}

// pluginsOf finds the plugins of a host: processes below it that run as `… plugin NAME`.
func pluginsOf(host int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	parents, plugin := map[int]int{}, map[int]bool{}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		dir := filepath.Dir(file)
		pid, _ := strconv.Atoi(filepath.Base(dir))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 {
			parents[pid], _ = strconv.Atoi(fields[1])
		}
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		args := strings.Split(string(command), "\x00")
		plugin[pid] = len(args) > 2 && args[1] == "plugin"
	}
	var found []int
	for pid, is := range plugin {
		if !is {
			continue
		}
		for up := parents[pid]; up > 1; up = parents[up] {
			if up == host {
				found = append(found, pid)
				break
			}
		}
	}
	return found, nil
}
