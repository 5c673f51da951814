package provider

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// NewToken makes a token: 256 random bits in hexadecimal, so that it is one line
// and a metadata value as it stands.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, see its documentation
	return hex.EncodeToString(b[:])
}

// tokenCredentials puts the token on every RPC of a connection, those of
// go-plugin's own services included.
type tokenCredentials string

func (t tokenCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{TokenKey: string(t)}, nil
}

// RequireTransportSecurity is false: the socket is private and the peer was
// started by us; what the token keeps out is every other process.
func (tokenCredentials) RequireTransportSecurity() bool { return false }

// errToken is one answer for no token and for a wrong one.
var errToken = status.Error(codes.Unauthenticated, "this plugin answers only the host that started it")

// guard checks the token of every RPC before its handler runs.
type guard string

func (g guard) check(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	got := md.Get(TokenKey)
	if len(got) != 1 || subtle.ConstantTimeCompare([]byte(got[0]), []byte(g)) != 1 {
		return errToken
	}
	return nil
}

func (g guard) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := g.check(ctx); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (g guard) stream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := g.check(s.Context()); err != nil {
		return err
	}
	return next(srv, s)
}

// unknown answers for what no service has; as a handler it stands behind the
// stream interceptor, so that a stranger does not learn what there is.
func unknown(any, grpc.ServerStream) error {
	return status.Error(codes.Unimplemented, "no such method")
}
