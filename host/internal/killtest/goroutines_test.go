//go:build linux

package killtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// overlay is the argument of go build that puts testdata/goroutines.go into the
// host, so that a host that lives on can be asked for its goroutines.
func overlay(dir string) (string, error) {
	command, err := filepath.Abs("../../cmd/drawbridge/killtest_goroutines.go")
	if err != nil {
		return "", err
	}
	source, err := filepath.Abs("testdata/goroutines.go")
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{command: source}})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return "-overlay=" + path, os.WriteFile(path, text, 0o600)
}

var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ `)

// The face keeps goroutines that have served requests for the next ones; how many
// depends on how many came at once, up to a limit.
const (
	requestWorker  = "(*stdioClient).takeRequest.func1"
	requestWorkers = 64
)

// whose is what a goroutine does, by the outermost function on its stack.
func whose(block string) string {
	name := ""
	for line := range strings.Lines(block) {
		if strings.HasPrefix(line, "created by ") {
			return name
		}
		if end := strings.LastIndexByte(line, '('); end > 0 && !goroutine.MatchString(line) && line[0] != '\t' && !strings.HasPrefix(line, "runtime.") && !strings.HasPrefix(line, "sync.") {
			name = line[:end]
		}
	}
	return "" // the first
}

// goroutines counts the goroutines of a host by what they do. The runtime's own are
// none of them: they come and go with the collection of garbage.
func (h *host) goroutines(t *testing.T, p place) map[string]int {
	t.Helper()
	path := p.path(fmt.Sprintf("goroutines.%d", h.pid()))
	_ = os.Remove(path)
	if err := h.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	var text []byte
	eventually(t, "the goroutines", func() bool {
		var err error
		text, err = os.ReadFile(path)
		return err == nil
	})
	found := map[string]int{}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		if name := whose(block); name != "" && goroutine.MatchString(block) {
			found[name]++
		}
	}
	if len(found) < 3 {
		t.Errorf("the host has the goroutines %v:\n%s", found, text)
	}
	return found
}

// gained waits until a host has no more goroutines of a kind than before, and names
// those of which it has.
func (h *host) gained(t *testing.T, p place, before map[string]int) (more []string) {
	t.Helper()
	within(orphanLimit, func() bool {
		more = more[:0]
		for of, n := range h.goroutines(t, p) {
			if n > before[of] && !(strings.HasSuffix(of, requestWorker) && n <= requestWorkers) {
				more = append(more, fmt.Sprintf("%s: %d, and now %d", of, before[of], n))
			}
		}
		return len(more) == 0
	})
	slices.Sort(more)
	return more
}
