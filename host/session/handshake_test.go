package session

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

func mute(*server, *rpc.Message) {}

// after answers a method with a result d later, without holding up the server.
func after(d time.Duration, answer func(s *server, m *rpc.Message)) func(*server, *rpc.Message) {
	return func(s *server, m *rpc.Message) {
		conn := s.conn
		conn.done.Go(func() {
			select {
			case <-time.After(d):
				answer(s, m)
			case <-conn.ctx.Done():
			}
		})
	}
}

func refuse(code int, text string) func(*server, *rpc.Message) {
	return func(s *server, m *rpc.Message) { s.refuse(m, code, text) }
}

func discovered(versions string) func(*server, *rpc.Message) {
	return func(s *server, m *rpc.Message) {
		s.result(m, `{"resultType":"complete","supportedVersions":`+versions+`,"capabilities":{"tools":{}}}`)
	}
}

func failed(code int, data string) func(*server, *rpc.Message) {
	return func(s *server, m *rpc.Message) {
		s.conn.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no","data":%s}}`, m.ID, code, data))
	}
}

// TestC115_Negotiation: every kind of server there is, and what is agreed on.
func TestC115_Negotiation(t *testing.T) {
	const bound = 30 * time.Second // start_timeout
	for name, c := range map[string]struct {
		setup func(s *server)
		// want is the revision, or with a blank in it a part of the failure.
		want string
		era  Era
		took time.Duration
	}{
		"legacy": {func(*server) {}, "2025-11-25", Legacy, 0},
		"a fixed old version": {func(s *server) {
			s.version = "2024-11-05"
		}, "2024-11-05", Legacy, 0},
		"a version of the future": {func(s *server) {
			s.version = "2099-01-01"
		}, `protocol version "2099-01-01", which`, 0, 0},
		"a modern version to initialize": {func(s *server) {
			s.version = "2026-07-28"
		}, `protocol version "2026-07-28", which`, 0, 0},
		"a version before the first": {func(s *server) {
			s.version = "2024-10-07"
		}, `protocol version "2024-10-07", which`, 0, 0},
		"-32603 to discover": {func(s *server) {
			s.when(methodDiscover, refuse(-32603, "internal"))
		}, "2025-11-25", Legacy, 0},
		"a strange result to discover": {func(s *server) {
			s.when(methodDiscover, func(s *server, m *rpc.Message) { s.result(m, `{"ok":true}`) })
		}, "2025-11-25", Legacy, 0},
		"malformed to discover": {func(s *server) {
			s.when(methodDiscover, func(s *server, m *rpc.Message) {
				s.conn.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":null}`)
			})
		}, "2025-11-25", Legacy, 0},
		"silent on discover, speaks on stderr": {func(s *server) {
			s.when(methodDiscover, func(s *server, _ *rpc.Message) { s.conn.event(provider.Spoke{}) })
		}, "2025-11-25", Legacy, probeLimit},
		"silent on discover, asks something": {func(s *server) {
			s.when(methodDiscover, func(s *server, _ *rpc.Message) { s.conn.say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`) })
		}, "2025-11-25", Legacy, probeLimit},
		"silent on discover altogether": {func(s *server) {
			s.when(methodDiscover, mute)
		}, "2025-11-25", Legacy, bound / 2},
		"refuses the newest legacy version": {func(s *server) {
			s.when(methodInitialize, func(s *server, m *rpc.Message) {
				if v, _ := m.GetString("params", "protocolVersion"); v != "2025-03-26" {
					failed(-32602, `{"supported":["2025-03-26"],"requested":"2025-11-25"}`)(s, m)
					return
				}
				s.result(m, `{"protocolVersion":"2025-03-26","capabilities":{"tools":{}}}`)
			})
		}, "2025-03-26", Legacy, 0},
		"refuses every version": {func(s *server) {
			s.when(methodInitialize, failed(-32602, `{"supported":["2025-03-26"]}`))
		}, "the server answered with error -32602: no", 0, 0},
		"no version": {func(s *server) {
			s.when(methodInitialize, func(s *server, m *rpc.Message) { s.result(m, `{}`) })
		}, "names no protocolVersion", 0, 0},

		"takes nothing, and then ends": {func(s *server) {
			s.when(methodDiscover, func(s *server, _ *rpc.Message) { s.conn.event(provider.Undelivered{Seq: 1}) })
			s.when(methodInitialize, func(s *server, m *rpc.Message) {
				s.conn.event(provider.Undelivered{Seq: 2, Reason: "it has closed its standard input"})
				after(100*time.Millisecond, func(s *server, _ *rpc.Message) {
					s.conn.event(provider.Exited{Status: provider.ExitStatus{Code: 7, StderrTail: "the database is locked"}})
				})(s, m)
			})
		}, "exited with code 7: the database is locked", 0, 100 * time.Millisecond},
		"takes nothing, and stays": {func(s *server) {
			s.when(methodInitialize, func(s *server, _ *rpc.Message) {
				s.conn.event(provider.Undelivered{Seq: 2, Reason: "it has closed its standard input"})
			})
		}, "it has closed its standard input", 0, exitPatience},

		"modern": {func(s *server) {
			s.modern = []string{"2026-07-28", "2025-11-25"}
		}, "2026-07-28", Modern, 0},
		"modern that offers only older ones": {func(s *server) {
			s.when(methodDiscover, discovered(`["2025-06-18","2025-11-25"]`))
		}, "2025-11-25", Legacy, 0},
		"modern of the future": {func(s *server) {
			s.when(methodDiscover, discovered(`["2031-01-01"]`))
		}, `protocol version "2031-01-01", which`, 0, 0},
		"-32022 with older ones": {func(s *server) {
			s.when(methodDiscover, failed(-32022, `{"supported":["2025-11-25"],"requested":"2026-07-28"}`))
		}, "2025-11-25", Legacy, 0},
		"-32022 with newer ones": {func(s *server) {
			s.when(methodDiscover, failed(-32022, `{"supported":["2031-01-01"]}`))
		}, `protocol version "2031-01-01", which`, 0, 0},
		"-32021": {func(s *server) {
			s.when(methodDiscover, failed(-32021, `{}`))
		}, "server/discover: the server answered with error -32021: no", 0, 0},
		"modern that boots slowly and says nothing": {func(s *server) {
			s.when(methodDiscover, after(12*time.Second, discovered(`["2026-07-28"]`)))
		}, "2026-07-28", Modern, 12 * time.Second},
		"modern that boots slowly and logs": {func(s *server) {
			// It reads both requests at 5 s, and has no initialize.
			s.when(methodDiscover, func(s *server, m *rpc.Message) {
				s.conn.event(provider.Spoke{})
				after(5*time.Second, discovered(`["2026-07-28"]`))(s, m)
			})
			s.when(methodInitialize, after(3*time.Second, refuse(-32601, "Method not found")))
		}, "2026-07-28", Modern, 5 * time.Second},
		"modern that refuses initialize first": {func(s *server) {
			s.when(methodDiscover, func(s *server, m *rpc.Message) {
				s.conn.event(provider.Spoke{})
				after(3*time.Second, discovered(`["2026-07-28"]`))(s, m)
			})
			s.when(methodInitialize, refuse(-32600, "no"))
		}, "2026-07-28", Modern, 3 * time.Second},
		"modern that ignores initialize": {func(s *server) {
			s.when(methodDiscover, func(s *server, m *rpc.Message) {
				s.conn.event(provider.Spoke{})
				after(4*time.Second, discovered(`["2026-07-28"]`))(s, m)
			})
			s.when(methodInitialize, mute)
		}, "2026-07-28", Modern, 4*time.Second + probeLimit},
		"of both eras, slow": {func(s *server) {
			s.when(methodDiscover, func(s *server, m *rpc.Message) {
				s.conn.event(provider.Spoke{})
				after(4*time.Second, discovered(`["2026-07-28","2025-11-25"]`))(s, m)
			})
			s.when(methodInitialize, after(3*time.Second, func(s *server, m *rpc.Message) {
				s.result(m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}`)
			}))
		}, "2025-11-25", Legacy, 5 * time.Second},
		"refuses initialize and never answers discover": {func(s *server) {
			s.when(methodDiscover, func(s *server, _ *rpc.Message) { s.conn.event(provider.Spoke{}) })
			s.when(methodInitialize, refuse(-32000, "go away"))
		}, "error -32000: go away", 0, 2 * probeLimit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				c.setup(s)
				h := oneServer(t, s, func(sp *Spec) { sp.StartTimeout = bound; sp.Restart.Intensity = 0 })
				begun := time.Now()
				i, err := h.manager.Get(t.Context(), "p")
				if took := time.Since(begun); took != c.took {
					t.Errorf("it took %s, want %s", took, c.took)
				}
				if c.era == 0 {
					wantFailure(t, err, supervise.PhaseInitialize, c.want)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := i.Server(); got.Version != c.want || got.Era != c.era {
					t.Errorf("agreed on %s, %s", got.Version, got.Era)
				}
				if n := len(s.received(methodCancelled)); n != 0 {
					t.Errorf("%d cancellations", n)
				}
				if n := len(s.received(methodInitialized)); (n == 1) != (c.era == Legacy) {
					t.Errorf("%d initialized", n)
				}
			})
		})
	}
}

