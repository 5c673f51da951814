package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func defs(raw ...string) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(raw))
	for _, r := range raw {
		out = append(out, json.RawMessage(r))
	}
	return out
}

// named makes plain definitions with these names.
func named(names ...string) []json.RawMessage {
	out := make([]json.RawMessage, 0, len(names))
	for _, n := range names {
		quoted, _ := json.Marshal(n)
		out = append(out, json.RawMessage(`{"name":`+string(quoted)+`,"inputSchema":{"type":"object"}}`))
	}
	return out
}

func provider(slug string) Provider { return Provider{Slug: slug, Tools: []string{"*"}} }

func put(t *testing.T, s *Store, slug string, d []json.RawMessage) {
	t.Helper()
	if err := s.Put(slug, "h/"+slug+"/1", d); err != nil {
		t.Fatal(err)
	}
}

func exposedNames(sn *Snapshot) []string {
	var names []string
	for _, tool := range sn.Tools() {
		names = append(names, tool.Exposed)
	}
	return names
}

// TestC048_SchemasStayTheServersOwn: the bytes of a definition are the server's,
// whatever its schema holds.
func TestC048_SchemasStayTheServersOwn(t *testing.T) {
	raw := []string{
		`{"name":"definitions","inputSchema":{"definitions":{"Addr":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/Addr"}}}}`,
		`{"inputSchema":{"$defs":{"Addr":true},"properties":{"a":{"$ref":"#/$defs/Addr"}},"additionalProperties":false},"name":"defs"}`,
		`{ "name" : "oneOf" , "inputSchema":{"oneOf":[{"required":["a"]},{"required":["b"]}],"x-vendor":1,"properties":{"a":true,"b":false}}}`,
		`{"name":"numbers","inputSchema":{"maximum":9223372036854775807,"minimum":-1.0,"x":1e400},"annotations":{"category":"x"},"_meta":{"a":1.50}}`,
		`{"name":"odd","inputSchema":true,"outputSchema":{"type":["array","null"],"items":{"$ref":"#"}},"\u006eame2":"é\u00e9"}`,
	}
	s := New(Options{}, []Provider{provider("p")})
	put(t, s, "p", defs(raw...))
	tools := s.Snapshot().Tools()
	if len(tools) != len(raw) {
		t.Fatalf("%d tools of %d", len(tools), len(raw))
	}
	for i, tool := range tools {
		if string(tool.Raw) != raw[i] {
			t.Errorf("Raw is\n%s, want\n%s", tool.Raw, raw[i])
		}
		back := strings.Replace(string(tool.Listed), `"p_`+tool.Name+`"`, `"`+tool.Name+`"`, 1)
		if back != raw[i] {
			t.Errorf("Listed with the name put back is\n%s, want\n%s", back, raw[i])
		}
	}
}

// TestC053_RequiredStaysAndNothingIsAdded.
func TestC053_RequiredStaysAndNothingIsAdded(t *testing.T) {
	s := New(Options{}, []Provider{provider("p")})
	put(t, s, "p", defs(`{"name":"q","inputSchema":{"type":"object","required":["q"]}}`))
	tool, ok := s.Snapshot().Find("p_q")
	if !ok {
		t.Fatal("p_q is not there")
	}
	if want := `{"name":"p_q","inputSchema":{"type":"object","required":["q"]}}`; string(tool.Listed) != want {
		t.Errorf("listed as %s, want %s", tool.Listed, want)
	}
}

// TestC054_TwoProvidersWithTheSameTool: both are there, under names that depend
// on neither order nor company.
func TestC054_TwoProvidersWithTheSameTool(t *testing.T) {
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		s := New(Options{}, []Provider{provider(order[0]), provider(order[1])})
		for _, slug := range order {
			put(t, s, slug, named("search"))
		}
		sn := s.Snapshot()
		if diff := cmp.Diff([]string{"a_search", "b_search"}, exposedNames(sn)); diff != "" {
			t.Errorf("order %v: %s", order, diff)
		}
		for _, slug := range order {
			if tool, ok := sn.Find(slug + "_search"); !ok || tool.Provider != slug || tool.Name != "search" {
				t.Errorf("%s_search is %+v", slug, tool)
			}
		}
		put(t, s, "b", nil)
		if diff := cmp.Diff([]string{"a_search"}, exposedNames(s.Snapshot())); diff != "" {
			t.Errorf("without b: %s", diff)
		}
	}
}

