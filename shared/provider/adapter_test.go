package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/drawbridge-mcp/drawbridge/shared/providerpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Provider whose exchange is a function.
type fake struct {
	exchange func(ctx context.Context, c Conn) error
	start    Diagnostics
	err      error
	got      StartRequest
}

func (f *fake) Describe(context.Context) (Description, error) {
	return Description{Name: "fake", Version: "1"}, f.err
}

func (f *fake) Validate(_ context.Context, c Config) (Diagnostics, error) {
	return Diagnostics{{Severity: Warning, Summary: string(c.JSON)}}, f.err
}

func (f *fake) Start(_ context.Context, r StartRequest) (Diagnostics, error) {
	f.got = r
	return f.start, f.err
}

func (f *fake) Exchange(ctx context.Context, c Conn) error { return f.exchange(ctx, c) }

func (f *fake) Stop(context.Context, StopRequest) (ExitStatus, error) {
	return ExitStatus{Code: 3, StderrTail: "bye"}, f.err
}

// serve runs p behind ServerOptions and returns a way to dial it. Like
// go-plugin's, the server has services that are not ours.
func serve(t *testing.T, p Provider, token string) (dial func(token string) *grpc.ClientConn) {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	s := grpc.NewServer(ServerOptions(token)...)
	if err := (&GRPCPlugin{Impl: p}).GRPCServer(nil, s); err != nil {
		t.Fatal(err)
	}
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	reflection.Register(s)
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(lis) })
	t.Cleanup(func() {
		s.Stop()
		served.Wait()
	})
	return func(token string) *grpc.ClientConn {
		opts := append([]grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		}, DialOptions(token)...)
		cc, err := grpc.NewClient("passthrough:///x", opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cc.Close() })
		return cc
	}
}

func remote(t *testing.T, p Provider) Remote {
	t.Helper()
	return NewRemote(serve(t, p, "tok")("tok"))
}

// started returns a Remote whose server runs.
func started(t *testing.T, p Provider) Remote {
	t.Helper()
	r := remote(t, p)
	if ds, err := r.Start(t.Context(), StartRequest{MaxMessage: 1 << 20}); err != nil || ds.HasErrors() {
		t.Fatalf("start: %v, %v", ds, err)
	}
	return r
}

func TestUnaryCalls(t *testing.T) {
	f := &fake{start: Diagnostics{{Severity: Warning, Summary: "w"}}}
	r := remote(t, f)
	ctx := t.Context()
	if d, err := r.Describe(ctx); err != nil || d.Name != "fake" {
		t.Errorf("describe: %v, %v", d, err)
	}
	if ds, err := r.Validate(ctx, Config{JSON: json.RawMessage(`{"a":1}`)}); err != nil || len(ds) != 1 || ds[0].Summary != `{"a":1}` {
		t.Errorf("validate: %v, %v", ds, err)
	}
	req := StartRequest{Config: Config{JSON: json.RawMessage(`{}`), BaseDir: "/x"}, Mark: "h/s/1", MaxMessage: 5}
	if ds, err := r.Start(ctx, req); err != nil || !cmp.Equal(ds, f.start) || !cmp.Equal(f.got, req) {
		t.Errorf("start: %v, %v, got %v", ds, err, f.got)
	}
	if st, err := r.Stop(ctx, StopRequest{Grace: time.Second}); err != nil || st.Code != 3 || st.StderrTail != "bye" {
		t.Errorf("stop: %v, %v", st, err)
	}
}

func TestErrorsReadAsThePluginsWords(t *testing.T) {
	r := remote(t, &fake{err: errors.New("no such command: npx")})
	_, err := r.Start(t.Context(), StartRequest{MaxMessage: 1})
	var re *RemoteError
	if !errors.As(err, &re) || err.Error() != "no such command: npx" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Describe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	// A diagnostic that the contract does not know ends the call on the plugin's side.
	r = remote(t, &fake{start: Diagnostics{{Summary: "no severity"}}})
	if _, err := r.Start(t.Context(), StartRequest{MaxMessage: 1}); !errors.Is(err, ErrContract) {
		t.Errorf("no severity: %v", err)
	}
	if _, err := r.Validate(t.Context(), Config{JSON: make([]byte, MaxWire+1)}); !errors.Is(err, ErrContract) ||
		strings.Contains(err.Error(), "grpc") {
		t.Errorf("message over the limit: %v", err)
	}
}

func TestOrderOfCalls(t *testing.T) {
	noEvents := func(ctx context.Context, c Conn) error { return c.Send(Exited{}) }
	open := func(r Remote) error {
		c, err := r.Exchange(t.Context())
		if err != nil {
			return err
		}
		_, err = c.Recv()
		if err == nil {
			_, err = c.Recv()
		}
		return err
	}
	r := remote(t, &fake{exchange: noEvents})
	if err := open(r); err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "no server was started") {
		t.Errorf("exchange before start: %v", err)
	}
	r = remote(t, &fake{exchange: noEvents, start: Diagnostics{{Severity: Error, Summary: "no"}}})
	if _, err := r.Start(t.Context(), StartRequest{MaxMessage: 1}); err != nil {
		t.Fatal(err)
	}
	if err := open(r); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("exchange after a start with errors: %v", err)
	}
	r = started(t, &fake{exchange: noEvents})
	if _, err := r.Start(t.Context(), StartRequest{MaxMessage: 1}); err == nil {
		t.Error("started twice")
	}
	if err := open(r); !errors.Is(err, io.EOF) {
		t.Errorf("first exchange: %v", err)
	}
	if err := open(r); err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "second time") {
		t.Errorf("second exchange: %v", err)
	}
}