func TestTheOrderOfALegacyStart(t *testing.T) {
	s := newServer(t)
	h := oneServer(t, s)
	h.manager.SetLogLevel("warning")
	i := h.get("p")
	want := []string{methodDiscover, methodInitialize, methodInitialized, methodSetLevel, methodListTools}
	if got := s.methods(); !equal(got, want) {
		t.Errorf("the server got %v, want %v", got, want)
	}
	init := text(t, s.received(methodInitialize)[0])
	if want := `"params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"drawbridge","version":"1.2.3"}}`; !contains(init, want) {
		t.Errorf("initialize: %s", init)
	}
	got := i.Server()
	if string(got.Capabilities) != s.caps || string(got.Info) != `{"name":"fake","x":1.0}` || got.Instructions != "use it" {
		t.Errorf("kept: %s, %s, %q", got.Capabilities, got.Info, got.Instructions)
	}
}

func TestTheOrderOfAModernStart(t *testing.T) {
	s := newServer(t)
	s.modern = []string{"2026-07-28"}
	h := oneServer(t, s)
	h.manager.SetLogLevel("warning")
	i := h.get("p")
	want := []string{methodDiscover, methodListen, methodListTools}
	if got := s.methods(); !equal(got, want) {
		t.Errorf("the server got %v, want %v", got, want)
	}
	for _, m := range s.received("") {
		got := text(t, m)
		for _, part := range []string{
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28"`,
			`"io.modelcontextprotocol/clientInfo":{"name":"drawbridge","version":"1.2.3"}`,
			`"io.modelcontextprotocol/clientCapabilities":{}`,
		} {
			if !contains(got, part) {
				t.Errorf("%s without %s", got, part)
			}
		}
	}
	if got := text(t, s.received(methodListen)[0]); !contains(got, `"notifications":{"toolsListChanged":true}`) {
		t.Errorf("listen: %s", got)
	}
	got := i.Server()
	if string(got.Capabilities) != s.caps || string(got.Info) != `{"name":"fake"}` || got.Instructions != "use it" {
		t.Errorf("kept: %s, %s, %q", got.Capabilities, got.Info, got.Instructions)
	}
	s.setTools(`{"name":"new"}`)
	eventually(t, "the list is read again", func() bool { return len(h.lists()) == 2 })
}

// TestASubscriptionThatIsNotAcknowledged: what the server does with it costs the
// start a moment at most.
func TestASubscriptionThatIsNotAcknowledged(t *testing.T) {
	for name, c := range map[string]struct {
		listen func(*server, *rpc.Message)
		took   time.Duration
	}{
		"refused":  {refuse(-32601, "Method not found"), 0},
		"ended":    {func(s *server, m *rpc.Message) { s.result(m, `{}`) }, 0},
		"silent":   {mute, probeLimit},
		"honoured": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.modern = []string{"2026-07-28"}
				s.when(methodListen, c.listen)
				h := oneServer(t, s)
				begun := time.Now()
				h.get("p")
				if took := time.Since(begun); took != c.took {
					t.Errorf("it took %s, want %s", took, c.took)
				}
			})
		})
	}
}

func TestAServerThatSaysNothingIsLeftHalfTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.when(methodDiscover, mute)
		h := oneServer(t, s, func(sp *Spec) { sp.StartTimeout = time.Second })
		begun := time.Now()
		h.get("p")
		if took := time.Since(begun); took != 500*time.Millisecond {
			t.Errorf("initialize came after %s", took)
		}
	})
}
