package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// ErrRevision ends a session that the next host cannot go on with.
var ErrRevision = errors.New("the next host does not speak the session's protocol revision; start the client again")

const (
	// waitForHost is how long a request waits for the next host once one is gone, or
	// for the first one. It is longer than a service manager takes to restart one, and
	// shorter than clients wait for a server that starts.
	waitForHost = 5 * time.Second
	// retryEvery is the pause between looks for a host while a request waits, lookEvery
	// while none does. A look reads a folder.
	retryEvery = 100 * time.Millisecond
	lookEvery  = time.Second
	// farewell is how long a client's last messages, and the host's last answers, have
	// once its input has ended.
	farewell = 2 * time.Second
	// stuckGrace is how long what has to end by itself may take.
	stuckGrace = time.Second
	// ahead is how many messages are read of a client whose host takes none yet.
	ahead = 64
	// maxMessage bounds a client's message in bytes: it is kept in a file until it is
	// whole. What a host takes is for the host to say.
	maxMessage = 1 << 30
)

// Stream is the connection to a host.
type Stream interface {
	io.ReadWriteCloser
	// CloseWrite says that nothing more will be written.
	CloseWrite() error
}

// How says how a session is to be opened.
type How struct {
	// Start says that a host may be started where none runs.
	Start bool
	// Again says that the session goes on with one that was had with another host.
	Again bool
}

// Options is what a bridge is made of.
type Options struct {
	// In and Out are the client's: one message a line. With deadlines, such as those of
	// a pipe that the runtime polls, neither outlives Run.
	In  io.Reader
	Out io.Writer
	// Dial opens a session with a host. Its error is what people and clients read, and says what to do.
	Dial func(ctx context.Context, how How) (Stream, error)
	// Passing says of an error of Dial whether it may pass by itself, so that a request
	// waits a while. nil: none does.
	Passing func(error) bool
	// SpoolDir is where large messages are kept in unlinked files.
	SpoolDir string
	Logger   *slog.Logger
	// Wait replaces how long a request waits for a host, for tests; 0 leaves it.
	Wait time.Duration
}

// bridge is owned by the goroutine of Run; ledger and output are shared with the
// readers of links.
type bridge struct {
	Options
	out    *output
	ledger ledger
	// alive ends with the session: soon after the client's input has ended.
	alive context.Context
	end   context.CancelFunc
	// link is nil while there is no host; since then, downSince.
	link      *link
	downSince time.Time
	// told is the last reason why there is no host that was logged.
	told string
	// links counts them: how often the session has had a host.
	links   int
	readers sync.WaitGroup
}

// read is what was read of the client: a message, or why it is none.
type read struct {
	m   *rpc.Message
	err error
}

// Run carries a client's session until its input ends or ctx does, which is no error.
// It returns an error when the client cannot be read from or written to, and ErrRevision.
func Run(ctx context.Context, opts Options) error {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Passing == nil {
		opts.Passing = func(error) bool { return false }
	}
	if opts.Wait == 0 {
		opts.Wait = waitForHost
	}
	b := &bridge{Options: opts, out: newOutput(opts.Out), downSince: time.Now()}
	b.alive, b.end = context.WithCancel(ctx)
	defer b.end()
	// What is carried may be held up by a write to a client that reads nothing.
	defer context.AfterFunc(b.alive, b.out.interrupt)() //nolint:contextcheck // alive is of ctx
	queue := make(chan read, ahead)
	done := make(chan error, 1)
	go func() {
		defer close(queue)
		done <- b.readClient(queue)
		time.AfterFunc(farewell, b.end)
	}()
	err := b.carry(queue)
	b.end()
	if b.link != nil {
		_ = b.link.stream.Close()
	}
	b.out.interrupt()
	b.await()
	if interruptRead(opts.In) {
		for r := range queue { // so that the reader can hand over what it holds
			r.close()
		}
		if was := <-done; err == nil && was != nil && ctx.Err() == nil && !b.out.broken() {
			err = was
		}
	}
	return err
}

// await waits for the readers of links. One that hangs in a write to the client, which
// nothing can interrupt, is left to the end of the process.
func (b *bridge) await() {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.readers.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(stuckGrace):
		b.Logger.Warn("a write to the client hangs and cannot be interrupted")
	}
}

func (r read) close() {
	if r.m != nil {
		_ = r.m.Close()
	}
}

