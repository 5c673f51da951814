//go:build unix

package stdio

import (
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// undelivered reads Undelivered events for exactly these messages, in order.
func (r *rig) undelivered(seqs ...uint64) {
	r.t.Helper()
	for _, seq := range seqs {
		event := r.next()
		for event == (provider.Spoke{}) {
			event = r.next()
		}
		if got, ok := event.(provider.Undelivered); !ok || got.Seq != seq || got.Reason == "" {
			r.t.Errorf("got %T %+v, want Undelivered %d", event, event, seq)
		}
	}
}

func TestUndeliveredToAServerThatReadsNothing(t *testing.T) {
	r := fake(t, "--no-read", "--eof-delay", "1m")
	small := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	r.send(small)                                                            // fits the pipe: handed over, read or not
	big := r.send(`{"jsonrpc":"2.0","a":"` + bigText(200<<10) + `","id":2}`) // does not
	stopped := make(chan error, 1)
	go func() {
		_, err := r.p.Stop(t.Context(), provider.StopRequest{})
		stopped <- err
	}()
	// The big one was cut short by the stop. Nothing is said of the small one.
	r.undelivered(big)
	later := r.send(small)
	r.undelivered(later)
	r.end(func(e provider.Event) { t.Errorf("then %T %+v", e, e) })
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestADeafServerDoesNotHoldUpStop(t *testing.T) {
	r := fake(t, "--no-read", "--ignore-eof", "--ignore-term")
	r.send(`{"a":"` + bigText(200<<10) + `"}`)
	begin := time.Now()
	go func() { _, _ = r.p.Stop(t.Context(), provider.StopRequest{}) }()
	r.end(nil)
	if took := time.Since(begin); took > minGrace+termWait+soon/2 {
		t.Errorf("it took %v", took)
	}
}

func TestUndeliveredAfterTheServerClosedItsStdin(t *testing.T) {
	r := fake(t, "--ignore-eof", "--ignore-term")
	r.call("close_stdin", `{}`)
	if got := text(t, r.answer()); got != "closed" {
		t.Fatal(got)
	}
	first := r.call("pay", `{}`)
	r.undelivered(first)
	second := r.call("pay", `{}`)
	r.undelivered(second)
	// A server that cannot be given anything is of no use: it is ended.
	r.end(nil)
	for _, in := range r.logged("in") {
		if strings.Contains(in.Raw, "pay") {
			t.Errorf("the server read %s", in.Raw)
		}
	}
}

func TestUndeliveredAfterTheServerHasExited(t *testing.T) {
	// A descendant holds stdin, so that writing to it would succeed.
	r := run(t, settings{config: map[string]any{
		"command": "sh", "args": []string{"-c", "sleep 60 <&0 & exec sh -c 'exit 5'"},
	}})
	<-r.p.server.exited
	seq := r.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	said := false
	status := r.end(func(e provider.Event) {
		got, ok := e.(provider.Undelivered)
		if said = ok && got.Seq == seq; !said {
			t.Errorf("%T %+v", e, e)
		}
	})
	if !said || status.Code != 5 {
		t.Errorf("undelivered was said: %v, exit code %d", said, status.Code)
	}
}

func TestDeliveredIsNeverCalledUndelivered(t *testing.T) {
	// The server ends in the very call: the message was written, so nothing can be known.
	r := fake(t)
	r.call("pay", `{"then":"kill"}`)
	status := r.end(func(e provider.Event) {
		if _, ok := e.(provider.Undelivered); ok {
			t.Errorf("%+v", e)
		}
	})
	if status.Signal != 9 {
		t.Errorf("exited with %+v", status)
	}
}

func TestNothingFollowsAMessageCutShort(t *testing.T) {
	for name, cut := range map[string]func(r *rig){
		"by a line break": func(r *rig) {
			r.frame(provider.Frame{Seq: 2, Data: []byte("\n"), Last: true})
			r.undelivered(2)
		},
		"by the next message": func(r *rig) {
			r.frame(provider.Frame{Seq: 3, Data: []byte(toolCall(3, "inc", "{}")), Last: true})
			r.undelivered(2, 3)
		},
		"by too large a chunk": func(r *rig) {
			r.frame(provider.Frame{Seq: 2, Data: make([]byte, provider.MaxChunk+1), Last: true})
			r.undelivered(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := fake(t)
			r.call("echo", `{}`)
			r.answer()
			r.frame(provider.Frame{Seq: 2, Data: []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call",`)})
			cut(r)
			r.frame(provider.Frame{Seq: 4, Data: []byte(toolCall(4, "inc", "{}")), Last: true})
			r.undelivered(4)
			r.end(nil)
			in := r.logged("in")
			if len(in) != 2 || strings.Contains(in[1].Raw, "inc") {
				t.Errorf("the server read %+v", in)
			}
		})
	}
}
