package supervise

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// The steps of the ladder after the server's own grace.
const (
	// leastGrace is what a server has to end by itself once its input is closed, also
	// where the calls in flight have used up stop_grace.
	leastGrace = 500 * time.Millisecond
	// stopSlack is what a plugin needs beyond the grace: SIGTERM, half a second,
	// SIGKILL, the proof that the tree is empty, and the answer.
	stopSlack = 2 * time.Second
	// shutdownBudget bounds go-plugin's Shutdown, which a plugin answers by
	// closing the connection.
	shutdownBudget = 500 * time.Millisecond
	// exitBudget is for a plugin that answered, to end by itself.
	exitBudget = 2 * time.Second
	// wedgedBudget is for one that did not.
	wedgedBudget = 500 * time.Millisecond
)

// errHurry ends the waits of a ladder.
var errHurry = errors.New("no more time")

// Stop runs the ladder: the Stop RPC, in which the plugin gives the server grace
// to end by itself; go-plugin's Shutdown; the end of the lifeline; SIGKILL for the
// tree. It returns when the process and all it started is gone, and says how the
// server ended, or the plugin where the server's end is not known. When ctx ends
// it goes to the last step at once. Stop may be called any number of times; there
// is one ladder, with the first grace.
func (p *Process) Stop(ctx context.Context, grace time.Duration) provider.ExitStatus {
	p.stop(grace) //nolint:contextcheck // the ladder is of all who ask, and hurry ends its waits
	select {
	case <-p.done:
	case <-ctx.Done():
		p.hurrying.Do(func() { close(p.hurry) })
		<-p.done
	}
	return p.ended()
}

// stop starts the ladder. Its goroutine has ended when done is closed, or soon
// after.
func (p *Process) stop(grace time.Duration) {
	p.stopping.Do(func() { go p.ladder(grace) })
}

func (p *Process) ladder(grace time.Duration) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case <-p.hurry:
			p.tree.Kill()
			cancel(errHurry)
		case <-p.done:
			cancel(nil)
		case <-ctx.Done():
		}
	}()

	select {
	case <-p.done:
		return
	default:
	}
	budget := exitBudget
	asked, cancelAsked := context.WithTimeout(ctx, grace+stopSlack)
	_, err := p.remote.Stop(asked, provider.StopRequest{Grace: grace})
	if err != nil && asked.Err() != nil {
		budget = wedgedBudget
	} else {
		p.shutdown(ctx)
	}
	cancelAsked()
	p.tree.Release()
	p.within(budget)
	p.tree.Kill()
	<-p.done
}

// within waits for the end of the process, not longer than d or until hurry.
func (p *Process) within(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.done:
	case <-p.hurry:
	case <-t.C:
	}
}

// shutdown asks go-plugin's server in the plugin to stop. It is what
// plugin.Client's Kill does first, and there without a bound.
func (p *Process) shutdown(ctx context.Context) {
	if p.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownBudget)
	defer cancel()
	// The answer may be the end of the connection, or that there is no such method.
	_ = p.conn.Invoke(ctx, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
}

// invoker is the part of a connection that shutdown needs.
type invoker interface {
	Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error
}
