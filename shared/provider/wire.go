package provider

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors of the wire, as a Remote returns them. A cancelled or expired context is
// context.Canceled or context.DeadlineExceeded.
var (
	// ErrUnauthenticated is a plugin's answer to a wrong token, or none.
	ErrUnauthenticated = errors.New("the plugin refused the token")
	// ErrGone says that the connection to the plugin is no more.
	ErrGone = errors.New("the plugin is gone")
)

// RemoteError is an error that a plugin answered with. It reads as the plugin's
// own words.
type RemoteError struct {
	Message string
	is      error
}

func (e *RemoteError) Error() string { return e.Message }

// Unwrap is one of this package's errors, a context's error, or nil.
func (e *RemoteError) Unwrap() error { return e.is }

// fromStatus turns what gRPC returned into an error of this package.
func fromStatus(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // gRPC returns it bare
		return err
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	out := &RemoteError{Message: st.Message()}
	switch st.Code() {
	case codes.Unauthenticated:
		out.is = ErrUnauthenticated
	case codes.Unavailable:
		out.is = ErrGone
	case codes.InvalidArgument:
		out.is = ErrContract
	case codes.Canceled:
		out.is = context.Canceled
	case codes.DeadlineExceeded:
		out.is = context.DeadlineExceeded
	case codes.ResourceExhausted:
		// gRPC's own text names a number and no reason.
		out.Message = fmt.Sprintf("a message to or from the plugin is over the contract's %d bytes", MaxWire)
		out.is = ErrContract
	case codes.OK, codes.Unknown, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.Aborted, codes.OutOfRange, codes.Unimplemented,
		codes.Internal, codes.DataLoss:
	}
	return out
}

// toStatus turns an error of a Provider into what goes on the wire.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Unknown
	switch {
	case errors.Is(err, ErrContract):
		code = codes.InvalidArgument
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	return status.Error(code, toUTF8(err.Error()))
}

// ServerOptions are the gRPC server options of a plugin: the token on every RPC
// (without it every method of every service answers UNAUTHENTICATED), windows and
// limits of the contract.
func ServerOptions(token string) []grpc.ServerOption {
	g := guard(token)
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(g.unary),
		grpc.ChainStreamInterceptor(g.stream),
		grpc.UnknownServiceHandler(unknown),
		grpc.MaxRecvMsgSize(MaxWire),
		grpc.MaxSendMsgSize(MaxWire),
		grpc.StaticStreamWindowSize(StreamWindow),
		grpc.StaticConnWindowSize(ConnWindow),
		grpc.ForceServerCodecV2(newFrameCodec()),
	}
}

// DialOptions are the gRPC dial options of a host: the token on every RPC (none
// with an empty token), windows and limits of the contract. They go after
// go-plugin's own, whose limit is 2 GiB.
func DialOptions(token string) []grpc.DialOption {
	opts := []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxWire), grpc.MaxCallSendMsgSize(MaxWire)),
		grpc.WithStaticStreamWindowSize(StreamWindow),
		grpc.WithStaticConnWindowSize(ConnWindow),
		// Nothing is sent twice, whatever a service config says.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
	}
	if token != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(tokenCredentials(token)))
	}
	return opts
}
