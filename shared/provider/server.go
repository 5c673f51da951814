package provider

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/drawbridge-mcp/drawbridge/shared/providerpb"
)

// server puts a Provider on the wire. It holds the order of the contract, so
// that a Provider need not: Start once, Exchange once after it.
type server struct {
	providerpb.UnimplementedProviderServer

	impl Provider
	// begun is set by the first Start, started by its success, exchanged by the
	// first Exchange.
	begun, started, exchanged atomic.Bool
}

func newServer(p Provider) *server { return &server{impl: p} }

func (s *server) Describe(ctx context.Context, _ *providerpb.DescribeRequest) (*providerpb.DescribeResponse, error) {
	d, err := s.impl.Describe(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	return descriptionToProto(d), nil
}

func (s *server) Validate(ctx context.Context, r *providerpb.ValidateRequest) (*providerpb.ValidateResponse, error) {
	ds, err := s.impl.Validate(ctx, configFromValidate(r))
	if err != nil {
		return nil, toStatus(err)
	}
	found, err := diagnosticsToProto(ds)
	if err != nil {
		return nil, toStatus(err)
	}
	return &providerpb.ValidateResponse{Diagnostics: found}, nil
}

func (s *server) Start(ctx context.Context, r *providerpb.StartRequest) (*providerpb.StartResponse, error) {
	req, err := startFromProto(r)
	if err != nil {
		return nil, toStatus(err)
	}
	if !s.begun.CompareAndSwap(false, true) {
		return nil, status.Error(codes.FailedPrecondition, "start: this process has started its server already")
	}
	ds, err := s.impl.Start(ctx, req)
	if err != nil {
		return nil, toStatus(err)
	}
	found, err := diagnosticsToProto(ds)
	if err != nil {
		return nil, toStatus(err)
	}
	s.started.Store(!ds.HasErrors())
	return &providerpb.StartResponse{Diagnostics: found}, nil
}

func (s *server) Stop(ctx context.Context, r *providerpb.StopRequest) (*providerpb.StopResponse, error) {
	req, err := stopFromProto(r)
	if err != nil {
		return nil, toStatus(err)
	}
	st, err := s.impl.Stop(ctx, req)
	if err != nil {
		return nil, toStatus(err)
	}
	return &providerpb.StopResponse{Status: exitToProto(st)}, nil
}

func (s *server) Exchange(stream providerpb.Provider_ExchangeServer) error {
	if !s.started.Load() {
		return status.Error(codes.FailedPrecondition, "exchange: no server was started")
	}
	if !s.exchanged.CompareAndSwap(false, true) {
		return status.Error(codes.FailedPrecondition, "exchange: opened a second time")
	}
	// The host's side of the stream is settled from here on: gRPC keeps nothing
	// for a second try.
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	conn := &pluginConn{stream: stream, refuse: cancel}
	err := s.impl.Exchange(ctx, conn)
	if refused := conn.refused.Load(); refused != nil {
		return toStatus(*refused)
	}
	return toStatus(err)
}

// pluginConn is the Conn of one exchange.
type pluginConn struct {
	stream grpc.BidiStreamingServer[providerpb.HostFrame, providerpb.PluginFrame]
	// refuse ends the exchange's context after a frame that broke a rule.
	refuse context.CancelFunc

	// of Recv's one goroutine, which may still be in Recv when Exchange returns
	in    framing
	frame providerpb.HostFrame
	// refused is the broken rule that ended the stream.
	refused atomic.Pointer[error]

	sending sync.Mutex
}

// Recv refuses a frame that breaks a rule: the stream fails with
// INVALID_ARGUMENT and nothing of the frame is passed on.
func (c *pluginConn) Recv() (Frame, error) {
	if refused := c.refused.Load(); refused != nil {
		return Frame{}, *refused
	}
	if err := c.stream.RecvMsg(&c.frame); err != nil {
		return Frame{}, fromStatus(err)
	}
	f := frameFromProto(&c.frame)
	c.frame.Data = nil
	if err := c.in.frame(f); err != nil {
		c.refused.Store(&err)
		c.refuse()
		return Frame{}, err
	}
	return f, nil
}

// Send does not look for CR and LF, which the host does on receipt.
func (c *pluginConn) Send(e Event) error {
	if chunk, ok := e.(Chunk); ok && len(chunk.Data) > MaxChunk {
		return violation("chunk of %d bytes, at most %d", len(chunk.Data), MaxChunk)
	}
	frame, err := eventToProto(e)
	if err != nil {
		return err
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	return fromStatus(c.stream.Send(frame))
}
