package fakeserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// TB is the part of testing.TB that the helpers use, so that the program does
// not link package testing.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

var built struct {
	once sync.Once
	path string
	err  error
}

// Build builds the program, once per test process, and returns its path.
func Build(t TB) string {
	t.Helper()
	built.once.Do(func() { built.path, built.err = build() })
	if built.err != nil {
		t.Fatalf("build the fake server: %v", built.err)
	}
	return built.path
}

// build leaves the program under its hash in a folder that all test processes
// share: a test process has no moment at its end to remove it, and this way
// there is one file per version instead of one per process. Old ones go.
func build() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("drawbridge-fakeserver-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	prune(dir)
	temp := filepath.Join(dir, fmt.Sprintf("build-%d", os.Getpid()))
	defer func() { _ = os.Remove(temp) }()
	cmd := exec.Command("go", "build", "-o", temp, "github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver/cmd")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	binary, err := os.ReadFile(temp)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("fakeserver-%x", sha256.Sum256(binary)))
	// A link, not a rename over it: another test process may be executing it.
	if err := os.Link(temp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return path, nil
}

func prune(dir string) {
	files, _ := os.ReadDir(dir)
	for _, file := range files {
		if info, err := file.Info(); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.Remove(filepath.Join(dir, file.Name()))
		}
	}
}

// ReadLog returns the entries of a log; a file that is not there yet is empty.
func ReadLog(path string) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // being written
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// WaitLog reads the log until ok is satisfied with it, and fails the test after
// limit.
func WaitLog(t TB, path string, limit time.Duration, ok func([]Entry) bool) []Entry {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		entries, err := ReadLog(path)
		if err != nil {
			t.Fatalf("read the fake server's log: %v", err)
		}
		if ok(entries) {
			return entries
		}
		if time.Now().After(deadline) {
			var all strings.Builder
			for _, e := range entries {
				fmt.Fprintf(&all, "\n%s %s %.200s", e.T.Format("05.000"), e.Dir, e.Raw)
			}
			t.Fatalf("the fake server's log is not as expected after %v:%s", limit, all.String())
		}
	}
}

// Dir returns the entries of one kind.
func Dir(entries []Entry, dir string) []Entry {
	var out []Entry
	for _, e := range entries {
		if e.Dir == dir {
			out = append(out, e)
		}
	}
	return out
}

// Method returns the received messages of one method.
func Method(entries []Entry, method string) []Entry {
	var out []Entry
	for _, e := range Dir(entries, DirIn) {
		if e.Message().Method == method {
			out = append(out, e)
		}
	}
	return out
}

// Message is the envelope of a received line; the zero Message if it is none.
func (e Entry) Message() Message {
	var m Message
	if json.Unmarshal([]byte(e.Raw), &m) != nil {
		return Message{}
	}
	return m
}

// Message is a JSON-RPC envelope with its parts as they came.
type Message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// BigText is the text of the tool big: n bytes of ASCII that JSON leaves alone.
func BigText(n int) string {
	const unit = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	return strings.Repeat(unit, n/len(unit)+1)[:n]
}
