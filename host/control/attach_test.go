package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/access"
)

// upper is an Attach whose sessions answer each line in capitals, with the project.
func upper(project string, resumed bool) (func(context.Context, io.Reader, io.Writer) error, error) {
	return func(_ context.Context, in io.Reader, out io.Writer) error {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if _, err := fmt.Fprintf(out, "%s%t %s\n", project, resumed, strings.ToUpper(lines.Text())); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// TestAttach: two clients have a stream each; who writes no more still reads.
func TestAttach(t *testing.T) {
	h := newHouse(t)
	h.control.opts.Attach = upper
	c := h.serve()
	var streams []*Stream
	for i := range 2 {
		s, err := c.Attach(t.Context(), "", i == 1)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		streams = append(streams, s)
	}
	for i, s := range streams {
		word := strings.Repeat(fmt.Sprintf("a%d", i), 20_000) // more than a buffer
		if _, err := fmt.Fprintln(s, word); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(s)
		if want := fmt.Sprintf("%t ", i == 1) + strings.ToUpper(word) + "\n"; err != nil || string(text) != want {
			t.Errorf("got %d bytes, %v, want %d", len(text), err, len(want))
		}
	}
}

// TestAttachIsRefused: the reason is the host's, with a status that says whether it passes.
func TestAttachIsRefused(t *testing.T) {
	h := newHouse(t)
	stopping := errors.New("the host is stopping")
	h.control.opts.Attach = func(string, bool) (func(context.Context, io.Reader, io.Writer) error, error) { return nil, stopping }
	c := h.serve()
	var said *Error
	if _, err := c.Attach(t.Context(), "", false); !errors.As(err, &said) || said.Status != http.StatusServiceUnavailable || said.Message != stopping.Error() {
		t.Errorf("a host that stops: %v", err)
	}
	if _, err := c.Attach(t.Context(), "shop", false); !errors.As(err, &said) || said.Status != http.StatusBadRequest || !strings.Contains(said.Message, "leave --project out") {
		t.Errorf("a project that is not: %v", err)
	}
	h.policy = access.New(access.Spec{Projects: []access.Project{{Name: "shop"}}})
	if _, err := c.Attach(t.Context(), "", false); !errors.As(err, &said) || said.Status != http.StatusBadRequest || !strings.Contains(said.Message, `no grant names "local"`) {
		t.Errorf("where local has no grant: %v", err)
	}
	h.policy = access.New(access.Spec{})
	res, err := c.do(t.Context(), http.MethodPost, pathAttach, nil)
	if err == nil {
		res.Body.Close()
	}
	if !errors.As(err, &said) || said.Status != http.StatusUpgradeRequired {
		t.Errorf("a request that is no client's stream: %v", err)
	}
	if err := h.control.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Attach(t.Context(), "", false); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("a host that is gone: %v", err)
	}
}
