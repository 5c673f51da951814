package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// httpConn is a session over streamable HTTP, one connection for each caller.
type httpConn struct {
	url, bearer, session string
	client               *http.Client
	// done ends what the conn stands on; nil if that outlives it.
	done func() error
	turn [slots]int
	// bufs are each slot's, so that reading an answer allocates nothing.
	bufs [slots]bytes.Buffer
	once sync.Once
}

func openHTTP(url, bearer string, done func() error) (*httpConn, error) {
	c := &httpConn{url: url, bearer: bearer, done: done, client: &http.Client{
		Timeout: answerLimit,
		Transport: &http.Transport{
			MaxIdleConns: slots, MaxIdleConnsPerHost: slots, MaxConnsPerHost: slots,
			DisableCompression: true,
		},
	}}
	if err := handshake(c); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *httpConn) post(body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	if c.bearer != "" {
		h.Set("Authorization", "Bearer "+c.bearer)
	}
	if c.session != "" {
		h.Set("Mcp-Session-Id", c.session)
		h.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	return c.client.Do(req)
}

func (c *httpConn) call(slot int, method, params string) (int, error) {
	c.turn[slot]++
	id := slot + slots*c.turn[slot]
	res, err := c.post(request(id, method, params))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	buf := &c.bufs[slot]
	buf.Reset()
	if _, err := buf.ReadFrom(res.Body); err != nil {
		return 0, err
	}
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: HTTP %s: %.200s", method, res.Status, buf.Bytes())
	}
	if method == "initialize" {
		c.session = res.Header.Get("Mcp-Session-Id")
	}
	text := buf.Bytes()
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		// The answer is the last event's data, and nothing else is expected.
		if at := bytes.LastIndex(text, []byte("data:")); at >= 0 {
			text = bytes.TrimSpace(text[at+len("data:"):])
		}
	}
	if idOf(text) != id || !good(text) {
		return 0, fmt.Errorf("%s: %w: %.200s", method, errAnswer, text)
	}
	return len(text), nil
}

func (c *httpConn) notify(method string) error {
	res, err := c.post(notification(method))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func (c *httpConn) close() (err error) {
	c.once.Do(func() {
		c.client.CloseIdleConnections()
		if c.done != nil {
			err = c.done()
		}
	})
	return err
}
