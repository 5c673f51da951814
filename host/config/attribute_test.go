package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
)

const (
	aDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"
	badBool = `"false"`
)

type attributeCase struct {
	path, good, field string
	want              any
	bad               []string
}

// attributeCases has, for each attribute of the table, a value that is taken,
// where it goes, and values that are refused. Where field is "" nothing keeps it.
var attributeCases = []attributeCase{
	{"host.surface", `"direct"`, "Host.Surface", "direct", []string{`"Direct"`, `true`, `""`}},
	{"host.state_dir", `"~/state"`, "Host.StateDir", "/home/user/state", []string{`""`, `"~other/x"`, `3`, `null`}},
	{"host.plugin_dir", `"plugins"`, "Host.PluginDir", "/etc/drawbridge/plugins", []string{`[]`}},
	{"host.watch", `true`, "Host.Watch", true, []string{badBool, `1`, `"yes"`}},
	{"host.locked", `false`, "Host.Locked", false, []string{badBool, `"flase"`, `null`, `0`}},
	{"host.names", `"bare"`, "Host.Names", "bare", []string{`"none"`}},
	{"host.name_max", `48`, "Host.NameMax", 48, []string{`15`, `129`, `"64"`, `48.5`}},
	{"host.page_size", `1`, "Host.PageSize", 1, []string{`0`, `-1`, `1e30`, `1000000`}},
	{"host.list_wait", `"0s"`, "Host.ListWait", time.Duration(0), []string{`2`, `"2"`, `"-2s"`, `"11m"`, `""`}},
	{"host.max_request", `"1MB"`, "Host.MaxRequest", int64(1_000_000), []string{`16`, `"16"`, `"16M"`, `"0B"`, `"1.5MiB"`, `"-1MiB"`, `"2TiB"`, `"9999999999999999999B"`}},
	{"host.write_timeout", `"1m30s"`, "Host.WriteTimeout", 90 * time.Second, []string{`"1ms"`, `30`}},
	{"host.session_idle", `"1d12h"`, "Host.SessionIdle", 36 * time.Hour, []string{`"31d"`, `"1d-1h"`, `"d"`}},
	{"host.stop_budget", `"20s"`, "Host.StopBudget", 20 * time.Second, []string{`"0s"`}},
	{"host.http.listen", `"[::1]:0"`, "Host.HTTP.Listen", "[::1]:0", []string{`":7420"`, `"0.0.0.0:1"`, `"192.0.2.1:80"`, `"7420"`, `"127.0.0.1:65536"`, `"127.0.0.1:http"`, `"example.com:80"`}},
	{"host.http.public_url", `"https://b.example.com"`, "Host.HTTP.PublicURL", "https://b.example.com", []string{`"b.example.com"`, `"ftp://b"`, `"http://b.example.com"`, `"https://b.example.com/mcp/"`, `"https://b.example.com?x=1"`, `"https://u:p@b.example.com"`}},
	{"host.http.allowed_hosts", `["b.example.com", "b:8443", "[::1]:80", "::1"]`, "Host.HTTP.AllowedHosts", []string{"b.example.com", "b:8443", "[::1]:80", "::1"}, []string{`["*"]`, `["a/b"]`, `[""]`, `"b"`, `["a:b"]`, `["*.example.com:1"]`}},
	{"host.http.allowed_origins", `["https://a.example.com:8443"]`, "Host.HTTP.AllowedOrigins", []string{"https://a.example.com:8443"}, []string{`["*"]`, `["null"]`, `["https://a/"]`, `["https://*.a"]`}},
	{"host.http.tls.cert", `"c.pem"`, "Host.HTTP.TLSCert", "/etc/drawbridge/c.pem", []string{`""`}},
	{"host.http.tls.key", `"/k.pem"`, "Host.HTTP.TLSKey", "/k.pem", []string{`1`}},
	{"host.containment.require", `"pidns"`, "Host.ContainmentRequire", "pidns", []string{`"strong"`, `""`}},
	{"host.journal.sync", `"normal"`, "Host.JournalSync", "normal", []string{`"ful"`, `true`}},
	{"host.journal.keep", `"30d"`, "Host.JournalKeep", 30 * day, []string{`"1s"`, `"99999d"`}},
	{"host.journal.max_size", `"2GiB"`, "Host.JournalMaxSize", int64(2 << 30), []string{`"1KiB"`}},
	{"host.artifacts.quota", `"1GB"`, "Host.ArtifactsQuota", int64(1e9), []string{`"1"`}},
	{"host.artifacts.ttl", `"1h"`, "Host.ArtifactsTTL", time.Hour, []string{`"1s"`}},

	{"plugin.path", `"bin/acme"`, "Plugins.acme.Path", "/etc/drawbridge/bin/acme", []string{`""`}},
	{"plugin.sha256", `"` + aDigest + `"`, "Plugins.acme.SHA256", aDigest, []string{`"9f2c"`, `""`}},
	{"plugin.command", `"python3"`, "Plugins.acme.Command", "python3", []string{`["python3"]`, `""`}},
	{"plugin.args", `["a", "-b"]`, "Plugins.acme.Args", []string{"/etc/drawbridge/a", "-b"}, []string{`"a"`, `[1]`}},
	{"plugin.files", `["a"]`, "Plugins.acme.Files", []checksum.Named{{Name: "a", Path: "/etc/drawbridge/a"}}, []string{`[null]`, `[]`, `[""]`, `["~other"]`, `["a\nb"]`}},
	{"plugin.version", `"1.2"`, "Plugins.acme.Version", "1.2", []string{`1.2`, `""`}},
	{"plugin.mtls", `true`, "Plugins.acme.MTLS", true, []string{badBool}},

	{"provider.plugin", `"stdio"`, "Providers.0.Plugin", "stdio", []string{`"htttp"`, `"acme"`, `1`, `""`}},
	{"provider.description", `"x"`, "Providers.0.Description", "x", []string{`[]`}},
	{"provider.enabled", `"true"`, "Providers.0.Enabled", true, []string{badBool, `null`}},
	{"provider.required", `true`, "Providers.0.Required", true, []string{badBool}},
	{"provider.start", `"eager"`, "Providers.0.Start", "eager", []string{`"Lazy"`}},
	{"provider.tools", `[]`, "Providers.0.Tools", []string{}, []string{`"*"`, `[""]`, `[" a"]`, `["a?"]`, `["[ab]"]`, `["!a"]`, `["a\\b"]`, `["a\nb"]`, `null`, `{}`}},
	{"provider.except", `["a_*", "*"]`, "Providers.0.Except", []string{"a_*", "*"}, []string{`["a?"]`, `true`}},
	{"provider.recheck", `"on_change"`, "Providers.0.Recheck", "on_change", []string{`"befor_call"`}},
	{"provider.refresh_interval", `"1m"`, "Providers.0.RefreshInterval", time.Minute, []string{`"0s"`}},
	{"provider.discovery", `"first_use"`, "Providers.0.Discovery", "first_use", []string{`"Required"`}},
	{"provider.redact_results", `false`, "Providers.0.RedactResults", false, []string{badBool}},
	{"provider.overlap", `true`, "Providers.0.Overlap", true, []string{badBool}},

	{"provider.session.scope", `"shared"`, "Providers.0.Session.Scope", "shared", []string{`"all"`}},
	{"provider.session.stateful", `false`, "Providers.0.Session.Stateful", false, []string{`"no"`}},
	{"provider.session.idle_stop", `"5m"`, "Providers.0.Session.IdleStop", 5 * time.Minute, []string{`"0s"`}},
	{"provider.session.max_instances", `2`, "Providers.0.Session.MaxInstances", 2, []string{`0`}},

	{"provider.limits.start_timeout", `"1s"`, "Providers.0.Limits.StartTimeout", time.Second, []string{`"2h"`}},
	{"provider.limits.stop_grace", `"0s"`, "Providers.0.Limits.StopGrace", time.Duration(0), []string{`"11m"`}},
	{"provider.limits.call_timeout", `"10ms"`, "Providers.0.Limits.CallTimeout", 10 * time.Millisecond, []string{`"0s"`, `"1ms"`, `"11m"`}},
	{"provider.limits.call_timeout_max", `"1h"`, "Providers.0.Limits.CallTimeoutMax", time.Hour, []string{`"59s"`, `"8d"`}},
	{"provider.limits.drain_timeout", `"0s"`, "Providers.0.Limits.DrainTimeout", time.Duration(0), []string{`"2d"`}},
	{"provider.limits.health_interval", `"1s"`, "Providers.0.Limits.HealthInterval", time.Second, []string{`"1ms"`}},
	{"provider.limits.max_concurrent", `1`, "Providers.0.Limits.MaxConcurrent", 1, []string{`0`}},
	{"provider.limits.max_queue", `0`, "Providers.0.Limits.MaxQueue", 0, []string{`-1`}},
	{"provider.limits.max_message", `"1GiB"`, "Providers.0.Limits.MaxMessage", int64(1 << 30), []string{`"2GiB"`, `"256KiB"`}},
	{"provider.limits.inline_result", `"64MiB"`, "Providers.0.Limits.InlineResult", int64(64 << 20), []string{`"65MiB"`}},
	{"provider.limits.max_pages", `1`, "Providers.0.Limits.MaxPages", 1, []string{`0`}},
	{"provider.limits.max_definitions", `1`, "Providers.0.Limits.MaxDefinitions", 1, []string{`0`}},
	{"provider.limits.max_list_bytes", `"1KiB"`, "Providers.0.Limits.MaxListBytes", int64(1024), []string{`"1B"`}},

	{"provider.restart.intensity", `0`, "Providers.0.Restart.Intensity", 0, []string{`-1`}},
	{"provider.restart.period", `"10s"`, "Providers.0.Restart.Period", 10 * time.Second, []string{`"0s"`}},
	{"provider.restart.backoff", `"10ms"`, "Providers.0.Restart.Backoff", 10 * time.Millisecond, []string{`"0s"`, `"2m"`}},
	{"provider.restart.backoff_max", `"1s"`, "Providers.0.Restart.BackoffMax", time.Second, []string{`"999ms"`}},
	{"provider.restart.stable_after", `"0s"`, "Providers.0.Restart.StableAfter", time.Duration(0), []string{`"2d"`}},
	{"provider.restart.cooldown", `"0s"`, "Providers.0.Restart.Cooldown", time.Duration(0), []string{`"8d"`}},

	{"principal.token_sha256", `"` + aDigest + `"`, "Principals.0.TokenSHA256", strings.ToLower(aDigest), []string{`"x"`, `""`, `"` + sha256OfNothing + `"`}},
	{"principal.expires", `"2027-01-31T00:00:00Z"`, "Principals.0.Expires", time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC), []string{`"tomorrow"`, `"2027-01-31"`, `""`, `2027`}},
	{"principal.oidc.issuer", `"https://id.example.com"`, "Principals.0.OIDC.Issuer", "https://id.example.com", []string{`"id"`, `"http://id.example.com"`, `"https://id.example.com?x=1"`}},
	{"principal.oidc.audience", `"a"`, "Principals.0.OIDC.Audience", "a", []string{`1`, `""`}},
	{"principal.oidc.claim", `"email"`, "Principals.0.OIDC.Claim", "email", []string{`1`, `""`}},
	{"principal.oidc.value", `"a"`, "Principals.0.OIDC.Value", "a", []string{`1`, `""`}},
	{"project.names", `"bare"`, "Projects.0.Names", "bare", []string{`"x"`}},
	{"project.name_max", `64`, "Projects.0.NameMax", 64, []string{`0`}},
	{"project.surface", `"direct"`, "Projects.0.Surface", "direct", []string{`"x"`, `"Search"`}},
	{"project.grant.principals", `["a", "local"]`, "Projects.0.Grants.0.Principals", []string{"a", "local"}, []string{`"a"`, `[""]`, `["b"]`, `["Local"]`}},
	{"project.grant.provider", `"A b"`, "Projects.0.Grants.0.Provider", "a-b", []string{`1`, `""`, `"b"`, `"a B"`}},
	{"project.grant.tools", `["a"]`, "Projects.0.Grants.0.Tools", []string{"a"}, []string{`["?"]`}},
	{"project.grant.except", `["a"]`, "Projects.0.Grants.0.Except", []string{"a"}, []string{`["?"]`}},
	{"project.grant.resources", `["http://[::1]/a?b=*"]`, "Projects.0.Grants.0.Resources", []string{"http://[::1]/a?b=*"}, []string{`[""]`, `["file:///{path}"]`}},
	{"project.grant.prompts", `["a"]`, "Projects.0.Grants.0.Prompts", []string{"a"}, []string{`["?"]`}},
	{"project.grant.methods", `["vendor/*"]`, "Projects.0.Grants.0.Methods", []string{"vendor/*"}, []string{`"x"`}},
	{"project.grant.server_requests", `["roots"]`, "Projects.0.Grants.0.ServerRequests", []string{"roots"}, []string{`["tools"]`}},
	{"project.grant.rate", `"60/1m"`, "Projects.0.Grants.0.Rate", "60/1m", []string{`"60"`, `"0/1m"`, `"60/m"`, `60`}},
}

