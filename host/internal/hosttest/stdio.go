package hosttest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

// Stdio is a client of a command, over its standard streams.
type Stdio struct {
	box
	*Run
	in   io.WriteCloser
	once sync.Once

	mu      sync.Mutex
	lastID  int
	pending []*Pending
	strays  bool
}

// Pending is an answer that is waited for.
type Pending struct {
	c         *Stdio
	what      string
	id, token string
	notes     []Message
	done      chan Reply
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
	c := &Stdio{Run: start(t, cmd), in: in}
	go func() {
		defer c.finish()
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
		p := c.find(func(p *Pending) bool { return p.token != "" && p.token == progressToken(m) })
		if p != nil {
			p.notes = append(p.notes, m)
		}
		c.mu.Unlock()
		if p == nil {
			c.put(m)
		}
	default:
		c.mu.Lock()
		p := c.find(func(p *Pending) bool { return p.id == string(m.ID) })
		c.pending = slices.DeleteFunc(c.pending, func(one *Pending) bool { return one == p })
		c.mu.Unlock()
		if p == nil {
			c.stray(t, m)
			return
		}
		p.done <- Reply{m, p.notes}
	}
}

// AllowStrays keeps answers that nobody waits for, for Heard. Without it they fail
// the test.
func (c *Stdio) AllowStrays() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.strays = true
}

func (c *Stdio) stray(t testing.TB, m Message) {
	c.mu.Lock()
	allowed := c.strays
	c.mu.Unlock()
	if !allowed {
		t.Errorf("an answer nobody waits for: %.200s", m.Raw)
		return
	}
	c.put(m)
}

// find returns the first of those that wait, in the order they began to.
func (c *Stdio) find(is func(*Pending) bool) *Pending {
	if i := slices.IndexFunc(c.pending, is); i >= 0 {
		return c.pending[i]
	}
	return nil
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

// Expect makes ready for the answer to a message that the test writes by itself:
// the literal of its id, "null" for none, and that of its progress token, "" for
// none. Of several with one id, the first takes the first answer.
func (c *Stdio) Expect(id, token string) *Pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &Pending{c: c, what: "the message with id " + id, id: id, token: token, done: make(chan Reply, 1)}
	c.pending = append(c.pending, p)
	return p
}

// next makes ready for the answer to a request of the next id.
func (c *Stdio) next(what string) (id int, p *Pending) {
	c.mu.Lock()
	c.lastID++
	id = c.lastID
	c.mu.Unlock()
	p = c.Expect(fmt.Sprint(id), fmt.Sprint(id))
	p.what = what
	return id, p
}

// Request implements Client.
func (c *Stdio) Request(t testing.TB, method, params string) Reply {
	t.Helper()
	id, p := c.next(method)
	c.WriteLine(t, Envelope(id, method, token(params, id)))
	return p.Wait(t)
}

// Raw sends a line that holds the text $ID where the request's id belongs, and
// waits for the answer with that id.
func (c *Stdio) Raw(t testing.TB, line string) Reply {
	t.Helper()
	id, p := c.next(line)
	c.WriteLine(t, withID(line, id))
	return p.Wait(t)
}

// Wait waits for the answer.
func (p *Pending) Wait(t testing.TB) Reply {
	t.Helper()
	select {
	case r := <-p.done:
		return r
	case <-p.c.ended:
		select {
		case r := <-p.done: // the last thing it said
			return r
		default:
		}
		t.Errorf("%.80s: the output ended before the answer", p.what)
	case <-time.After(CallLimit):
		t.Errorf("%.80s: no answer within %v", p.what, CallLimit)
	}
	return Reply{Message: Message{Error: json.RawMessage(`"no answer"`)}}
}

// Answered says whether the answer is there.
func (p *Pending) Answered() bool { return len(p.done) > 0 }

// Notify implements Client.
func (c *Stdio) Notify(t testing.TB, method, params string) {
	c.WriteLine(t, Envelope(0, method, params))
}

// Close ends the input, which ends a well-behaved server, and waits for its end.
func (c *Stdio) Close(t testing.TB) {
	t.Helper()
	c.once.Do(func() {
		_ = c.in.Close()
		if err := c.Wait(t); err != nil {
			t.Errorf("%s ended with %v", c.cmd.Path, err)
		}
	})
}
