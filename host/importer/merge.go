package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/internal/secretstore"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// Target is the configuration that an import is added to.
type Target struct {
	// Config is what the host reads: File itself, or the folder that it stands in.
	Config string
	// File is the file to write.
	File string
	// Workspace is the folder that stands for the client's; "" for none.
	Workspace string
	// Schemas are those of the plugins stdio and http.
	Schemas map[string]provider.Schema
}

// Outcome is what became of an entry.
type Outcome string

// The outcomes.
const (
	// Added: its provider is new in the file.
	Added Outcome = "added"
	// Unchanged: the configuration has that very provider.
	Unchanged Outcome = "unchanged"
	// Conflict: the configuration has another provider, or another secret, of the
	// name. Nothing is written over.
	Conflict Outcome = "conflict"
	// Failed: the entry could not be imported.
	Failed Outcome = "failed"
)

// Result is what became of one entry.
type Result struct {
	Entry   *Entry
	Outcome Outcome
	// Reason is why it was not imported.
	Reason string
	// ToSet are the secrets that the user has to set before it can start.
	ToSet []string
}

// TargetError says that the configuration cannot be added to.
type TargetError struct {
	Config *config.Config
	Diags  hcl.Diagnostics
	// after says that it would be so with the import.
	after bool
}

func (e *TargetError) Error() string {
	if e.after {
		return "the configuration would not be valid with what was imported; nothing was written"
	}
	return "the configuration is not valid as it is; mend it first (drawbridge validate); nothing was written"
}

// Merged is what Apply puts in place.
type Merged struct {
	Target  Target
	Results []Result
	// Old is the file as it is, nil where there is none, and New as it will be. They are
	// equal where nothing is added.
	Old, New []byte
	// Config is the configuration with the import.
	Config *config.Config
	// credentials are to be kept before the file is written.
	credentials []Credential
	store       *secretstore.Store
}

// Merge adds the servers of an import to a configuration, and changes nothing yet. A
// configuration that is not valid, before or after, gives a *TargetError.
func Merge(im *Import, t Target) (*Merged, error) {
	m := &Merged{Target: t}
	before, err := m.read()
	if err != nil {
		return nil, err
	}
	m.store = secretstore.In(before.Host.StateDir)
	have := blocksOf(before)
	w := &writer{im: im, workspace: t.Workspace}
	var added []string
	for _, e := range im.Entries {
		r, text, err := m.entry(w, e, have)
		if err != nil {
			return nil, err
		}
		if r.Outcome == Added {
			added = append(added, text)
		}
		m.Results = append(m.Results, r)
	}
	m.Config, m.New = before, m.Old
	if len(added) == 0 {
		return m, nil
	}
	m.New = appendBlocks(m.Old, added)
	if err := m.leaks(); err != nil {
		return nil, err
	}
	after, diags := config.LoadWith(t.Config, m.name(), m.New)
	if diags.HasErrors() {
		return nil, &TargetError{Config: after, Diags: diags, after: true}
	}
	m.Config = after
	return m, nil
}

// name is what diagnostics and the reader of folders call the file.
func (m *Merged) name() string {
	if m.Target.Config == m.Target.File {
		return filepath.Clean(m.Target.File)
	}
	return filepath.Join(m.Target.Config, filepath.Base(m.Target.File))
}

// read reads the configuration as it is; an empty one where there is none.
func (m *Merged) read() (*config.Config, error) {
	old, err := readTarget(m.Target.File)
	if err != nil {
		return nil, err
	}
	m.Old = old
	c, diags := config.LoadWith(m.Target.Config, m.name(), old)
	if diags.HasErrors() {
		return nil, &TargetError{Config: c, Diags: diags}
	}
	return c, nil
}

