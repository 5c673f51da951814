package provider

import (
	"context"
	"io"

	"google.golang.org/grpc"

	"github.com/drawbridge-mcp/drawbridge/shared/providerpb"
)

// client is the Remote of a connection to a plugin.
type client struct {
	rpc   providerpb.ProviderClient
	codec grpc.CallOption
}

// NewRemote speaks to the plugin at the other end of a connection, which was
// made with DialOptions and stays the caller's.
func NewRemote(cc grpc.ClientConnInterface) Remote {
	return &client{rpc: providerpb.NewProviderClient(cc), codec: grpc.ForceCodecV2(newFrameCodec())}
}

func (c *client) Describe(ctx context.Context) (Description, error) {
	d, err := c.rpc.Describe(ctx, &providerpb.DescribeRequest{})
	if err != nil {
		return Description{}, fromStatus(err)
	}
	return descriptionFromProto(d), nil
}

func (c *client) Validate(ctx context.Context, config Config) (Diagnostics, error) {
	r, err := c.rpc.Validate(ctx, configToValidate(config))
	if err != nil {
		return nil, fromStatus(err)
	}
	return diagnosticsFromProto(r.GetDiagnostics())
}

func (c *client) Start(ctx context.Context, req StartRequest) (Diagnostics, error) {
	r, err := c.rpc.Start(ctx, startToProto(req))
	if err != nil {
		return nil, fromStatus(err)
	}
	return diagnosticsFromProto(r.GetDiagnostics())
}

func (c *client) Stop(ctx context.Context, req StopRequest) (ExitStatus, error) {
	r, err := c.rpc.Stop(ctx, stopToProto(req))
	if err != nil {
		return ExitStatus{}, fromStatus(err)
	}
	return exitFromProto(r.GetStatus()), nil
}

func (c *client) Exchange(ctx context.Context) (HostConn, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.rpc.Exchange(ctx, c.codec)
	if err != nil {
		cancel()
		return nil, fromStatus(err)
	}
	return &hostConn{stream: stream, cancel: cancel}, nil
}

// hostConn is the host's end of one exchange.
type hostConn struct {
	stream grpc.BidiStreamingClient[providerpb.HostFrame, providerpb.PluginFrame]
	// cancel ends the stream; gRPC frees it then, or when Recv returns an error.
	cancel context.CancelFunc

	// of Recv's one goroutine
	in     framing
	exited bool
	ended  error
}

// Send refuses a chunk over MaxChunk before anything of it is sent. io.EOF means
// that the plugin has ended the stream; Recv says why.
func (c *hostConn) Send(f Frame) error {
	if len(f.Data) > MaxChunk {
		return &FramingError{Seq: f.Seq, Reason: "chunk over the contract's limit"}
	}
	return fromStatus(c.stream.Send(frameToProto(f)))
}

// Recv refuses an event that breaks a rule, and ends the stream.
func (c *hostConn) Recv() (Event, error) {
	if c.ended != nil {
		return nil, c.ended
	}
	e, err := c.recv()
	if err != nil {
		c.ended = err
		c.cancel()
		return nil, err
	}
	return e, nil
}

func (c *hostConn) recv() (Event, error) {
	m, err := c.stream.Recv()
	if err != nil {
		if c.exited {
			// The server's end is the last word, however the stream ended after it.
			return nil, io.EOF
		}
		return nil, fromStatus(err)
	}
	e, err := eventFromProto(m)
	if err != nil {
		return nil, err
	}
	if c.exited {
		return nil, &FramingError{Reason: "an event after the end of the server"}
	}
	if err := c.in.event(e); err != nil {
		return nil, err
	}
	_, c.exited = e.(Exited)
	return e, nil
}