// basis is what a block needs besides the attribute under test.
var basis = map[string][]string{
	"plugin":         {`path = "p"`, `sha256 = "` + aDigest + `"`},
	"plugin.command": {`files = ["a"]`, `sha256 = "` + aDigest + `"`},
	"plugin.args":    {`command = "sh"`, `files = ["a"]`, `sha256 = "` + aDigest + `"`},
	"plugin.files":   {`command = "sh"`, `sha256 = "` + aDigest + `"`},
	"provider":       {`plugin = "stdio"`},
	"host.http.tls":  {`cert = "c"`, `key = "k"`},
	"principal":      {`token_sha256 = "` + aDigest + `"`},
	"principal.oidc": {`issuer = "https://i"`, `audience = "a"`, `value = "v"`},
	"project.grant":  {`principals = ["a"]`, `provider = "A b"`},
}

// preamble is what must stand in the files besides.
var preamble = map[string]string{
	"principal": "project \"x\" {\n}\n",
	"project": "principal \"a\" {\ntoken_sha256 = \"" + aDigest + "\"\n}\n" +
		"provider \"A b\" {\nplugin = \"stdio\"\nsession {\nscope = \"shared\"\n}\n}\n",
}

// fileWith writes a file in which the attribute at path has a value.
func fileWith(path, value string) string {
	names := strings.Split(path, ".")
	var open, tail strings.Builder
	for i, name := range names[:len(names)-1] {
		label := ""
		if i == 0 && name != "host" {
			label = ` "acme"`
		}
		fmt.Fprintf(&open, "%s%s {\n", name, label)
		lines := basis[strings.Join(names[:i+1], ".")]
		if own := basis[path]; own != nil {
			lines = own
		}
		for _, line := range lines {
			set := strings.Fields(line)[0]
			instead := set == "token_sha256" && strings.HasPrefix(path, "principal.oidc")
			if set != names[len(names)-1] && !instead {
				open.WriteString(line + "\n")
			}
		}
		tail.WriteString("}\n")
	}
	return preamble[names[0]] + open.String() + names[len(names)-1] + " = " + value + "\n" + tail.String()
}

