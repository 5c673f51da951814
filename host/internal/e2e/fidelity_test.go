//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// faces are the host's two, each in front of the four servers, for tests that
// look at the bytes.
func faces(t *testing.T, test func(t *testing.T, p place, c hosttest.Client)) {
	t.Run("stdio", func(t *testing.T) {
		p := newPlace(t)
		test(t, p, p.ServeStdio(t, p.config(t)))
	})
	t.Run("http", func(t *testing.T) {
		p := newPlace(t)
		test(t, p, p.ServeHTTP(t, p.config(t)).Client(t))
	})
}

// TestDefinitions compares every definition byte for byte with what the server
// sends to a client with the same capabilities, but for the name, and looks at
// the order.
func TestDefinitions(t *testing.T) {
	faces(t, func(t *testing.T, p place, c hosttest.Client) {
		var want []hosttest.Definition
		for _, s := range p.servers(t) {
			d := p.direct(t, s)
			for _, one := range settled(t, d) {
				want = append(want, hosttest.Definition{Name: exposed(s.name, one.Name), Raw: one.Raw})
			}
			d.Close(t)
		}
		through := settled(t, c)
		if len(through) != len(want) {
			t.Errorf("%d definitions through the host, want %d", len(through), len(want))
		}
		got := map[string]json.RawMessage{}
		for _, d := range through {
			got[d.Name] = d.Raw
		}
		for _, d := range want {
			server, tool, _ := strings.Cut(d.Name, "_")
			raw, ok := got[d.Name]
			if !ok {
				t.Errorf("%s is not listed", d.Name)
				continue
			}
			if back := hosttest.Rename(t, raw, tool); !bytes.Equal(back, d.Raw) {
				t.Errorf("%s of %s changed on the way:\n%s\nwant\n%s", tool, server, back, d.Raw)
			}
		}
		for _, s := range p.servers(t) {
			if order(through, s.name+"_") != order(want, s.name+"_") {
				t.Errorf("the tools of %s are listed as\n%s\nwant the server's own order\n%s", s.name, order(through, s.name+"_"), order(want, s.name+"_"))
			}
		}
	})
}

// settled is a list that stays the same for a moment: server-everything adds
// tools after it has answered initialize, and says so with list_changed.
func settled(t *testing.T, c hosttest.Client) []hosttest.Definition {
	t.Helper()
	const still = 3 // lists alike, settle apart
	const settle = 100 * time.Millisecond
	list, same := hosttest.Definitions(t, c), 1
	for deadline := time.Now().Add(hosttest.CallLimit); same < still; time.Sleep(settle) {
		next := hosttest.Definitions(t, c)
		same++
		if order(next, "") != order(list, "") {
			list, same = next, 1
		}
		if time.Now().After(deadline) {
			t.Fatal("the list does not settle")
		}
	}
	return list
}

// order lists the names with a prefix in the order they came.
func order(list []hosttest.Definition, prefix string) string {
	var names []string
	for _, d := range list {
		if strings.HasPrefix(d.Name, prefix) {
			names = append(names, d.Name)
		}
	}
	return strings.Join(names, " ")
}

// TestResults compares results byte for byte with the server's own.
func TestResults(t *testing.T) {
	calls := []struct{ server, tool, args string }{
		{"everything", "echo", `{"message":"\u00fc \ud83c\udf09 1.0 9007199254740993 \\ \" <&>"}`},
		{"everything", "get-tiny-image", `{}`},
		{"everything", "get-structured-content", `{"location":"New York"}`},
		{"everything", "get-annotated-message", `{"messageType":"error","includeImage":true}`},
		{"everything", "get-resource-links", `{"count":3}`},
		{"everything", "get-resource-reference", `{"resourceType":"Blob","resourceId":2}`},
		{"everything", "get-sum", `{"a":"no number","b":1}`}, // isError
		{"files", "list_allowed_directories", `{}`},
		{"files", "directory_tree", `{"path":"/nowhere"}`},
		{"memory", "read_graph", `{}`},
		{"browser", "browser_tabs", `{"action":"wrong"}`},
	}
	faces(t, func(t *testing.T, p place, c hosttest.Client) {
		direct := map[string]hosttest.Client{}
		for _, s := range p.servers(t) {
			direct[s.name] = p.direct(t, s)
		}
		for _, one := range calls {
			params := func(name string) string { return fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, one.args) }
			want := direct[one.server].Request(t, "tools/call", params(one.tool))
			got := c.Request(t, "tools/call", params(exposed(one.server, one.tool)))
			if a, b := steady(got), steady(want); a != b {
				t.Errorf("%s %s:\n%s\nwant\n%s", one.server, one.tool, a, b)
			}
		}
	})
}

// steady is a reply's result or error without what changes from call to call.
func steady(r hosttest.Reply) string {
	text := string(r.Result) + string(r.Error)
	// The two resources of get-resource-reference say when they were made.
	if i := strings.Index(text, `"blob":"`); i >= 0 {
		if j := strings.IndexByte(text[i+8:], '"'); j >= 0 {
			text = text[:i+8] + text[i+8+j:]
		}
	}
	return text
}

// TestProgress asks a real server for progress: every step arrives, on its own
// call's stream, in order, before the result, under the client's token.
func TestProgress(t *testing.T) {
	faces(t, func(t *testing.T, _ place, c hosttest.Client) {
		const steps = 4
		r := c.Request(t, "tools/call", fmt.Sprintf(
			`{"name":"everything_trigger-long-running-operation","arguments":{"duration":0.4,"steps":%d},"_meta":{"progressToken":"TOKEN"}}`, steps))
		if r.Error != nil {
			t.Fatalf("%s", r.Error)
		}
		if text := hosttest.ParseResult(t, "long-running", r.Result).Text(); !strings.Contains(text, "completed") {
			t.Errorf("result: %q", text)
		}
		var seen []float64
		for _, n := range r.Notes {
			var p struct {
				ProgressToken json.RawMessage `json:"progressToken"`
				Progress      float64         `json:"progress"`
				Total         float64         `json:"total"`
			}
			if n.Method != "notifications/progress" {
				continue
			}
			if err := json.Unmarshal(n.Params, &p); err != nil || string(p.ProgressToken) != string(r.ID) || p.Total != steps {
				t.Errorf("progress of %s: %s", r.ID, n.Raw)
			}
			seen = append(seen, p.Progress)
		}
		if fmt.Sprint(seen) != "[1 2 3 4]" {
			t.Errorf("progress: %v, want 1 to %d", seen, steps)
		}
	})
}

// TestLogging turns on a real server's log messages: they arrive at the client
// that asked for their level.
func TestLogging(t *testing.T) {
	faces(t, func(t *testing.T, _ place, c hosttest.Client) {
		if r := c.Request(t, "logging/setLevel", `{"level":"debug"}`); r.Error != nil {
			t.Fatalf("logging/setLevel: %s", r.Error)
		}
		// One message comes at once, while the call runs, and one every five seconds from then on.
		r := c.Request(t, "tools/call", `{"name":"everything_toggle-simulated-logging","arguments":{}}`)
		if r.Error != nil || hosttest.ParseResult(t, "toggle", r.Result).IsError {
			t.Fatalf("toggle-simulated-logging: %s", r.Raw)
		}
		for deadline := time.Now().Add(4 * 5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			for _, n := range append(c.Heard(), r.Notes...) {
				if n.Method == "notifications/message" && strings.Contains(string(n.Params), `"level":`) {
					return
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("no log message; heard %d other notifications", len(c.Heard()))
			}
		}
	})
}
