package session

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

func manyTools(n int) []string {
	var defs []string
	for i := range n {
		defs = append(defs, fmt.Sprintf(`{"name":"t%d","x": 1.0}`, i))
	}
	return defs
}

// TestC099_AllPages: in order, byte for byte, with the cursors as they came.
func TestC099_AllPages(t *testing.T) {
	for _, modern := range [][]string{nil, {"2026-07-28"}} {
		s := newServer(t)
		s.modern, s.tools, s.pageLen = modern, manyTools(120), 50
		h := oneServer(t, s)
		h.get("p")
		if lists := h.lists(); len(lists) != 1 || !equal(lists[0].defs, s.tools) {
			t.Errorf("lists: %v", lists)
		}
		if n := len(s.received(methodListTools)); n != 3 {
			t.Errorf("%d requests", n)
		}
		if got := string(s.received(methodListTools)[2].Get("params", "cursor")); got != `"from 100"` {
			t.Errorf("the last cursor: %s", got)
		}
	}
}

// TestC099_AFailureInTheMiddleIsNoList: it is asked again, from the beginning, on
// the same instance.
func TestC099_AFailureInTheMiddleIsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.tools, s.pageLen = manyTools(120), 50
		asked := 0
		s.when(methodListTools, func(s *server, m *rpc.Message) {
			if asked++; asked == 2 || asked == 4 {
				s.refuse(m, -32603, "page lost")
				return
			}
			s.list(m)
		})
		h := oneServer(t, s, func(sp *Spec) { sp.Restart.Backoff = time.Second })
		got := make(chan *Instance, 1)
		go func() { got <- h.get("p") }()
		synctest.Wait()
		if len(h.lists()) != 0 {
			t.Error("half a list was heard of")
		}
		st, _ := h.manager.State("p")
		if st.Name != "starting" || st.Failure == nil || st.Failure.Phase != supervise.PhaseList || !contains(st.Failure.Error(), "error -32603: page lost") {
			t.Errorf("state while the list is asked for again: %+v, %v", st, st.Failure)
		}
		i := <-got
		if lists := h.lists(); len(lists) != 1 || len(lists[0].defs) != 120 {
			t.Errorf("lists: %v", lists)
		}
		if asked != 7 || i.Mark() != "h/p/1" || h.started("p") != 1 {
			t.Errorf("asked %d times, %d starts", asked, h.started("p"))
		}
		if st, _ := h.manager.State("p"); st.Name != "ready" || st.Failure != nil {
			t.Errorf("state: %+v", st)
		}
	})
}

func TestListsThatAreNone(t *testing.T) {
	page := func(result string) func(*server, *rpc.Message) {
		return func(s *server, m *rpc.Message) { s.result(m, result) }
	}
	for name, c := range map[string]struct {
		list func(*server, *rpc.Message)
		want string
	}{
		"the same cursor":  {page(`{"tools":[],"nextCursor":"x"}`), "the same nextCursor twice"},
		"cursor no string": {page(`{"tools":[],"nextCursor":1}`), "nextCursor is no string"},
		"no array":         {page(`{"tools":{}}`), `no array "tools"`},
		"no tools":         {page(`{}`), `no array "tools"`},
		"refused":          {refuse(-32000, "not today"), "error -32000: not today"},
		"too many pages": {func() func(*server, *rpc.Message) {
			n := 0
			return func(s *server, m *rpc.Message) { n++; s.result(m, fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, n)) }
		}(), "max_pages = 7"},
		"too many definitions": {page(`{"tools":[` + strings.Repeat(`{},`, 20) + `{}]}`), "max_definitions = 20"},
		"too many bytes":       {page(`{"tools":[{"x":"` + strings.Repeat("x", 2000) + `"}]}`), "max_list_bytes = 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.when(methodListTools, c.list)
				h := oneServer(t, s, func(sp *Spec) {
					sp.StartTimeout, sp.Restart.Backoff, sp.Restart.Intensity = 3*time.Second, time.Second, 0
					sp.MaxPages, sp.MaxDefinitions, sp.MaxListBytes = 7, 20, 1000
				})
				begun := time.Now()
				_, err := h.manager.Get(t.Context(), "p")
				wantFailure(t, err, supervise.PhaseList, c.want)
				if took := time.Since(begun); took != 3*time.Second {
					t.Errorf("given up after %s", took)
				}
				if len(h.lists()) != 0 {
					t.Error("a list was heard of")
				}
			})
		})
	}
}

func TestListsThatAreOdd(t *testing.T) {
	for result, want := range map[string]int{
		`{"tools":[]}`: 0,
		`{"tools":[1,"x",null,{"name":"a","name":"b"}]}`:    4, // whether they are of use is the catalog's to say
		`{"tools":[{"name":"a"}],"nextCursor":null}`:        1,
		`{"tools":[{"name":"a"}],"nextCursor":""}`:          1,
		`{"nextCursor":null,"tools" : [ {"name":"a"} , 1]}`: 2,
	} {
		s := newServer(t)
		s.when(methodListTools, func(s *server, m *rpc.Message) { s.result(m, result) })
		h := oneServer(t, s)
		h.get("p")
		if lists := h.lists(); len(lists) != 1 || len(lists[0].defs) != want {
			t.Errorf("%s: %v", result, lists)
		}
	}
}

func TestAListThatIsNotDeclaredIsNotAskedFor(t *testing.T) {
	s := newServer(t)
	s.caps = `{"logging":{}}`
	h := oneServer(t, s)
	h.get("p")
	if n := len(s.received(methodListTools)); n != 0 {
		t.Errorf("asked %d times", n)
	}
	if lists := h.lists(); len(lists) != 1 || len(lists[0].defs) != 0 {
		t.Errorf("lists: %v", lists)
	}
}