// loadText checks one file of text, in a place that is the same everywhere.
func loadText(text string) (*Config, hcl.Diagnostics) {
	return load(map[string][]byte{"test.hcl": []byte(text)}, place{base: "/etc/drawbridge", home: "/home/user"}, false)
}

func TestAttributes(t *testing.T) {
	for _, c := range attributeCases {
		t.Run(c.path, func(t *testing.T) {
			text := fileWith(c.path, c.good)
			cfg, diags := loadText(text)
			for _, d := range diags {
				if d.Severity == hcl.DiagError && !strings.HasSuffix(d.Summary, "is not in force yet") {
					t.Errorf("%s refused: %s: %s", c.good, d.Summary, d.Detail)
				}
			}
			if c.field != "" {
				if diff := cmp.Diff(c.want, fieldOf(cfg, c.field)); diff != "" {
					t.Errorf("%s went wrong:\n%s", c.good, diff)
				}
			}
			for _, bad := range c.bad {
				text := fileWith(c.path, bad)
				name := c.path[strings.LastIndex(c.path, ".")+1:]
				line := strings.Count(text[:strings.Index(text, "\n"+name+" = "+bad+"\n")], "\n") + 2
				_, diags := loadText(text)
				if !slices.ContainsFunc(diags, func(d *hcl.Diagnostic) bool {
					return d.Severity == hcl.DiagError && d.Subject != nil && d.Subject.Start.Line == line &&
						(!strings.HasSuffix(d.Summary, "is not in force yet") || c.path == "provider.plugin")
				}) {
					t.Errorf("%s is taken, or refused at another line than %d: %v", bad, line, diags)
				}
			}
		})
	}
}

