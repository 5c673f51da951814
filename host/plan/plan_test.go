package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
)

const twoProviders = `
provider "browser" {
  plugin = "stdio"
  config {
    command = "x"
  }
  session {
    scope = "shared"
  }
}
provider "shop" {
  plugin = "stdio"
  config {
    command = "x"
  }
}
`

const access2 = `
principal "ana" {
  token_sha256 = "` + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + `"
}
principal "bo" {
  token_sha256 = "` + "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb" + `"
}
project "site" {
  names = "bare"
  grant {
    principals = ["ana", "bo"]
    provider   = "browser"
    tools      = ["*"]
    except     = ["close"]
  }
  grant {
    principals = ["bo"]
    provider   = "shop"
    tools      = ["*"]
  }
}
`

// input is a configuration whose providers list the tools given, by slug.
func input(t *testing.T, text string, tools map[string][]string) Input {
	t.Helper()
	path := filepath.Join(t.TempDir(), "providers.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, diags := config.Load(path)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var providers []catalog.Provider
	for _, p := range cfg.Providers {
		providers = append(providers, catalog.Provider{Slug: p.Slug, Tools: p.Tools, Except: p.Except})
	}
	store := catalog.New(catalog.Options{}, providers)
	for slug, names := range tools {
		var defs []json.RawMessage
		for _, name := range names {
			defs = append(defs, json.RawMessage(name))
		}
		if err := store.Put(slug, slug+"/1", defs); err != nil {
			t.Fatal(err)
		}
	}
	return Input{
		Config: cfg, Policy: access.New(access.From(cfg)), Catalog: store.Snapshot(), LockPath: lock.PathFor(path),
		Started: map[string]Start{"browser": {Command: "x", Source: Live}, "shop": {Command: "x", Source: Live}},
	}
}

func tool(name string) string { return `{"name":"` + name + `","description":"d"}` }

var listed = map[string][]string{"browser": {tool("click"), tool("close"), tool("open")}, "shop": {tool("pay"), tool("open")}}

func TestWhatEachPrincipalWouldSee(t *testing.T) {
	r := Make(input(t, twoProviders+access2, listed))
	want := []Project{{Name: "site", Principals: []Principal{
		{Name: "ana", Tools: []string{"click", "open"}},
		{Name: "bo", Tools: []string{"click", "pay"}}, // both have a tool "open"
	}}}
	if diff := cmp.Diff(want, r.Projects); diff != "" {
		t.Errorf("projects (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Clash{{Name: "open", Tools: []string{"browser/open", "shop/open"}, Project: "site"}}, r.Clashes); diff != "" {
		t.Errorf("clashes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Shared{{Provider: "browser", With: []string{"ana in site", "bo in site"}}}, r.Shared); diff != "" {
		t.Errorf("shared (-want +got):\n%s", diff)
	}
	if errs := r.Errors(); len(errs) != 1 || !strings.Contains(errs[0], "browser/open and shop/open") {
		t.Errorf("errors: %v", errs)
	}
	var out bytes.Buffer
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"Project site", "  ana sees 2 tools", "browser: one server for ana in site, bo in site", "No lock file"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("the report does not say %q:\n%s", line, out.String())
		}
	}
}

func TestWithoutAccessControlLocalSeesEverything(t *testing.T) {
	r := Make(input(t, twoProviders, listed))
	want := []Project{{Principals: []Principal{{Name: "local", Tools: []string{"browser_click", "browser_close", "browser_open", "shop_pay", "shop_open"}}}}}
	if diff := cmp.Diff(want, r.Projects); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsLockedAndWhatIsNot(t *testing.T) {
	in := input(t, "host {\n  locked = true\n}\n"+twoProviders, listed)
	if errs := Make(in).Errors(); len(errs) != 1 || !strings.Contains(errs[0], "there is no lock file") {
		t.Errorf("without a lock file: %v", errs)
	}
	in.Lock = Lock(in, nil)
	if r := Make(in); r.Lock.Differs() || len(r.Projects[0].Principals[0].Quarantined) != 0 {
		t.Errorf("what was just locked differs: %+v", r.Lock)
	}

	changed := input(t, "host {\n  locked = true\n}\n"+twoProviders, map[string][]string{
		"browser": {tool("click"), tool("close"), `{"name":"open","description":"other"}`, tool("new")},
	})
	changed.Lock = in.Lock
	r := Make(changed)
	var got []string
	for _, c := range r.Lock.Tools {
		got = append(got, c.Change+" "+c.Provider+"/"+c.Tool)
	}
	if diff := cmp.Diff([]string{"added browser/new", "changed browser/open"}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]FieldChange{{Path: "/description", New: json.RawMessage(`"other"`)}}, r.Lock.Tools[1].Fields); diff != "" || r.Lock.Tools[1].Whole {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"shop"}, r.Lock.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"browser_open", "browser_new"}, r.Projects[0].Principals[0].Quarantined); diff != "" {
		t.Errorf("quarantined (-want +got):\n%s", diff)
	}
	// Locking one provider anew leaves the other as it was, listed or not.
	again := Lock(changed, []string{"browser"})
	if !again.Approves("shop", "pay", in.Lock.Providers["shop"]["pay"].Digest) || again.Providers["browser"]["new"].Digest == "" {
		t.Errorf("locked anew: %s", again.Bytes())
	}
	if only := Lock(changed, []string{"shop"}); only.Providers["browser"]["new"].Digest != "" {
		t.Errorf("browser was not to be locked: %s", only.Bytes())
	}
}

