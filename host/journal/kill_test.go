package journal

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// writerEnv has the test binary act as a host that writes calls into a folder.
const writerEnv = "JOURNAL_TEST_WRITES_IN"

const writers = 8

// writes journals calls until it is killed, and says the id of each after its end is
// written. Its files are small, so that it changes them often.
func writes(dir string) int {
	j, err := Open(Options{Dir: dir, HostID: testHost})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	j.segment = 8 << 10
	var mu sync.Mutex // one line at a time
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for {
				e := entry(j)
				if j.Begin(e) != nil || j.End(e, good) != nil {
					return
				}
				mu.Lock()
				fmt.Println(e.ID)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return 1
}

// TestKilled kills a host that writes, at any moment: each call whose end it had
// written is ok, no row is open, and no more are unknown than were in flight.
func TestKilled(t *testing.T) {
	for round := range 10 {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		must(t, err, cmd.Start())
		told := map[string]bool{}
		in := bufio.NewScanner(out)
		for in.Scan() {
			if id := in.Text(); strings.HasPrefix(id, testHost[:idDigits]) {
				told[id] = true
			}
			if len(told) == 200+round*37 {
				must(t, cmd.Process.Kill())
			}
		}
		if err := cmd.Wait(); err == nil || len(told) < 200 {
			t.Fatalf("the writer ended with %v after %d calls", err, len(told))
		}
		x := index(t, IndexOptions{Dir: dir, Dead: deadSet(testHost)})
		unknown := 0
		for _, row := range calls(t, x, Filter{}) {
			switch {
			case row.Outcome == "unknown" && !told[row.ID]:
				unknown++
			case row.Outcome != "ok":
				t.Errorf("round %d: %s is %q (%s)", round, row.ID, row.Outcome, row.Reason)
			}
			delete(told, row.ID)
		}
		if len(told) != 0 || unknown > writers {
			t.Errorf("round %d: %d calls are missing, %d unknown; want none, and %d at most", round, len(told), unknown, writers)
		}
		must(t, x.Close())
	}
}