// TestAttributesComplete fails when the table has an attribute without a case.
func TestAttributesComplete(t *testing.T) {
	var walk func(b body, path string)
	walk = func(b body, path string) {
		for _, a := range b.attributes {
			at := join(path, a.name)
			i := slices.IndexFunc(attributeCases, func(c attributeCase) bool { return c.path == at })
			if i < 0 || len(attributeCases[i].bad) == 0 {
				t.Errorf("no case for %s", at)
			}
			if a.value == nil {
				t.Errorf("nothing reads %s back", at)
			}
			if a.usage == "" || a.kind == "" {
				t.Errorf("%s has no documentation", at)
			}
		}
		for _, k := range b.blocks {
			if k.usage == "" {
				t.Errorf("block %s has no documentation", join(path, k.name))
			}
			walk(k.open(), join(path, k.name))
		}
	}
	walk(root(&Config{}, place{}), "")
}

// fieldOf follows a path of fields, keys and indexes.
func fieldOf(v any, path string) any {
	at := reflect.ValueOf(v)
	for _, name := range strings.Split(path, ".") {
		for at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
		switch at.Kind() {
		case reflect.Map:
			at = at.MapIndex(reflect.ValueOf(name))
		case reflect.Slice:
			i, err := strconv.Atoi(name)
			if err != nil || i >= at.Len() {
				return nil
			}
			at = at.Index(i)
		default:
			at = at.FieldByName(name)
		}
		if !at.IsValid() {
			return nil
		}
	}
	return at.Interface()
}