// entry decides what becomes of one entry. An error is of the secret store, and no
// entry's.
func (m *Merged) entry(w *writer, e *Entry, have map[string][]token) (Result, string, error) {
	if e.Server == nil {
		return Result{Entry: e, Outcome: Failed, Reason: e.Error}, "", nil
	}
	text, wrong := m.written(w, e)
	if wrong != "" {
		return Result{Entry: e, Outcome: Failed, Reason: wrong}, "", nil
	}
	lowered := w.lowered(e)
	r := Result{Entry: e, Outcome: Added, ToSet: m.unset(w.toSet(&lowered, e))}
	if there, ok := have[e.Name]; ok {
		if !reflect.DeepEqual(there, tokensOf([]byte(text))) {
			r.Outcome, r.ToSet = Conflict, nil
			r.Reason = fmt.Sprintf("the configuration has another provider %q; rename one of them, or take the one that you do not want out", e.Name)
			return r, "", nil
		}
		r.Outcome = Unchanged
	}
	var missing []Credential
	for _, c := range e.Credentials() {
		value, err := m.store.Get(c.Name)
		switch {
		case errors.Is(err, secretstore.ErrNotSet):
			missing = append(missing, c)
		case err != nil:
			return r, "", err
		case string(value) != c.Value:
			r.Outcome, r.ToSet = Conflict, nil
			r.Reason = fmt.Sprintf("the secret %s has another value already; if that of the file counts: drawbridge secret rm %s, and import again", c.Name, c.Name)
			return r, "", nil
		}
	}
	m.credentials = append(m.credentials, missing...)
	return r, text, nil
}

// unset are those of the names that the store does not have.
func (m *Merged) unset(names []string) []string {
	var out []string
	for _, name := range names {
		if _, err := m.store.Get(name); err != nil {
			out = append(out, name)
		}
	}
	return out
}

// written is the block of an entry, in form, once it was seen to read as it was meant;
// or why it cannot be.
func (m *Merged) written(w *writer, e *Entry) (block, wrong string) {
	for _, c := range e.Credentials() {
		if len(c.Value) > secretstore.MaxValue {
			return "", fmt.Sprintf("a credential is longer than %d KiB", secretstore.MaxValue>>10)
		}
	}
	formatted, diags := config.Format("import", []byte(w.block(e)))
	if diags.HasErrors() {
		return "", unwritable(diags)
	}
	lone := m.Target.File + ".import" // never written
	c, diags := config.LoadWith(lone, lone, formatted)
	if diags.HasErrors() {
		return "", unwritable(diags)
	}
	if len(c.Providers) != 1 {
		return "", "it cannot be written as one provider"
	}
	p := c.Providers[0]
	s := w.lowered(e)
	got, diags := config.Trial(p, m.Target.Schemas[p.Plugin], stand)
	if diags.HasErrors() {
		return "", unwritable(diags)
	}
	var values map[string]any
	if err := json.Unmarshal(got, &values); err != nil {
		return "", "it does not read back as JSON"
	}
	if different := differs(values, expected(&s)); different != "" {
		return "", different + " cannot be written so that it reads back as it was"
	}
	if p.Label != e.Name || p.Slug != e.Name || p.Description != e.description() || p.Enabled != s.Enabled ||
		s.ToolsAllow != nil && !reflect.DeepEqual(p.Tools, s.ToolsAllow) || len(s.ToolsDeny) > 0 && !reflect.DeepEqual(p.Except, s.ToolsDeny) {
		return "", "its name or its tools cannot be written so that they read back as they were"
	}
	return string(formatted), ""
}

// unwritable words why a block is not valid by itself. The summaries hold no values.
func unwritable(diags hcl.Diagnostics) string {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			return fmt.Sprintf("it cannot be written as a provider: %s: %s", d.Summary, d.Detail)
		}
	}
	return "it cannot be written as a provider"
}

// stand answers with texts that no file holds, so that a value is told from text that
// looks like a reference.
var stand = config.Stand{
	Env: func(name string, fallback *string) string {
		if fallback != nil {
			return "\ue000env " + name + "|" + *fallback + "\ue001"
		}
		return "\ue000env " + name + "\ue001"
	},
	Secret: func(name string) string { return "\ue000secret " + name + "\ue001" },
	File:   func(path string) string { return "\ue000file " + path + "\ue001" },
	Home:   "\ue000home\ue001",
}

