package crossing

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// named are definitions of tools by their names, in a file for a fake server.
func named(t testing.TB, p hosttest.Place, file string, names ...string) []string {
	t.Helper()
	var defs []string
	for _, name := range names {
		defs = append(defs, fmt.Sprintf(`{"name":%s,"inputSchema":{"type":"object"}}`, encoded(name)))
	}
	return []string{"--tools-file", p.Write(t, file, "["+strings.Join(defs, ",")+"]")}
}

// toolsReceived are the names of the tools that a fake server was asked to call.
func toolsReceived(t testing.TB, p hosttest.Place, provider string) []string {
	t.Helper()
	var out []string
	for _, m := range received(t, p, provider) {
		var params struct{ Name string }
		if err := json.Unmarshal(m.Params, &params); err != nil {
			t.Error(err)
		}
		out = append(out, params.Name)
	}
	return out
}

// TestC054_TwoProvidersWithTheSameTool have two names, whatever the order in which
// they are declared, and whether the other is there; a restart changes neither.
// (Removing one from a running host comes with reload, permissions with grants.)
func TestC054_TwoProvidersWithTheSameTool(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		args := append([]string{"--tools", "exit"}, named(t, p, "tools.json", "search")...)
		a, b := provider{name: "a", args: args}, provider{name: "b", args: args}
		for i, order := range [][]provider{{a, b}, {b, a}} {
			c := open(config(t, p, "", order...))
			if got := names(t, c); !slices.Equal(got, []string{"a_exit", "a_search", "b_exit", "b_search"}) {
				t.Errorf("listed: %v", got)
			}
			for _, one := range []string{"a", "b"} {
				if got := textOf(t, tool(t, c, one+"_search", `{"text":"from `+one+`"}`)); got != "from "+one {
					t.Errorf("%s_search: %q", one, got)
				}
				calls := received(t, p, one)
				if len(calls) != i+1 || !strings.Contains(string(calls[i].Params), "from "+one) {
					t.Errorf("%s received %+v", one, calls)
				}
			}
			leave(t, c)
		}
		c := open(config(t, p, "", a))
		first := starts(logged(t, p, "a"))
		errorOf(t, tool(t, c, "a_exit", "{}")) // it comes back
		if got := textOf(t, tool(t, c, "a_search", `{"text":"again"}`)); got != "again" {
			t.Errorf("a_search without b, after a restart: %q", got)
		}
		if got := names(t, c); !slices.Equal(got, []string{"a_exit", "a_search"}) {
			t.Errorf("without b, after a restart: %v", got)
		}
		if n := starts(logged(t, p, "a")) - first; n != 2 {
			t.Errorf("%d starts, want two", n)
		}
	})
}

// TestC056_NamesOverTheLimit are shortened, stay apart, and are the same in every
// order and run; the server gets its own, and a command tells which is which.
func TestC056_NamesOverTheLimit(t *testing.T) {
	long := strings.Repeat("long_tool_name_", 4)[:57]
	tools := []string{long + "one", long + "two"}
	for _, limit := range []int{64, 40} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
				fake := provider{name: "twenty-characters-xy", args: append([]string{"--tools", "none"}, named(t, p, "tools.json", tools...)...)}
				host := fmt.Sprintf("name_max = %d", limit)
				var all []string
				for _, order := range [][]provider{{fake, {name: "zebra"}}, {{name: "ape"}, fake}} {
					c := open(config(t, p, host, order...))
					var exposed []string
					for _, name := range names(t, c) {
						if strings.HasPrefix(name, fake.name) {
							exposed = append(exposed, name)
						}
						if len(name) > limit {
							t.Errorf("%s has %d characters", name, len(name))
						}
					}
					if len(exposed) != 2 || exposed[0] == exposed[1] || all != nil && !slices.Equal(exposed, all) {
						t.Fatalf("exposed: %v, before %v", exposed, all)
					}
					all = exposed
					for _, name := range exposed {
						textOf(t, tool(t, c, name, "{}"))
					}
					leave(t, c)
				}
				if got, want := toolsReceived(t, p, fake.name), append(tools, tools...); !slices.Equal(got, want) {
					t.Errorf("the server was asked for %v, want %v", got, want)
				}
				// A configuration that no host runs: the command starts servers of its own.
				alone := p.Write(t, "alone.hcl", hostBlock(p, host)+blocks(t, p, fake))
				out, err := hosttest.Output(t, p.Command(t, "tools", "--json", "--config", alone))
				if err != nil {
					t.Fatal(err)
				}
				var list struct {
					Tools []struct{ Name, Provider, Tool string }
				}
				if err := json.Unmarshal([]byte(out), &list); err != nil {
					t.Fatal(err)
				}
				for i, one := range list.Tools {
					if one.Name != all[i] || one.Tool != tools[i] || one.Provider != fake.name {
						t.Errorf("tools --json: %+v", one)
					}
				}
			})
		})
	}
}

// TestC057_CleanedNamesCanBeCalled: names outside of the alphabet become names in
// it that stay apart, and the server gets the originals.
func TestC057_CleanedNamesCanBeCalled(t *testing.T) {
	tools := []string{"git.get-commit", "do thing", "notion/search", "notion.search", "notion_search", "naïve"}
	alphabet := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", provider{
			name: "Home Assistant", args: append([]string{"--tools", "none"}, named(t, p, "tools.json", tools...)...),
		}))
		exposed := names(t, c)
		seen := map[string]bool{}
		for _, name := range exposed {
			if seen[name] || !alphabet.MatchString(name) || !strings.HasPrefix(name, "home-assistant_") {
				t.Errorf("exposed: %q", exposed)
			}
			seen[name] = true
			if got := textOf(t, tool(t, c, name, `{"text":"called"}`)); got != "called" {
				t.Errorf("%s: %q", name, got)
			}
		}
		if got := toolsReceived(t, p, "Home Assistant"); !slices.Equal(got, tools) {
			t.Errorf("the server was asked for %q, want %q", got, tools)
		}
	})
}