// echo sends each chunk back as it came.
func echo(ctx context.Context, c Conn) error {
	for {
		f, err := c.Recv()
		if errors.Is(err, io.EOF) {
			return c.Send(Exited{Status: ExitStatus{Code: 7}})
		}
		if err != nil {
			return err
		}
		if err := c.Send(Chunk{Data: f.Data, Last: f.Last}); err != nil {
			return err
		}
	}
}

func TestExchangeCarriesBytes(t *testing.T) {
	r := started(t, &fake{exchange: echo})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := r.Exchange(ctx)
	if err != nil {
		t.Fatal(err)
	}
	frames := []Frame{
		{Seq: 1, Data: []byte(`{"a":1}`), Last: true},
		{Seq: 2, Data: bytes.Repeat([]byte("x"), MaxChunk)},
		{Seq: 2, Data: bytes.Repeat([]byte("y"), SendChunk)},
		{Seq: 2, Data: []byte("z"), Last: true},
		{Seq: 3, Data: []byte("q"), Last: true},
	}
	var sent sync.WaitGroup
	sent.Go(func() {
		for _, f := range frames {
			if err := c.Send(f); err != nil {
				t.Errorf("send: %v", err)
			}
		}
	})
	for _, f := range frames {
		e, err := c.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := e.(Chunk); !ok || !bytes.Equal(got.Data, f.Data) || got.Last != f.Last {
			t.Fatalf("message %d differs", f.Seq)
		}
	}
	sent.Wait()
}

// What breaks a rule reaches no Provider, and the stream says why.
func TestBrokenFrameEndsTheStream(t *testing.T) {
	for name, broken := range map[string][]*providerpb.HostFrame{
		"LF":          {{Seq: 1, Data: []byte("{}\n{\"method\":\"tools/call\"}"), Last: true}},
		"CR":          {{Seq: 1, Data: []byte("{\r}"), Last: true}},
		"order":       {{Seq: 2, Data: []byte("{}"), Last: true}},
		"mixed":       {{Seq: 1, Data: []byte("{")}, {Seq: 2, Data: []byte("{}"), Last: true}},
		"too long":    {{Seq: 1, Data: make([]byte, MaxChunk+1), Last: true}},
		"empty":       {{Seq: 1, Last: true}},
		"one is fine": {{Seq: 1, Data: []byte("{}"), Last: true}, {Seq: 2, Data: []byte("\n"), Last: true}},
	} {
		t.Run(name, func(t *testing.T) {
			reached := make(chan []Frame, 1)
			cc := serve(t, &fake{exchange: func(ctx context.Context, c Conn) error {
				var got []Frame
				for {
					f, err := c.Recv()
					if err != nil {
						// A Provider that goes on until its context ends, and is asked again.
						if _, again := c.Recv(); again == nil {
							t.Error("a frame after a broken one")
						}
						<-ctx.Done()
						reached <- got
						return nil
					}
					got = append(got, f)
				}
			}}, "tok")("tok")
			if _, err := NewRemote(cc).Start(t.Context(), StartRequest{MaxMessage: 1}); err != nil {
				t.Fatal(err)
			}
			stream, err := providerpb.NewProviderClient(cc).Exchange(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range broken {
				if err := stream.Send(f); err != nil {
					t.Fatal(err)
				}
			}
			_, err = stream.Recv()
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("the stream ended with %v", err)
			}
			if got := <-reached; len(got) != len(broken)-1 {
				t.Errorf("%d frames reached the provider, want %d", len(got), len(broken)-1)
			}
		})
	}
}

// rawServer is a plugin that keeps no rule.
type rawServer struct {
	providerpb.UnimplementedProviderServer
	frames []*providerpb.PluginFrame
}

func (s *rawServer) Exchange(stream providerpb.Provider_ExchangeServer) error {
	for _, f := range s.frames {
		if err := stream.Send(f); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

func rawRemote(t *testing.T, frames []*providerpb.PluginFrame) Remote {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	s := grpc.NewServer() // the defaults of a plugin in another language
	providerpb.RegisterProviderServer(s, &rawServer{frames: frames})
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(lis) })
	cc, err := grpc.NewClient("passthrough:///x", append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
	}, DialOptions("tok")...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cc.Close()
		s.Stop()
		served.Wait()
	})
	return NewRemote(cc)
}