// stood is a lowered text as stand answers it.
func stood(t Text) string {
	var b strings.Builder
	for _, p := range t {
		switch p.Kind {
		case Literal:
			b.WriteString(p.Value)
		case EnvRef:
			var fallback *string
			if p.Default != nil {
				s := stood(*p.Default)
				fallback = &s
			}
			b.WriteString(stand.Env(p.Value, fallback))
		case SecretRef:
			b.WriteString(stand.Secret(p.Value))
		case FileRef:
			b.WriteString(stand.File(p.Value))
		case Home:
			b.WriteString(stand.Home)
		}
	}
	return b.String()
}

// expected is what the plugin is to get of a lowered server.
func expected(s *Server) map[string]any {
	want := map[string]any{}
	single := func(name string, t Text) {
		if len(t) > 0 {
			want[name] = stood(t)
		}
	}
	texts := func(name string, list []string) {
		if len(list) > 0 {
			all := make([]any, len(list))
			for i, v := range list {
				all[i] = v
			}
			want[name] = all
		}
	}
	object := func(name string, list []Variable) {
		if len(list) > 0 {
			all := map[string]any{}
			for _, v := range list {
				all[v.Name] = stood(v.Value)
			}
			want[name] = all
		}
	}
	if s.Transport != Stdio {
		single("url", s.URL)
		object("headers", s.Headers)
		want["transport"] = s.transport()
		return want
	}
	single("command", s.Command)
	var args []string
	for _, arg := range s.Args {
		args = append(args, stood(arg))
	}
	texts("args", args)
	object("env", s.Env)
	texts("unset_env", s.UnsetEnv)
	single("env_file", s.EnvFile)
	single("cwd", s.Cwd)
	return want
}

// differs names an attribute that is not as it was meant, "" if all are.
func differs(got, want map[string]any) string {
	for name, value := range got {
		if value != nil && !reflect.DeepEqual(value, want[name]) {
			return name
		}
		if value == nil && want[name] != nil {
			return name
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			return name
		}
	}
	return ""
}

// leaks refuses a text that holds a credential all the same.
func (m *Merged) leaks() error {
	added := m.New[len(m.Old):]
	for _, r := range m.Results {
		for _, c := range r.Entry.Credentials() {
			if len(c.Value) >= minLeak && bytes.Contains(added, []byte(c.Value)) {
				return fmt.Errorf("the secret %s would stand in the file too; nothing was written: give it a value that is no other word", c.Name)
			}
		}
	}
	return nil
}

// minLeak is the length from which a credential is told from other words.
const minLeak = 8

// appendBlocks adds blocks behind a text, none of which changes.
func appendBlocks(old []byte, blocks []string) []byte {
	text := strings.Join(blocks, "\n")
	switch {
	case len(old) == 0:
		text = header + "\n" + text
	case !bytes.HasSuffix(old, []byte("\n")):
		text = "\n\n" + text
	default:
		text = "\n" + text
	}
	if bytes.Contains(old, []byte("\r\n")) {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return append(bytes.Clone(old), text...)
}

// token is one of HCL's, without its place.
type token struct {
	kind hclsyntax.TokenType
	text string
}

// tokensOf is what a block says, whatever its layout and comments.
func tokensOf(src []byte) []token {
	lexed, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	var out []token
	for _, t := range lexed {
		switch t.Type {
		case hclsyntax.TokenComment, hclsyntax.TokenNewline, hclsyntax.TokenEOF:
		default:
			out = append(out, token{t.Type, string(t.Bytes)})
		}
	}
	return out
}

// blocksOf are the provider blocks of a configuration by slug.
func blocksOf(c *config.Config) map[string][]token {
	out := map[string][]token{}
	for name, src := range c.Sources {
		file, _ := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
		body, ok := file.Body.(*hclsyntax.Body)
		if !ok {
			continue
		}
		for _, block := range body.Blocks {
			if block.Type != "provider" || len(block.Labels) != 1 {
				continue
			}
			if slug, err := config.Slug(block.Labels[0]); err == nil {
				out[slug] = tokensOf(src[block.TypeRange.Start.Byte:block.CloseBraceRange.End.Byte])
			}
		}
	}
	return out
}
