package crossing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
	contract "github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// teller is a third-party plugin that makes no secret of what it was given. Its config
// says where it says so.
type teller struct{ rogue }

// tells is the role of a teller.
const tells = "tells"

func (t *teller) Describe(context.Context) (contract.Description, error) {
	return contract.Description{Name: "teller", Version: "1", Config: contract.Schema{Attributes: []contract.Attribute{
		{Name: "key", Type: json.RawMessage(`"string"`), Sensitive: true}, {Name: "text", Type: json.RawMessage(`"string"`)},
		{Name: "where", Type: json.RawMessage(`"string"`)},
	}}}, nil
}

// all is what a teller says, its secrets in every form, and where.
func (t *teller) all(c contract.Config) (said, where string) {
	var config struct{ Key, Text, Where string }
	if err := json.Unmarshal(c.JSON, &config); err != nil {
		return err.Error(), ""
	}
	said = string(c.JSON)
	for _, v := range []string{config.Key, config.Text} {
		said += " " + strings.Join(secretForms(v), " ")
	}
	return said, config.Where
}

func (t *teller) Validate(_ context.Context, c contract.Config) (contract.Diagnostics, error) {
	said, where := t.all(c)
	switch where {
	case "check":
		return contract.Diagnostics{{Severity: contract.Warning, Summary: "Told " + said, Detail: said, Path: contract.Path{contract.AttributeStep(said)}}}, nil
	case "failed-check":
		return nil, errors.New("cannot check " + said)
	}
	return nil, nil
}

func (t *teller) Start(_ context.Context, req contract.StartRequest) (contract.Diagnostics, error) {
	said, where := t.all(req.Config)
	fmt.Fprintln(os.Stderr, "stderr:", said)
	fmt.Println("stdout:", said)
	switch where {
	case "error":
		return nil, errors.New("cannot start with " + said)
	case "diagnostics":
		return contract.Diagnostics{{Severity: contract.Error, Summary: said, Detail: said, Path: contract.Path{contract.AttributeStep("key"), contract.KeyStep(said)}}}, nil
	case "panic":
		panic("cannot start with " + said)
	}
	for name, deed := range map[string]func(conn contract.Conn, seq uint64, ok contract.Chunk) error{
		"noise":    sends(contract.Noise{Line: []byte(said)}, contract.Noise{Line: []byte(strings.Repeat(".", contract.MaxNoise-4) + said)}),
		"exited":   sends(contract.Exited{Status: contract.ExitStatus{Code: 3, StderrTail: said + "\n" + said}}),
		"hangs up": func(contract.Conn, uint64, contract.Chunk) error { return errors.New("enough of " + said) },
		"panics":   func(contract.Conn, uint64, contract.Chunk) error { panic(errors.New(said)) },
		"no JSON":  sends(chunk(said)),
		"undelivered": func(c contract.Conn, seq uint64, ok contract.Chunk) error {
			return c.Send(contract.Undelivered{Seq: seq, Reason: said})
		},
		"log": sends(chunk(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":` + encoded(said) + `}}`)),
		"odd": sends(chunk(`{"jsonrpc":"2.0","id":` + encoded(said) + `,"method":` + encoded(said) + `}`)),
	} {
		misdeeds["tell: "+name] = func(conn contract.Conn, seq uint64, ok contract.Chunk) error {
			if err := deed(conn, seq, ok); err != nil || name != "noise" && name != "log" && name != "odd" && name != "no JSON" {
				return err
			}
			return conn.Send(ok)
		}
	}
	return nil, nil
}

func (t *teller) Stop(ctx context.Context, req contract.StopRequest) (contract.ExitStatus, error) {
	status, err := t.rogue.Stop(ctx, req)
	status.StderrTail = "stopped"
	return status, err
}

// TestC086_NoPluginTellsASecret: whatever a third-party plugin says of what it was given,
// in an error, a diagnostic, an event, on its outputs or when it panics.
func TestC086_NoPluginTellsASecret(t *testing.T) {
	const sensitive = "s3nsitive \"literal\"/+<\u00e4>"
	p := hosttest.NewPlace(t)
	secrets := []string{keptOdd, sensitive}
	roles := []string{"check", "failed-check", "error", "diagnostics", "panic", "calls"}
	var providers []provider
	for _, role := range roles {
		providers = append(providers, provider{name: role, plugin: tells, config: "    where = " + quote(role) + "\n    key = " + quote(sensitive) + "\n    text = secret(\"odd\")",
			body: "  restart {\n    intensity = 1000\n    backoff = \"10ms\"\n    backoff_max = \"20ms\"\n  }"})
	}
	file := p.Write(t, "providers.hcl", hostBlock(p, "")+plugin(t, p, tells).block+blocks(t, p, providers...))
	keep(t, p, file, "odd", keptOdd)
	h := setting{flags: []string{"--log-level", "debug"}}.http(t, p, file)
	c := dial(t, h)
	for _, role := range roles[1:5] {
		r := tool(t, c, role+"_evil", "{}")
		clean(t, "the error of "+role, string(r.Raw), secrets, secretForms)
		if r.Error == nil || !strings.Contains(string(r.Raw), "[redacted]") && role != "panic" {
			t.Errorf("%s: %s", role, r.Raw)
		}
	}
	for _, deed := range []string{"noise", "no JSON", "log", "odd", "undelivered", "exited", "hangs up", "panics"} {
		var r hosttest.Reply
		eventually(t, "the provider is back", func() bool {
			r = tool(t, c, "calls_evil", fmt.Sprintf(`{"do":%q}`, "tell: "+deed))
			return !strings.Contains(string(r.Error), "provider_failed") && !strings.Contains(string(r.Error), "unknown_tool")
		})
		clean(t, "the answer to "+deed, string(r.Raw), secrets, secretForms)
		for _, note := range append(r.Notes, c.Heard()...) {
			clean(t, "a notification of "+deed, string(note.Raw), []string{keptOdd}, plainForms)
		}
	}
	for _, args := range [][]string{
		{"status"}, {"status", "--json"}, {"status", "panic"}, {"status", "calls"}, {"logs", "calls", "-n", "-1"}, {"logs", "panic"}, {"calls", "--json"},
		{"validate"}, {"validate", "--json"}, {"plan"}, {"plan", "--json"}, {"doctor"}, {"doctor", "--json"},
	} {
		out, _ := p.Command(t, append(args, "--config", file)...).CombinedOutput()
		clean(t, fmt.Sprint(args), string(out), secrets, secretForms)
	}
	leave(t, c)
	clean(t, "the host's log", h.Said(), secrets, secretForms)
	err := filepath.WalkDir(p.Path("state"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == p.Path("state/secrets") {
			return skipped(err, entry)
		}
		if entry.Type().IsRegular() {
			text, err := os.ReadFile(path)
			clean(t, path, string(text), secrets, secretForms)
			return err
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
