package session

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// TestC091_ACallThatWaitsForItsTurnIsLookedAtAgain: a change that is announced while
// a call waits for a server that does not read finds the call unsent.
func TestC091_ACallThatWaitsForItsTurnIsLookedAtAgain(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	i := h.get("p")
	resume := s.conn.stopReading()
	big := `{"x":"` + strings.Repeat("x", 600<<10) + `"}`
	var all sync.WaitGroup
	all.Go(func() { // it holds the stream
		if _, err := i.Do(t.Context(), Call{Request: callOf(t, "echo", big)}); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the first call is on its way", func() bool { return len(i.link.slot) == 1 })
	epoch := current(t, i, -1)
	moved := errors.New("another list by now")
	begun := make(chan struct{})
	all.Go(func() {
		_, err := i.Do(t.Context(), Call{
			Request: callOf(t, "pay", `{}`),
			Begin:   func() error { close(begun); return nil },
			Last: func() error {
				if i.Epoch() != epoch {
					return moved
				}
				return nil
			},
		})
		if !errors.Is(err, moved) {
			t.Errorf("the second call: %v", err)
		}
	})
	<-begun
	s.setTools(`{"name":"other"}`)
	eventually(t, "the change is read", func() bool { return i.Epoch() != epoch })
	resume()
	all.Wait()
	h.do(i, Call{Request: callOf(t, "echo", `{}`)})
	for _, m := range s.received("tools/call") {
		if name, _ := m.GetString("params", "name"); name == "pay" {
			t.Error("the second call was sent")
		}
	}
}

// TestC091_NoCallRunsUnderAListOfBefore: while a server changes its tools and
// announces it, over and over, each call that is answered was made under the list
// that the server had then; or the change was read after the call was sent, and
// then the epoch shows it by the time that the answer is there.
func TestC091_NoCallRunsUnderAListOfBefore(t *testing.T) {
	const callers, calls, bumps = 8, 150, 60
	s := newServer(t)
	version := 0
	tools := func() string { return fmt.Sprintf(`{"tools":[{"name":"v%d"}]}`, version) }
	// All of it runs on the server's one goroutine.
	s.when(methodListTools, func(s *server, m *rpc.Message) { s.result(m, tools()) })
	s.when("tools/call", func(s *server, m *rpc.Message) {
		if name, _ := m.GetString("params", "name"); name == "bump" {
			version++
			s.conn.say(listChanged)
		}
		s.result(m, fmt.Sprintf(`{"structuredContent":"v%d"}`, version))
	})
	h := oneServer(t, s)
	i := h.get("p")
	moved := errors.New("moved")
	var late, retried atomic.Int64
	call := func(slow bool) error {
		for {
			epoch, err := i.Current(t.Context(), -1)
			if err != nil {
				return err
			}
			list := h.last().defs[0]
			if slow { // to decide
				time.Sleep(time.Millisecond)
			}
			answer, err := i.Do(t.Context(), Call{Request: callOf(t, "stamp", `{}`), Last: func() error {
				if i.Epoch() != epoch {
					return moved
				}
				return nil
			}})
			if errors.Is(err, moved) {
				retried.Add(1)
				continue
			}
			if err != nil {
				return err
			}
			stamp, _ := answer.GetString("result", "structuredContent")
			_ = answer.Close()
			switch {
			case list == fmt.Sprintf(`{"name":%q}`, stamp):
			case i.Epoch() == epoch:
				return fmt.Errorf("a call under %s ran under %s, and nothing shows it", list, stamp)
			default:
				late.Add(1)
			}
			return nil
		}
	}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := range calls {
				if err := call(n%4 == 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Go(func() {
		for range bumps {
			h.do(i, Call{Request: callOf(t, "bump", `{}`)})
			time.Sleep(time.Millisecond)
		}
	})
	all.Wait()
	t.Logf("%d calls, %d changes; %d were looked at again, %d were sent before the change was read", callers*calls, bumps, retried.Load(), late.Load())
}