// TestC054_BareNamesThatClashAreHidden: no tool takes another's name.
func TestC054_BareNamesThatClashAreHidden(t *testing.T) {
	var log bytes.Buffer
	s := New(Options{Names: NamesBare, Reserved: []string{"read_artifact"}, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		[]Provider{provider("a"), provider("b")})
	put(t, s, "a", named("search", "only.a", "read_artifact"))
	put(t, s, "b", named("search", "only_b"))
	sn := s.Snapshot()
	if diff := cmp.Diff([]string{"only.a", "read_artifact_" + hash8("read_artifact"), "only_b"}, exposedNames(sn)); diff != "" {
		t.Error(diff)
	}
	clashes := sn.Clashes()
	if len(clashes) != 1 || clashes[0].Exposed != "search" || len(clashes[0].Tools) != 2 {
		t.Errorf("clashes: %+v", clashes)
	}
	if _, ok := sn.Find("search"); ok {
		t.Error("a name that clashes is found")
	}
	if !strings.Contains(log.String(), "a/search b/search") {
		t.Errorf("the clash is not reported with both names: %s", &log)
	}
	put(t, s, "b", named("only_b"))
	if _, ok := s.Snapshot().Find("search"); !ok {
		t.Error("search stays hidden when the other one is gone")
	}
}

func TestPutHidesWhatIsOfNoUseAndNothingElse(t *testing.T) {
	s := New(Options{}, []Provider{provider("p")})
	put(t, s, "p", defs(
		`{"name":"good"}`,
		`[]`, `"x"`, `null`, `{"name":"x"}{}`,
		`{}`,
		`{"name":7}`, `{"name":null}`,
		`{"name":"a","name":"b"}`,
		`{"name":"a","\u006eame":"b"}`,
		`{"name":"\ud800"}`,
		`{"name":"good","description":"again"}`,
		`{"name":"dup inside","inputSchema":{"a":1,"a":2},"description":"\ud800"}`,
	))
	sn := s.Snapshot()
	if diff := cmp.Diff([]string{"p_good", "p_dup_inside_" + hash8("dup inside")}, exposedNames(sn)); diff != "" {
		t.Error(diff)
	}
	if got := len(sn.Hidden()); got != 11 {
		t.Errorf("%d hidden, want 11: %+v", got, sn.Hidden())
	}
	if tool, _ := sn.Find("p_dup_inside_" + hash8("dup inside")); !strings.HasPrefix(tool.Digest, "raw:") {
		t.Errorf("digest of what is not I-JSON: %s", tool.Digest)
	}
}

func TestEffectful(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"name":"x"}`: true,
		`{"name":"x","annotations":{"readOnlyHint":true}}`:                                    false,
		`{"name":"x","annotations":{"readOnlyHint":false}}`:                                   true,
		`{"name":"x","annotations":{"readOnlyHint":"true"}}`:                                  true,
		`{"name":"x","annotations":{"readonlyhint":true}}`:                                    true,
		`{"name":"x","annotations":{"readOnlyHint":true,"readOnlyHint":false}}`:               true,
		`{"name":"x","annotations":{"readOnlyHint":false,"readOnlyHint":true}}`:               true,
		`{"name":"x","annotations":{"readOnlyHint":true},"annotations":{}}`:                   true,
		`{"name":"x","annotations":{},"annotations":{"readOnlyHint":true}}`:                   true,
		`{"name":"x","annotations":null}`:                                                     true,
		`{"name":"x","annotations":[true]}`:                                                   true,
		`{"name":"x","annotations":{"destructiveHint":true,"\u0072eadOnlyHint":true,"x":{}}}`: false,
	} {
		d, err := readDefinition(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		if d.effectful != want {
			t.Errorf("%s: effectful %v", raw, d.effectful)
		}
	}
	d, _ := readDefinition(json.RawMessage(`{"name":"x","annotations": {"a": 1} }`))
	if string(d.annotations) != `{"a": 1}` {
		t.Errorf("annotations: %s", d.annotations)
	}
}

func TestDigestIsOfTheCanonicalForm(t *testing.T) {
	same := []string{
		`{"name":"x","inputSchema":{"b":1,"a":"é"}}`,
		`{ "inputSchema" : {"a":"\u00e9","b":1}, "na\u006de":"x" }`,
	}
	if DigestTool(json.RawMessage(same[0])) != DigestTool(json.RawMessage(same[1])) {
		t.Error("the same definition has two digests")
	}
	different := []string{
		`{"name":"x","a":9007199254740993}`, `{"name":"x","a":9007199254740992}`,
		`{"name":"x","a":1}`, `{"name":"x","a":1.0}`, `{"name":"x","a":10e-1}`, `{"name":"x","a":"1"}`,
		`{"name":"x","a":0}`, `{"name":"x","a":-0}`,
		`{"name":"x","a":1,"a":1}`,
	}
	seen := map[string]string{}
	for _, raw := range different {
		d := DigestTool(json.RawMessage(raw))
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", raw, other)
		}
		seen[d] = raw
	}
	// Fixed for ever: lock files hold digests.
	if got := DigestTool(json.RawMessage(`{ "name":"x" }`)); got != sha("tool\n"+`{"name":"x"}`) {
		t.Errorf("digest %s", got)
	}
}

func TestExposureNarrows(t *testing.T) {
	s := New(Options{}, []Provider{
		{Slug: "a", Tools: []string{"browser_*", "x"}, Except: []string{"*_install", "browser_run_*"}},
		{Slug: "none"},
	})
	put(t, s, "a", named("browser_click", "browser_install", "browser_run_code", "x", "xy"))
	put(t, s, "none", named("tool"))
	if diff := cmp.Diff([]string{"a_browser_click", "a_x"}, exposedNames(s.Snapshot())); diff != "" {
		t.Error(diff)
	}
	if !s.Snapshot().Known("none") {
		t.Error("a list of which nothing is exposed is a list")
	}
}

func TestOnChangeOnlyWhenTheViewChanged(t *testing.T) {
	changes := 0
	s := New(Options{OnChange: func() { changes++ }}, []Provider{{Slug: "p", Tools: []string{"*"}, Except: []string{"secret*"}}})
	steps := []struct {
		defs []json.RawMessage
		want int
	}{
		{named("secret1"), 0},
		{named("a", "b"), 1},
		{named("a", "b"), 1},
		{named("a", "secret2", "b"), 1},
		{named("b", "a"), 2},
		{defs(`{"name":"b","description":"new"}`, `{"name":"a"}`), 3},
		{nil, 4},
	}
	for i, step := range steps {
		put(t, s, "p", step.defs)
		if changes != step.want {
			t.Errorf("step %d: %d changes, want %d", i, changes, step.want)
		}
	}
}

func TestSnapshotOfNothing(t *testing.T) {
	s := New(Options{}, []Provider{provider("p")})
	sn := s.Snapshot()
	if _, ok := sn.Find("p_x"); ok || sn.Known("p") || len(sn.Tools()) != 0 {
		t.Error("a fresh store holds something")
	}
	if err := s.Put("q", "", nil); !errors.Is(err, ErrUnknownProvider) {
		t.Errorf("Put of an unknown provider: %v", err)
	}
	put(t, s, "p", nil)
	if !s.Snapshot().Known("p") || sn.Known("p") {
		t.Error("an empty list is a list, and an old snapshot does not change")
	}
	if mark, _ := s.Snapshot().Instance("p"); mark != "h/p/1" {
		t.Errorf("instance %q", mark)
	}
}

// TestPutAndReadAtOnce: every snapshot that a reader sees is whole.
func TestPutAndReadAtOnce(t *testing.T) {
	s := New(Options{}, []Provider{provider("a"), provider("b")})
	var writers sync.WaitGroup
	for _, slug := range []string{"a", "b"} {
		writers.Go(func() {
			for i := range 200 {
				names := []string{}
				for n := range i % 7 {
					names = append(names, fmt.Sprintf("t%d", n))
				}
				if err := s.Put(slug, "i", named(names...)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for {
		sn := s.Snapshot()
		for _, tool := range sn.Tools() {
			if found, ok := sn.Find(tool.Exposed); !ok || found != tool {
				t.Fatalf("%s is listed and not found", tool.Exposed)
			}
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func BenchmarkPut(b *testing.B) {
	s := New(Options{}, []Provider{provider("p")})
	var list []json.RawMessage
	for i := range 500 {
		list = append(list, json.RawMessage(fmt.Sprintf(
			`{"name":"tool_%d","description":"does something or other","inputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"}},"required":["a"]}}`, i)))
	}
	for b.Loop() {
		if err := s.Put("p", "i", list); err != nil {
			b.Fatal(err)
		}
	}
}

// TestOutputSchemasAreToldOf once while they stay the same, and again when they change.
func TestOutputSchemasAreToldOf(t *testing.T) {
	var got []string
	s := New(Options{OutputSchema: func(provider, tool, digest string, schema []byte) {
		if len(digest) < 64 {
			t.Errorf("digest %q", digest)
		}
		got = append(got, provider+" "+tool+" "+string(schema))
	}}, []Provider{{Slug: "p", Tools: []string{"*"}, Except: []string{"kept"}}, provider("q")})
	check := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		got = nil
	}
	list := func(schema string) []json.RawMessage {
		return defs(`{"name":"a","outputSchema":`+schema+`}`, `{"name":"b"}`, `{"name":"c","outputSchema":null}`, `{"name":"kept","outputSchema":{}}`,
			`{"name":"twice","outputSchema":{},"outputSchema":{}}`)
	}
	put(t, s, "p", list(`{ "type":"x"}`))
	check(`p a { "type":"x"}`)
	put(t, s, "p", list(`{ "type":"x"}`))
	put(t, s, "q", named("z"))
	s.Apply([]Provider{{Slug: "p", Tools: []string{"*"}, Except: []string{"kept"}}, provider("q")})
	check()
	put(t, s, "p", list(`true`))
	check(`p a true`)
	put(t, s, "q", defs(`{"name":"a","outputSchema":true}`))
	check(`q a true`)
	for _, tool := range s.Snapshot().Tools() {
		if twice := tool.Name == "twice"; tool.Structured != (tool.Name == "a" || twice) || (tool.OutputSchema != nil) != (tool.Name == "a") {
			t.Errorf("%s/%s: %v, %s", tool.Provider, tool.Name, tool.Structured, tool.OutputSchema)
		}
	}
}