// TestDefaults compares what is absent with the table of the documentation.
func TestDefaults(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "")
	c, diags := loadText(`provider "A b" { plugin = "stdio" }`)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	p := c.Providers[0]
	want := &Provider{
		Label: "A b", Slug: "a-b", Plugin: "stdio", Enabled: true, Start: "lazy", Tools: []string{"*"},
		Recheck: "on_change", RefreshInterval: 30 * time.Second, Discovery: "first_use", RedactResults: true,
		Session: Session{Scope: "principal", MaxInstances: 16},
		Limits: Limits{
			StartTimeout: 2 * time.Minute, StopGrace: 5 * time.Second, CallTimeout: time.Minute, CallTimeoutMax: 10 * time.Minute,
			DrainTimeout: 30 * time.Second, HealthInterval: 30 * time.Second, MaxConcurrent: 16, MaxQueue: 64, MaxPages: 100,
			MaxDefinitions: 10000, MaxMessage: 64 << 20, InlineResult: 512 << 10, MaxListBytes: 32 << 20,
		},
		Restart: Restart{
			Intensity: 5, Period: time.Minute, Backoff: time.Second, BackoffMax: time.Minute, StableAfter: 30 * time.Second, Cooldown: 5 * time.Minute,
		},
		Body: p.Body, ConfigRange: p.ConfigRange, Range: p.Range, BaseDir: "/etc/drawbridge",
	}
	if diff := cmp.Diff(want, p, cmp.AllowUnexported(Provider{}), cmp.Comparer(func(a, b hcl.Body) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	wantHost := Host{
		Surface: "direct", StateDir: "/home/user/.local/state/drawbridge", Names: "prefixed", NameMax: 64, PageSize: 1000,
		ListWait: 2 * time.Second, WriteTimeout: 30 * time.Second, SessionIdle: 30 * time.Minute, StopBudget: 15 * time.Second,
		MaxRequest: 16 << 20, HTTP: HTTP{Listen: "127.0.0.1:7420"}, JournalSync: "normal", JournalKeep: 90 * day,
		JournalMaxSize: 1 << 30, ArtifactsQuota: 2 << 30, ArtifactsTTL: day,
	}
	if diff := cmp.Diff(wantHost, c.Host); diff != "" {
		t.Error(diff)
	}
}

func TestStateDir(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/var/state")
	if c, _ := loadText(""); c.Host.StateDir != "/var/state/drawbridge" {
		t.Errorf("state_dir is %q", c.Host.StateDir)
	}
	t.Setenv("XDG_STATE_HOME", "relative")
	_, diags := load(nil, place{base: "/etc"}, false)
	if !diags.HasErrors() {
		t.Error("a host without a home folder has a state folder")
	}
	c, diags := load(map[string][]byte{"a.hcl": []byte(`host { state_dir = "s" }`)}, place{base: "/etc"}, false)
	if diags.HasErrors() || c.Host.StateDir != "/etc/s" {
		t.Errorf("%q, %v", c.Host.StateDir, diags)
	}
}
