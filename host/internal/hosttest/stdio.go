package hosttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Stdio is a client of a command, over its standard streams.
type Stdio struct {
	box
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}
	once  sync.Once

	mu      sync.Mutex
	lastID  int
	pending map[string]*pending
}

type pending struct {
	notes []Message
	done  chan Reply
}

// StartStdio starts cmd and reads what it says until it ends.
func StartStdio(t testing.TB, cmd *exec.Cmd) *Stdio {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &Stdio{cmd: cmd, in: in, ended: make(chan struct{}), pending: map[string]*pending{}}
	Start(t, cmd)
	go func() {
		defer close(c.ended)
		for lines := bufio.NewReaderSize(out, 1<<20); ; {
			line, err := lines.ReadBytes('\n')
			if line = bytes.TrimSpace(line); len(line) > 0 {
				c.take(t, parse(t, line))
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

func (c *Stdio) take(t testing.TB, m Message) {
	switch {
	case m.Method != "" && m.ID != nil: // a request from the server; we declared nothing
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		if m.Method == "ping" {
			answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		}
		c.WriteLine(t, answer)
	case m.Method != "":
		c.mu.Lock()
		p := c.pending[progressToken(m)]
		if p != nil {
			p.notes = append(p.notes, m)
		}
		c.mu.Unlock()
		if p == nil {
			c.put(m)
		}
	default:
		c.mu.Lock()
		p := c.pending[string(m.ID)]
		delete(c.pending, string(m.ID))
		c.mu.Unlock()
		if p == nil {
			t.Errorf("an answer nobody waits for: %.200s", m.Raw)
			return
		}
		p.done <- Reply{m, p.notes}
	}
}

func progressToken(m Message) string {
	var p struct {
		ProgressToken json.RawMessage `json:"progressToken"`
	}
	if m.Method != "notifications/progress" || json.Unmarshal(m.Params, &p) != nil {
		return ""
	}
	return string(p.ProgressToken)
}

// WriteLine writes a line as it is, whatever it holds.
func (c *Stdio) WriteLine(t testing.TB, line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Errorf("write to %s: %v", c.cmd.Path, err)
	}
}

// expect registers a request of the next id.
func (c *Stdio) expect() (id int, p *pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	p = &pending{done: make(chan Reply, 1)}
	c.pending[fmt.Sprint(c.lastID)] = p
	return c.lastID, p
}

// Request implements Client.
func (c *Stdio) Request(t testing.TB, method, params string) Reply {
	t.Helper()
	id, p := c.expect()
	return c.send(t, p, method, Envelope(id, method, token(params, id)))
}

// Raw sends a line that holds the text $ID where the request's id belongs, and
// waits for the answer with that id.
func (c *Stdio) Raw(t testing.TB, line string) Reply {
	t.Helper()
	id, p := c.expect()
	return c.send(t, p, line, withID(line, id))
}

func (c *Stdio) send(t testing.TB, p *pending, what, line string) Reply {
	t.Helper()
	c.WriteLine(t, line)
	select {
	case r := <-p.done:
		return r
	case <-c.ended:
		select {
		case r := <-p.done: // the last thing it said
			return r
		default:
		}
		t.Errorf("%s: the output ended before the answer", what)
	case <-time.After(CallLimit):
		t.Errorf("%s: no answer within %v", what, CallLimit)
	}
	return Reply{Message: Message{Error: json.RawMessage(`"no answer"`)}}
}

// Notify implements Client.
func (c *Stdio) Notify(t testing.TB, method, params string) {
	c.WriteLine(t, Envelope(0, method, params))
}

// Close ends the input, which ends a well-behaved server, and waits for its end.
func (c *Stdio) Close(t testing.TB) {
	t.Helper()
	c.once.Do(func() {
		_ = c.in.Close()
		select {
		case <-c.ended:
		case <-time.After(StopLimit):
			t.Errorf("%s still runs %v after the end of its input", c.cmd.Path, StopLimit)
			_ = c.cmd.Process.Signal(syscall.SIGKILL)
			<-c.ended
		}
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", c.cmd.Path, err)
		}
	})
}