// readClient reads the client to its end.
func (b *bridge) readClient(queue chan<- read) error {
	asm := rpc.NewAssembler(rpc.FromClient, b.SpoolDir, maxMessage)
	return rpc.ReadLines(b.In, asm, func(m *rpc.Message, err error) {
		select {
		case queue <- read{m, err}:
		case <-b.alive.Done():
			read{m: m}.close()
		}
	})
}

// carry is the loop: what the client says goes to the host that there is.
func (b *bridge) carry(queue <-chan read) error {
	_ = b.attach(true) // what is wrong the first request is told
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		var lost <-chan struct{}
		var looked <-chan time.Time
		if b.link != nil {
			lost = b.link.lost
		} else {
			looked = look.C
		}
		var err error
		select {
		case r, more := <-queue:
			if !more {
				b.leave()
				return nil
			}
			err = b.take(r)
		case <-lost:
			err = b.drop(nil)
		case <-looked:
			err = b.attach(false)
		case <-b.out.lost:
			if b.alive.Err() != nil {
				return nil // it was cut
			}
			return fmt.Errorf("the client cannot be written to: %w", b.out.why)
		case <-b.alive.Done():
			return nil
		}
		if errors.Is(err, ErrRevision) {
			return err
		}
	}
}

// leave lets the host end the session, so that what it still says arrives.
func (b *bridge) leave() {
	if b.link == nil {
		return
	}
	b.ledger.close() // nobody waits for answers any more
	_ = b.link.stream.CloseWrite()
	select {
	case <-b.link.lost:
	case <-b.alive.Done():
	}
}

// take carries one message of the client's, or refuses it. The error is that of the
// session.
func (b *bridge) take(r read) error {
	if r.err != nil {
		b.refuseLine(r.err)
		return nil
	}
	m := r.m
	switch m.Kind {
	case rpc.Request:
		return b.request(m)
	case rpc.Notification:
		b.ledger.noted(m)
	default:
	}
	defer r.close()
	if b.link == nil {
		return nil // whom it was for is gone
	}
	if p, ok := b.link.outward(m); ok {
		b.link.send(p)
	}
	return nil
}

// request carries a request to a host, which is found or started for it, or answers it.
func (b *bridge) request(m *rpc.Message) error {
	kept := b.ledger.remember(m)
	defer func() {
		if !kept {
			_ = m.Close()
		}
	}()
	for {
		if err := b.connected(); err != nil {
			if b.alive.Err() == nil {
				_ = b.out.Answer(rpc.NewFailure(m.ID, noHost(err)))
			}
			if kept {
				kept = b.ledger.forget(m)
			}
			return err
		}
		if b.ledger.begin(b.link, m) {
			b.link.send(m.Payload())
			return nil
		}
		if err := b.drop(m); err != nil { // it is gone already, and has got nothing of this
			return err
		}
	}
}

// connected returns when there is a host, or with why there is none: at once where
// waiting does not help or has been tried.
func (b *bridge) connected() error {
	for {
		if b.link != nil {
			return nil
		}
		err := b.attach(true)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrRevision), b.alive.Err() != nil, !b.Passing(err), time.Since(b.downSince) >= b.Wait:
			return err
		}
		select {
		case <-time.After(retryEvery):
		case <-b.alive.Done():
			return b.alive.Err()
		}
	}
}

// drop gives up a link that is lost. An `initialize` that it left without an answer
// goes to the next host, unless it is the message that is being carried.
func (b *bridge) drop(carried *rpc.Message) error {
	<-b.link.lost
	b.Logger.Warn("the host is gone", "why", b.link.why())
	b.link, b.downSince, b.told = nil, time.Now(), ""
	if m := b.ledger.unanswered(); m != nil && m != carried {
		return b.request(m)
	}
	return nil
}

// refuseLine answers what is no message, as a host would.
func (b *bridge) refuseLine(err error) {
	var own *rpc.Error
	if !errors.As(err, &own) {
		own = &rpc.Error{Code: rpc.CodeInternal, Message: "internal error: " + err.Error()}
	}
	if !own.Response { // to which nobody waits for an answer
		_ = b.out.Answer(rpc.NewFailure(own.ID, own))
	}
}

// interruptRead ends a read that may be under way, and says whether it could.
func interruptRead(in io.Reader) bool {
	d, ok := in.(interface{ SetReadDeadline(time.Time) error })
	return ok && d.SetReadDeadline(time.Unix(1, 0)) == nil
}
