package front_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/artifact"
	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/front"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// A whole face over a scene of the fuzz of grants, and the clients that speak to it.

// stage is a whole face over a scene.
type stage struct {
	*scene
	store *catalog.Store
	// post sends one message and returns what came of it; send, on stdio, waits for nothing.
	post  func(t testing.TB, body string) string
	send  func(t testing.TB, body string)
	close func()
	// getting is called when a call asks for its server. Nil: nothing is.
	getting func()

	mu sync.Mutex // guards started, and makes one start of several
	// ran are the calls that reached servers, as provider and tool; started are the
	// providers whose servers were started.
	ran, started []string
}

// asCaller is a gate in which the token says who it is, and the path where.
type asCaller struct{ policy *access.Policy }

func (g asCaller) Authenticate(_ context.Context, bearer string) (string, error) { return bearer, nil }
func (g asCaller) Project(principal, asked string) (string, bool) {
	return g.policy.Project(principal, asked)
}

// spec is the scene as files would say it.
func (s *scene) spec() access.Spec {
	spec := access.Spec{Names: "prefixed", NameMax: 64, Tokens: []access.StaticToken{{Principal: "ada"}, {Principal: "ben"}}}
	for _, name := range slices.Sorted(maps.Keys(s.projects)) {
		p := access.Project{Name: name, Names: s.names[name]}
		for _, g := range s.projects[name] {
			p.Grants = append(p.Grants, &access.Grant{Project: name, Principals: g.principals, Provider: g.provider, Tools: g.tools, Except: g.except})
		}
		spec.Projects = append(spec.Projects, p)
	}
	return spec
}

// how says how a caller comes: over HTTP or on stdio, in which era, and what artifacts
// there are.
type how struct {
	onStdio, modern bool
	*gallery
}

// gallery are artifacts, one of each principal and one of a stranger, by their URIs.
type gallery struct {
	store *artifact.Store
	uri   map[string]string
}

func newGallery(t testing.TB) *gallery {
	store, err := artifact.Open(artifact.Options{Dir: t.TempDir(), Quota: 1 << 20, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	g := &gallery{store, map[string]string{}}
	for _, owner := range append([]string{"a stranger"}, principals...) {
		w, err := store.Create(artifact.Origin{Principal: owner}, "text/plain", true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "the text of "+owner); err != nil {
			t.Fatal(err)
		}
		record, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		g.uri[owner] = record.URI()
	}
	return g
}

// play opens the face of a scene to a caller.
func (s *scene) play(t testing.TB, principal, project string, how how) *stage {
	out := &stage{scene: s}
	var declared []catalog.Provider
	var providers []broker.Provider
	for _, slug := range slugs {
		declared = append(declared, catalog.Provider{Slug: slug, Tools: s.exposes[slug].tools, Except: s.exposes[slug].except})
		providers = append(providers, broker.Provider{Slug: slug, Label: slug, CallTimeoutMax: time.Minute})
	}
	out.store = catalog.New(catalog.Options{Names: "prefixed", NameMax: 64, Reserved: []string{front.ReadArtifact}}, declared)
	policy := access.New(s.spec())
	b := broker.New(broker.Options{
		Sessions: out, Catalog: out.store, Policy: func() *access.Policy { return policy }, Providers: providers, ListWait: time.Minute,
	})
	face := front.New(front.Options{Broker: b, Version: "1", Project: project, Artifacts: how.store})
	out.close = func() { face.Close(context.WithoutCancel(t.Context())) }
	if !how.onStdio {
		handler := face.Handler(front.HTTPOptions{Listen: "127.0.0.1:1", Gate: asCaller{policy}})
		out.post = (&overHTTP{handler: handler, principal: principal, project: project}).post
		return out
	}
	in, toHost := io.Pipe()
	fromHost, stdout := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- face.ServeStdio(context.WithoutCancel(t.Context()), in, stdout) }()
	pipes := onPipes{toHost, bufio.NewReader(fromHost), how.modern}
	out.post, out.send = pipes.post, pipes.send
	out.close = func() {
		_ = toHost.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		face.Close(context.WithoutCancel(t.Context()))
	}
	return out
}

// Get starts the server of a provider, which lists its tools.
func (st *stage) Get(_ context.Context, slug string) (broker.Instance, error) {
	if st.getting != nil {
		st.getting()
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if !slices.Contains(st.started, slug) {
		st.started = append(st.started, slug)
		defs := []json.RawMessage{}
		for _, name := range st.tools[slug] {
			quoted, err := json.Marshal(name)
			if err != nil {
				return nil, err
			}
			defs = append(defs, json.RawMessage(`{"name":`+string(quoted)+`,"inputSchema":{"type":"object"}}`))
		}
		if err := st.store.Put(slug, slug+"/1", defs); err != nil {
			return nil, err
		}
	}
	return instance{st, slug}, nil
}

// Warm starts a server for a list; several may be started at once.
func (st *stage) Warm(ctx context.Context, slug string) error {
	_, err := st.Get(ctx, slug)
	return err
}

func (st *stage) State(string) (session.State, bool) { return session.State{}, true }
func (st *stage) SetLogLevel(string)                 {}

// Logging is declared by each server that is there, and not known of the others.
func (st *stage) Logging(of func(string) bool) (declared, unknown bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, slug := range slugs {
		there := slices.Contains(st.started, slug)
		declared, unknown = declared || there && of(slug), unknown || !there && of(slug)
	}
	return declared, unknown
}

// instance is a server that does what it is asked.
type instance struct {
	st   *stage
	slug string
}

func (i instance) Mark() string                                           { return i.slug + "/1" }
func (i instance) Current(context.Context, time.Duration) (uint64, error) { return 1, nil }
func (i instance) Epoch() uint64                                          { return 1 }
func (i instance) Announces() bool                                        { return true }

func (i instance) Do(_ context.Context, c session.Call) (*rpc.Message, error) {
	edit := c.Request.Edit()
	c.Edit(edit)
	var sent bytes.Buffer
	if _, err := edit.Payload().WriteTo(&sent); err != nil {
		return nil, err
	}
	if c.Begin != nil {
		if err := c.Begin(); err != nil {
			return nil, err
		}
	}
	var call struct{ Params struct{ Name string } }
	if err := json.Unmarshal(sent.Bytes(), &call); err != nil {
		return nil, err
	}
	i.st.ran = append(i.st.ran, i.slug+"\x00"+call.Params.Name)
	return rpc.Parse(rpc.FromServer, []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ran"}]}}`))
}

// overHTTP is a client with a session.
type overHTTP struct {
	handler                     http.Handler
	principal, project, session string
}

func (c *overHTTP) post(t testing.TB, body string) string {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:1/mcp/"+c.project, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+c.principal)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	if id := w.Header().Get("Mcp-Session-Id"); id != "" && c.session == "" {
		c.session = id
	}
	return fmt.Sprint(w.Code, " ", w.Body)
}

// onPipes is the client on stdio.
type onPipes struct {
	in  io.Writer
	out *bufio.Reader
	// modern says that each request is one of MCP 2026-07-28.
	modern bool
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

func (c onPipes) send(t testing.TB, body string) {
	if c.modern {
		body = strings.Replace(body, `"params":{`, `"params":{`+modernMeta+`,`, 1)
		body = strings.Replace(body, modernMeta+`,}`, modernMeta+`}`, 1)
	}
	if _, err := io.WriteString(c.in, body+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (c onPipes) post(t testing.TB, body string) string {
	c.send(t, body)
	for strings.Contains(body, `"id"`) {
		line, err := c.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"id"`) { // and no notice
			return "200 " + line
		}
	}
	return ""
}
