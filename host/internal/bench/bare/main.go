// Command bare is what a host with a plugin hop cannot cost less than: a gateway
// that gives requests ids of its own, carries them over one gRPC stream to a
// second process, and does nothing else. It knows one server, trusts every byte
// and survives no fault.
//
//	bare stdio|ADDR COMMAND ARG…
//
// The benchmark measures it beside the host, for a ratio to the bare server says
// as much about how lean that server is as about the host.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

func main() {
	encoding.RegisterCodecV2(codec{})
	run := gateway
	if len(os.Args) > 3 && os.Args[1] == "plugin" {
		run = plugin
	}
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: bare stdio|ADDR COMMAND ARG...")
		os.Exit(2)
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1)
	}
}

const (
	stream  = "/bare/Carry"
	maxSize = 64 << 20
	// streamWindow and connWindow are those of the host's own connections.
	streamWindow, connWindow = 4 << 20, 8 << 20
)

// codec carries messages as the bytes they are.
type codec struct{}

func (codec) Name() string { return "bare" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("no bytes but %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("no bytes but %T", v)
	}
	*b = data.Materialize()
	return nil
}

// carrier is the stream with the calls that wait on it.
type carrier struct {
	stream grpc.ClientStream
	mu     sync.Mutex // of the stream's sender, last and waiting
	last   int
	// waiting holds what is to happen with the answer to one of our ids.
	waiting map[int]func(answer []byte)
}

// call sends a message under an id of ours, and answer gets what comes back,
// under the id it came with. What has no id is sent as it is.
func (c *carrier) call(message []byte, answer func([]byte)) error {
	at, end := idAt(message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if at < 0 {
		return c.stream.SendMsg(&message)
	}
	id := bytes.Clone(message[at:end])
	c.last++
	c.waiting[c.last] = func(back []byte) {
		if at, end := idAt(back); at >= 0 {
			back = splice(back, at, end, id)
		}
		answer(back)
	}
	out := splice(message, at, end, strconv.AppendInt(nil, int64(c.last), 10))
	return c.stream.SendMsg(&out)
}

func (c *carrier) read() error {
	for {
		var message []byte
		if err := c.stream.RecvMsg(&message); err != nil {
			return err
		}
		at, end := idAt(message)
		if at < 0 {
			continue
		}
		id, err := strconv.Atoi(string(message[at:end]))
		if err != nil {
			continue
		}
		c.mu.Lock()
		answer := c.waiting[id]
		delete(c.waiting, id)
		c.mu.Unlock()
		if answer != nil {
			answer(message)
		}
	}
}

// idAt finds the id near a message's beginning, where our server and clients put it.
func idAt(message []byte) (at, end int) {
	const key, edge = `"id":`, 128
	at = bytes.Index(message[:min(edge, len(message))], []byte(key))
	if at < 0 {
		return -1, -1
	}
	at += len(key)
	for end = at; end < len(message) && message[end] >= '0' && message[end] <= '9'; end++ {
	}
	return at, end
}

func splice(message []byte, at, end int, with []byte) []byte {
	out := make([]byte, 0, len(message)-(end-at)+len(with)+1)
	out = append(out, message[:at]...)
	out = append(out, with...)
	return append(out, message[end:]...)
}

// gateway starts the second process and serves until its input ends.
func gateway(args []string) error {
	dir, err := os.MkdirTemp("", "bare")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "s")
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, append([]string{"plugin", socket}, args[1:]...)...)
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = lifeline.Close(); _ = cmd.Wait() }()
	conn, err := grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true), grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(maxSize), grpc.MaxCallSendMsgSize(maxSize)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for { // until it listens
		if c, err := net.Dial("unix", socket); err == nil {
			_ = c.Close()
			break
		}
		time.Sleep(time.Millisecond)
	}
	s, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, stream)
	if err != nil {
		return err
	}
	c := &carrier{stream: s, waiting: map[int]func([]byte){}}
	go func() { _ = c.read() }()
	if args[0] == "stdio" {
		return c.serveStdio()
	}
	return c.serveHTTP(args[0])
}

func (c *carrier) serveStdio() error {
	write := func(answer []byte) { _, _ = os.Stdout.Write(append(answer, '\n')) }
	for lines := bufio.NewReaderSize(os.Stdin, 1<<16); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.call(bytes.TrimSpace(line), write); err != nil {
			return err
		}
	}
}

func (c *carrier) serveHTTP(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if at, _ := idAt(body); at < 0 {
			_ = c.call(body, nil)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		answer := make(chan []byte, 1)
		if err := c.call(body, func(b []byte) { answer <- b }); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(<-answer)
	})}
	go func() { // as over stdio, a parent that goes takes it along
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// plugin is the second process: it owns the server.
func plugin(args []string) error {
	listener, err := net.Listen("unix", args[1])
	if err != nil {
		return err
	}
	cmd := exec.Command(args[2], args[3:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.MaxRecvMsgSize(maxSize), grpc.MaxSendMsgSize(maxSize),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "bare", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Carry", ClientStreams: true, ServerStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error { return carry(s, in, out) },
	}}}, struct{}{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = in.Close()
		_ = cmd.Wait()
		server.Stop()
	}()
	return server.Serve(listener)
}

func carry(s grpc.ServerStream, in io.Writer, out io.Reader) error {
	go func() {
		for lines := bufio.NewReaderSize(out, 1<<16); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			line = line[:len(line)-1]
			if err := s.SendMsg(&line); err != nil {
				return
			}
		}
	}()
	for {
		var message []byte
		if err := s.RecvMsg(&message); err != nil {
			return nil //nolint:nilerr // the gateway ended
		}
		if _, err := in.Write(append(message, '\n')); err != nil {
			return err
		}
	}
}
