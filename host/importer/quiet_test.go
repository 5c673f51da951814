package importer

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestImportingTouchesNothing: what a file names is not run, not connected to and not read,
// neither variables nor files, and the client's file stays as it is.
func TestImportingTouchesNothing(t *testing.T) {
	dir := t.TempDir()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		t.Fatalf("%T", listener)
	}
	file := filepath.Join(dir, "named.env")
	if err := os.WriteFile(file, []byte("FROM_FILE=of-the-file-EXAMPLE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("A_VARIABLE", "of-the-variable-EXAMPLE")
	ran := filepath.Join(dir, "ran")
	text := fmt.Sprintf(`{"mcpServers": {
		"runs": {"command": "sh", "args": ["-c", "touch '%[1]s'"], "envFile": %[2]q, "env": {"V": "${env:A_VARIABLE}"}},
		"file": {"command": "x", "args": ["${file:%[2]s}"]},
		"web": {"url": "http://%[3]s/mcp", "headers": {"X-V": "${env:A_VARIABLE}"}}
	}}`, ran, file, listener.Addr())
	from := filepath.Join(dir, "mcp_config.json")
	if err := os.WriteFile(from, []byte(text), 0o400); err != nil {
		t.Fatal(err)
	}
	for _, client := range []Client{Windsurf, Cursor, VSCode} {
		opts := forTests
		opts.Client = client
		im, err := ReadFile(from, opts)
		if err != nil {
			t.Fatal(err)
		}
		target := target(t)
		m, err := Merge(im, target)
		if err != nil {
			t.Fatal(err)
		}
		if written, _, err := m.Apply(); err != nil || !written {
			t.Fatal(written, err)
		}
		written, err := os.ReadFile(target.File)
		if err != nil || !strings.Contains(string(written), "A_VARIABLE") {
			t.Errorf("%s: %v\n%s", client, err, written)
		}
		if all := string(written) + fmt.Sprint(im.Notes); strings.Contains(all, "of-the-") {
			t.Errorf("%s: it holds what a variable or a file does:\n%s", client, all)
		}
	}
	if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command was run: %v", err)
	}
	// A connection would wait to be accepted.
	if err := tcp.SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := tcp.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("something was connected to: %v", err)
	}
	if now, err := os.ReadFile(from); err != nil || string(now) != text {
		t.Errorf("the client's file: %v\n%s", err, now)
	}
}
