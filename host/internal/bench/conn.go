package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// answerLimit bounds one call; what takes longer is broken, not slow.
const answerLimit = time.Minute

var (
	errAnswer = errors.New("the answer is an error or not what was asked for")
	errEnded  = errors.New("the other side ended")
)

// conn is an open session. Calls of different slots may run concurrently.
type conn interface {
	// call sends one request and returns the length of its answer in bytes.
	call(slot int, method, params string) (int, error)
	notify(method string) error
	close() error
}

// slots is how many calls may be in flight: one for each caller.
const slots = 64

const initialize = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1.0.0"}}`

// handshake opens the MCP session.
func handshake(c conn) error {
	if _, err := c.call(0, "initialize", initialize); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	return c.notify("notifications/initialized")
}

// request is the one way in which both clients write a request.
func request(id int, method, params string) []byte {
	b := make([]byte, 0, 64+len(method)+len(params))
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, int64(id), 10)
	b = append(b, `,"method":"`...)
	b = append(b, method...)
	b = append(b, `","params":`...)
	b = append(b, params...)
	return append(b, '}')
}

func notification(method string) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"` + method + `"}`)
}

// edge is how much of an answer's beginning and end the clients look at.
const edge = 128

// idOf finds the id of an answer. It stands at the beginning or the end, where
// no argument of ours can be mistaken for it.
func idOf(answer []byte) int {
	const key = `"id":`
	at := bytes.Index(answer[:min(edge, len(answer))], []byte(key))
	if at < 0 {
		from := max(0, len(answer)-edge)
		if at = bytes.LastIndex(answer[from:], []byte(key)); at < 0 {
			return -1
		}
		at += from
	}
	digits := answer[at+len(key):]
	end := 0
	for end < len(digits) && digits[end] >= '0' && digits[end] <= '9' {
		end++
	}
	id, err := strconv.Atoi(string(digits[:end]))
	if err != nil {
		return -1
	}
	return id
}

// good says whether an answer is a result that is no tool error.
func good(answer []byte) bool {
	head, tail := answer[:min(edge, len(answer))], answer[max(0, len(answer)-edge):]
	return !bytes.Contains(head, []byte(`"error":`)) && !bytes.Contains(tail, []byte(`"error":`)) &&
		!bytes.Contains(tail, []byte(`"isError":true`))
}

// stdioConn speaks to a process over its pipes.
type stdioConn struct {
	proc *process
	mu   sync.Mutex // the writer's
	in   io.WriteCloser
	// waiting holds one channel a slot; ids are slot + n*slots.
	waiting [slots]chan answer
	turn    [slots]int
	ended   chan struct{}
}

type answer struct {
	id, size int
	ok       bool
}

func openStdio(proc *process) (*stdioConn, error) {
	c := &stdioConn{proc: proc, in: proc.in, ended: make(chan struct{})}
	for i := range c.waiting {
		c.waiting[i] = make(chan answer, 1)
	}
	go c.read(proc.out)
	if err := handshake(c); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// read hands each answer's end to its slot and keeps nothing.
func (c *stdioConn) read(out io.Reader) {
	defer close(c.ended)
	lines := bufio.NewReaderSize(out, 1<<16)
	var long []byte
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			continue
		}
		if err != nil {
			return
		}
		if len(long) > 0 {
			long = append(long, line...)
			line = long
		}
		if id := idOf(line); id >= 0 {
			c.waiting[id%slots] <- answer{id, len(line), good(line)}
		}
		long = long[:0]
	}
}

func (c *stdioConn) write(text []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.in.Write(append(text, '\n'))
	return err
}

func (c *stdioConn) call(slot int, method, params string) (int, error) {
	c.turn[slot]++
	id := slot + slots*c.turn[slot]
	if err := c.write(request(id, method, params)); err != nil {
		return 0, err
	}
	select {
	case a := <-c.waiting[slot]:
		if a.id != id || !a.ok {
			return 0, errAnswer
		}
		return a.size, nil
	case <-c.ended:
		return 0, errEnded
	}
}

func (c *stdioConn) notify(method string) error { return c.write(notification(method)) }

func (c *stdioConn) close() error {
	err := c.proc.stop()
	<-c.ended
	return err
}

// callTool calls a tool; every caller builds its params once.
func callTool(name, arguments string) string {
	return `{"name":"` + name + `","arguments":` + arguments + `}`
}

// echoText is what echo carries: a sentence, as most calls do.
var echoText = `{"text":"` + strings.Repeat("a gate, not a tunnel ", 5) + `"}`
