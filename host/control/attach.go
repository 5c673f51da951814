package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ErrTooOld marks the answer of a host that has no way to attach to it.
var ErrTooOld = errors.New("the running host cannot be connected to")

// Attach takes in an MCP client that works as "local" in a project, with resumed one that
// goes on with a session that it had with another host, and returns what serves it on a stream until it is gone or ctx ends, which is called once. The error
// says that the host is stopping. The front's Attach is one.
type Attach func(project string, resumed bool) (serve func(ctx context.Context, in io.Reader, out io.Writer) error, err error)

// attachProtocol is what a connection is upgraded to: MCP, one message a line, both ways.
const attachProtocol = "drawbridge-mcp"

// serveAttach turns the connection into the client's stream. It lasts until one of the
// two is gone; a host that stops lets what is in flight end, as on stdio.
func (c *Control) serveAttach(w http.ResponseWriter, r *http.Request) {
	who, err := c.caller(r.URL.Query().Get("project"))
	if err != nil {
		c.refuse(w, err)
		return
	}
	if c.opts.Attach == nil || !strings.EqualFold(r.Header.Get("Upgrade"), attachProtocol) {
		w.Header().Set("Upgrade", attachProtocol)
		w.WriteHeader(http.StatusUpgradeRequired)
		_ = json.NewEncoder(w).Encode(failure{Error: "this is where MCP clients attach; use `drawbridge connect`"})
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		c.refuse(w, err)
		return
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(headerTimeout))
	serve, err := c.opts.Attach(who.Project, r.URL.Query().Get("resumed") == "true")
	if err != nil {
		writeFailure(conn, http.StatusServiceUnavailable, c.opts.Redact(err.Error()))
		return
	}
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", attachProtocol)
	_ = conn.SetDeadline(time.Time{})
	// The front says when it ends: Control outlives it. A client that did not get the
	// answer is gone, which is found where it is read from.
	err = serve(context.WithoutCancel(r.Context()), &Stream{Conn: conn, in: buffered.Reader}, conn)
	if err != nil {
		c.opts.Logger.Info("a client that was connected is gone", "why", err)
	}
}

// writeFailure answers on a connection that is no longer net/http's.
func writeFailure(conn net.Conn, status int, why string) {
	body, _ := json.Marshal(failure{Error: why})
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
}

// Stream is the connection of an attached client: MCP messages, one a line, both ways.
type Stream struct {
	net.Conn
	in *bufio.Reader // what came with the answer is read first
}

// Read reads what the other end says.
func (s *Stream) Read(p []byte) (int, error) { return s.in.Read(p) }

// CloseWrite says that nothing more will be written, which ends the session; answers
// that are on their way can still be read.
func (s *Stream) CloseWrite() error {
	if c, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return s.Close()
}

// Attach opens a session of its own with the host, as "local" in a project ("" for the
// only one); resumed says that the session goes on with one that it had with another host.
// The error is an *Error where the host answered; it wraps ErrTooOld where
// the host is of a release that cannot. The caller closes the stream.
func (c *Client) Attach(ctx context.Context, project string, resumed bool) (*Stream, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	_ = conn.SetDeadline(time.Now().Add(headerTimeout))
	query := url.Values{"resumed": {strconv.FormatBool(resumed)}}
	if project != "" {
		query.Set("project", project)
	}
	path := pathAttach + "?" + query.Encode()
	in := bufio.NewReaderSize(conn, pieceSize)
	var res *http.Response
	if _, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: drawbridge\r\nConnection: Upgrade\r\nUpgrade: %s\r\nContent-Length: 0\r\n\r\n", path, attachProtocol); err == nil {
		res, err = http.ReadResponse(in, nil) //nolint:bodyclose // it is closed with the connection
	}
	switch {
	case err != nil:
		err = c.unreachable(ctx, err)
	case res.StatusCode == http.StatusNotFound:
		err = fmt.Errorf("%w: host %s (pid %d) is of version %s; restart it with this one", ErrTooOld, c.info.ID, c.info.PID, c.info.Version)
	case res.StatusCode != http.StatusSwitchingProtocols:
		err = c.refused(res)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return &Stream{Conn: conn, in: in}, nil
}