func TestBrokenEventEndsTheStream(t *testing.T) {
	chunk := func(s string) *providerpb.PluginFrame {
		return &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Chunk{Chunk: &providerpb.Chunk{Data: []byte(s), Last: true}}}
	}
	exited := &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Exited{Exited: &providerpb.Exited{}}}
	for name, frames := range map[string][]*providerpb.PluginFrame{
		"LF":               {chunk("{}\n{}")},
		"CR":               {chunk("{}\r")},
		"too long":         {chunk(strings.Repeat("x", MaxChunk+1))},
		"over the wire":    {chunk(strings.Repeat("x", MaxWire+1))},
		"empty":            {chunk("")},
		"unknown kind":     {{}},
		"after the end":    {exited, chunk("{}")},
		"end twice":        {exited, exited},
		"after good ones":  {chunk("{}"), chunk("{}"), chunk("\n")},
		"undelivered zero": {{Kind: &providerpb.PluginFrame_Undelivered{Undelivered: &providerpb.Undelivered{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := rawRemote(t, frames).Exchange(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range len(frames) - 1 {
				if _, err := c.Recv(); err != nil {
					t.Fatalf("a good frame: %v", err)
				}
			}
			e, err := c.Recv()
			if !errors.Is(err, ErrContract) || e != nil {
				t.Errorf("%v, %v", e, err)
			}
			if _, again := c.Recv(); again != err {
				t.Errorf("asked again: %v", again)
			}
		})
	}
}

// A plugin that goes away right after it said Exited has ended well.
func TestExitedIsTheLastWord(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	exited := &providerpb.PluginFrame{Kind: &providerpb.PluginFrame_Exited{Exited: &providerpb.Exited{
		Status: &providerpb.ExitStatus{Code: 4},
	}}}
	c, err := rawRemote(t, []*providerpb.PluginFrame{exited}).Exchange(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := c.Recv(); err != nil || !cmp.Equal(e, Event(Exited{Status: ExitStatus{Code: 4}})) {
		t.Errorf("%v, %v", e, err)
	}
	cancel()
	if _, err := c.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after exited: %v", err)
	}
}

// Sends from several goroutines each arrive whole.
func TestSendFromSeveral(t *testing.T) {
	const senders, each = 4, 50
	r := started(t, &fake{exchange: func(ctx context.Context, c Conn) error {
		var all sync.WaitGroup
		for i := range senders {
			all.Go(func() {
				for n := range each {
					if err := c.Send(Undelivered{Seq: uint64(1 + i*each + n)}); err != nil {
						t.Errorf("send: %v", err)
					}
				}
			})
		}
		all.Wait()
		return c.Send(Exited{})
	}})
	c, err := r.Exchange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := map[uint64]uint64{}
	n := 0
	for {
		e, err := c.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if u, ok := e.(Undelivered); ok {
			n++
			sender := (u.Seq - 1) / each
			if u.Seq <= last[sender] {
				t.Errorf("sender %d: %d after %d", sender, u.Seq, last[sender])
			}
			last[sender] = u.Seq
		}
	}
	if n != senders*each {
		t.Errorf("%d events", n)
	}
}

func TestTokenOnEveryService(t *testing.T) {
	dial := serve(t, &fake{exchange: echo}, "tok")
	services := []string{
		"/drawbridge.provider.v1.Provider/Describe", "/drawbridge.provider.v1.Provider/Exchange",
		"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/no.such.Service/Method",
		"/drawbridge.provider.v1.Provider/NoSuchMethod",
	}
	call := func(ctx context.Context, cc *grpc.ClientConn, method string) codes.Code {
		s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		if err != nil {
			return status.Code(err)
		}
		_ = s.SendMsg(&providerpb.DescribeRequest{})
		_ = s.CloseSend()
		return status.Code(s.RecvMsg(&providerpb.DescribeResponse{}))
	}
	for name, ctx := range map[string]context.Context{
		"none": t.Context(),
		"two":  metadata.AppendToOutgoingContext(t.Context(), TokenKey, "tok", TokenKey, "tok"),
	} {
		for _, m := range services {
			if got := call(ctx, dial(""), m); got != codes.Unauthenticated {
				t.Errorf("token %s, %s: %v", name, m, got)
			}
		}
	}
	for _, m := range services {
		if got := call(t.Context(), dial("toK"), m); got != codes.Unauthenticated {
			t.Errorf("wrong token, %s: %v", m, got)
		}
	}
	ok := dial("tok")
	if _, err := NewRemote(ok).Describe(t.Context()); err != nil {
		t.Errorf("with the token: %v", err)
	}
	if got := call(t.Context(), ok, "/no.such.Service/Method"); got != codes.Unimplemented {
		t.Errorf("with the token, no such service: %v", got)
	}
	if _, err := NewRemote(dial("")).Describe(t.Context()); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("remote without the token: %v", err)
	}
}

func TestNewToken(t *testing.T) {
	a, b := NewToken(), NewToken()
	if a == b || len(a) != 64 || strings.ContainsAny(a, "\r\n ") {
		t.Errorf("%q, %q", a, b)
	}
}
