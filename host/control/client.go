package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
)

// ErrNoAnswer marks that a host which is there, or was a moment ago, gave no answer.
var ErrNoAnswer = errors.New("gave no answer")

// Error is an answer of a host that is no result.
type Error struct {
	// Status is HTTP's.
	Status int
	// Message is for people.
	Message string
}

func (e *Error) Error() string { return e.Message }

// Client asks one host. Its methods may be called concurrently. Their errors are
// an *Error where the host answered.
type Client struct {
	info   Info
	socket string
	http   *http.Client
}

// NewClient makes a client of the host that has its socket in dir.
func NewClient(dir string, info Info) *Client {
	socket := info.socket(dir)
	return &Client{info: info, socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true, // a command asks once
	}}}
}

// Info says which host it is.
func (c *Client) Info() Info { return c.info }

// Status asks where the host and its providers stand.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	return s, c.ask(ctx, http.MethodGet, pathStatus, nil, &s)
}

// Tools lists what "local" sees in a project; see Control.Tools.
func (c *Client) Tools(ctx context.Context, project string) (ToolList, error) {
	var l ToolList
	path := pathTools
	if project != "" {
		path += "?" + url.Values{"project": {project}}.Encode()
	}
	return l, c.ask(ctx, http.MethodGet, path, nil, &l)
}

// Call calls a tool; see Control.Call. The end of ctx is the call's cancel.
func (c *Client) Call(ctx context.Context, r CallRequest) (CallReply, error) {
	var reply CallReply
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return reply, fmt.Errorf("%w: %w", ErrArguments, err)
	}
	return reply, c.ask(ctx, http.MethodPost, pathCall, &body, &reply)
}

// Restart gives a provider a new instance and returns its status when that is
// ready. The error says why it is not. It lives on when ctx ends.
func (c *Client) Restart(ctx context.Context, provider string) (ProviderStatus, error) {
	var p ProviderStatus
	return p, c.ask(ctx, http.MethodPost, pathRestart+url.PathEscape(provider), nil, &p)
}

// Logs writes the last lines of a provider's log to w, and with follow what comes
// after them until ctx ends or the host does; see supervise.TailLog.
func (c *Client) Logs(ctx context.Context, provider string, lines int, follow bool, w io.Writer) error {
	query := url.Values{"lines": {strconv.Itoa(lines)}, "follow": {strconv.FormatBool(follow)}}
	res, err := c.do(ctx, http.MethodGet, pathLogs+url.PathEscape(provider)+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err = io.Copy(w, res.Body); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// ask makes one request and reads its answer into v.
func (c *Client) ask(ctx context.Context, method, path string, body io.Reader, v any) error {
	res, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(v); err != nil {
		return c.unreachable(ctx, err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://drawbridge"+path, body)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	return nil, c.refused(res)
}

// refused is the error of an answer that is no result.
func (c *Client) refused(res *http.Response) error {
	var said failure
	if err := json.NewDecoder(io.LimitReader(res.Body, maxFailure)).Decode(&said); err != nil || said.Error == "" {
		said.Error = fmt.Sprintf("host %s answered with HTTP status %s", c.info.ID, res.Status)
	}
	return &Error{Status: res.StatusCode, Message: said.Error}
}

// unreachable says that a host gave no answer.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if cause := ctx.Err(); errors.Is(cause, context.Canceled) {
		return cause
	} else if cause != nil {
		err = cause
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("host %s (pid %d) %w: %w", c.info.ID, c.info.PID, ErrNoAnswer, err)
}