func TestDefinitions(t *testing.T) {
	d := Definitions{Dir: filepath.Join(t.TempDir(), "definitions")}
	raw := json.RawMessage(tool("pay"))
	one := &catalog.Tool{Name: "pay", Raw: raw, Digest: catalog.DigestTool(raw)}
	for range 2 {
		if err := d.Put(one); err != nil {
			t.Fatal(err)
		}
	}
	if got := d.Get(one.Digest); !bytes.Equal(got, raw) {
		t.Errorf("Get = %s", got)
	}
	path, _ := d.path(one.Digest)
	if err := os.WriteFile(path, []byte(tool("steal")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{one.Digest, "", "../../x", strings.Repeat("0", 64)} {
		if got := d.Get(digest); got != nil {
			t.Errorf("Get(%q) = %s", digest, got)
		}
	}
	if err := d.Put(&catalog.Tool{Name: "x", Digest: "../../x"}); err == nil {
		t.Error("Put of no digest")
	}
	if err := d.Put(one); err != nil || !bytes.Equal(d.Get(one.Digest), raw) {
		t.Errorf("what was spoiled is not made anew: %v", err)
	}
}

// TestDefinitionsAreBounded: what is approved stays, and of what was the latest.
func TestDefinitionsAreBounded(t *testing.T) {
	d := Definitions{Dir: t.TempDir()}
	digest := func(n int) string { return fmt.Sprintf("%064x", n) }
	day := time.Now().Add(-24 * time.Hour)
	write := func(name string, age int) {
		t.Helper()
		path, at := filepath.Join(d.Dir, name), day.Add(-time.Duration(age)*time.Second)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	const more = 10
	for n := range keptDefinitions + more {
		write(digest(n)+".json", n)
	}
	approved := "raw:" + digest(1<<20)
	write("raw-"+digest(1<<20)+".json", 1<<20)
	write("notes.txt", 1<<20)
	write(partPrefix+"1", 0)
	file := lock.New()
	file.Approve("shop", "pay", lock.Tool{Digest: approved})
	d.Prune(file)
	for name, want := range map[string]bool{
		digest(0) + ".json": true, digest(keptDefinitions-1) + ".json": true, digest(keptDefinitions) + ".json": false, digest(keptDefinitions+more-1) + ".json": false,
		"raw-" + digest(1<<20) + ".json": true, "notes.txt": true, partPrefix + "1": false,
	} {
		if _, err := os.Stat(filepath.Join(d.Dir, name)); (err == nil) != want {
			t.Errorf("%s is there: %v", name, err == nil)
		}
	}
}

func TestAReportMakesNoTerminalDoAnything(t *testing.T) {
	if got := oneLine("a\x1b[2Jb\u202ec\nd"); got != "a [2Jb c d" {
		t.Errorf("oneLine = %q", got)
	}
}
