package clientfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v3"
)

var (
	// ErrKind marks a kind of client that is not known.
	ErrKind = errors.New("this kind of client is not known")
	// ErrNoHTTP marks a client whose file cannot name a token without holding it.
	ErrNoHTTP = errors.New("this client's file cannot refer to a token without holding it; leave --http out")
	// ErrUnusable marks a file that cannot be read, so that it stays as it is.
	ErrUnusable = errors.New("the file cannot be used")
	// ErrForm marks a file that is written so that an edit would change more than the entry.
	ErrForm = errors.New("the file's servers are written in a form that is not edited here; do it by hand")
	// ErrNoEntry says that there is nothing to take out.
	ErrNoEntry = errors.New("there is no such entry")
)

const (
	maxFile = 16 << 20
	bom     = "\ufeff"
)

// splice replaces [at:end) of a text.
type splice struct {
	at, end int
	text    string
}

// apply makes the splices, which are in order and do not overlap.
func apply(text string, splices []splice) string {
	var b strings.Builder
	from := 0
	for _, s := range splices {
		b.WriteString(text[from:s.at])
		b.WriteString(s.text)
		from = s.end
	}
	b.WriteString(text[from:])
	return b.String()
}

// Put writes an entry into the text of a client's file, in the place of one of that name
// where there is one. src is empty for a file that is not there.
func Put(kind, path string, src []byte, e Entry) ([]byte, error) {
	s, err := shapeOf(kind, path)
	if err != nil {
		return nil, err
	}
	make := s.stdio
	if e.URL != "" {
		if make = s.http; make == nil {
			return nil, ErrNoHTTP
		}
	}
	text, err := usable(src)
	if err != nil {
		return nil, err
	}
	before, err := s.decode(text)
	if err != nil {
		return nil, err
	}
	var out string
	switch s.format {
	case inTOML:
		out, err = s.putTOML(text, e.Name, make(e))
	case inYAML:
		out, err = s.putYAML(text, e.Name, make(e))
	default:
		if out, err = s.putJSON(text, s.at, e.Name, make(e)); err == nil && s.input && e.URL != "" {
			out, err = s.putInput(out, e)
		}
	}
	if err != nil {
		return nil, err
	}
	after, err := s.decode(out)
	if err != nil || s.entry(after, e.Name) == nil || !s.sameBut(e, before, after) {
		return nil, ErrForm
	}
	return restoreBOM(src, out), nil
}

// Take takes the entry of a name out of the text of a client's file. The error is
// ErrNoEntry where there is none.
func Take(kind, path string, src []byte, name string) ([]byte, error) {
	s, err := shapeOf(kind, path)
	if err != nil {
		return nil, err
	}
	text, err := usable(src)
	if err != nil {
		return nil, err
	}
	before, err := s.decode(text)
	if err != nil {
		return nil, err
	}
	if s.entry(before, name) == nil {
		return nil, ErrNoEntry
	}
	var out string
	switch s.format {
	case inTOML:
		out, err = s.takeTOML(text, name)
	case inYAML:
		out, err = s.takeYAML(text, name)
	default:
		out, err = s.takeJSON(text, name)
	}
	if err != nil {
		return nil, err
	}
	after, err := s.decode(out)
	if err != nil || s.entry(after, name) != nil || !s.sameBut(Entry{Name: name}, before, after) {
		return nil, ErrForm
	}
	return restoreBOM(src, out), nil
}

// Server is one that a client's file holds.
type Server struct {
	Name string
	// Ours says that it is a host's: it starts a program of that name, or is told of one.
	Ours bool
}

// Look says which servers a client's file holds, by their names.
func Look(kind, path string, src []byte) ([]Server, error) {
	s, err := shapeOf(kind, path)
	if err != nil {
		return nil, err
	}
	text, err := usable(src)
	if err != nil {
		return nil, err
	}
	root, err := s.decode(text)
	if err != nil {
		return nil, err
	}
	var found []Server
	for _, name := range s.names(root) {
		said, err := json.Marshal(s.entry(root, name))
		found = append(found, Server{Name: name, Ours: err == nil && isOurs(said)})
	}
	slices.SortFunc(found, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// isOurs says whether an entry starts this program for a client, or has a token by one of
// our references.
func isOurs(entry []byte) bool {
	entry = bytes.ToLower(entry)
	has := func(text string) bool { return bytes.Contains(entry, []byte(text)) }
	return has("drawbridge") && (has(`"connect"`) || has(`"serve"`)) || has("drawbridge_token") || has("drawbridge-token")
}

// usable is the text of a file without its byte order mark.
func usable(src []byte) (string, error) {
	switch {
	case len(src) > maxFile:
		return "", fmt.Errorf("%w: it is larger than %d MiB; a client's file of servers is not", ErrUnusable, maxFile>>20)
	case !utf8.Valid(src) || bytes.IndexByte(src, 0) >= 0:
		return "", fmt.Errorf("%w: it is not a text in UTF-8", ErrUnusable)
	}
	return strings.TrimPrefix(string(src), bom), nil
}

func restoreBOM(src []byte, out string) []byte {
	if bytes.HasPrefix(src, []byte(bom)) {
		out = bom + out
	}
	return []byte(out)
}

// decode reads a whole file. An error says nothing of what the file holds.
func (s shape) decode(text string) (map[string]any, error) {
	root := map[string]any{}
	if strings.TrimSpace(text) == "" {
		return root, nil
	}
	var err error
	language := "JSON"
	switch s.format {
	case inTOML:
		language = "TOML"
		err = toml.Unmarshal([]byte(text), &root)
	case inYAML:
		language = "YAML"
		err = yaml.Unmarshal([]byte(text), &root)
	default:
		var plain []byte
		if plain, err = hujson.Standardize([]byte(text + "\n")); err == nil {
			dec := json.NewDecoder(bytes.NewReader(plain))
			dec.UseNumber()
			err = dec.Decode(&root)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: it is no valid %s with an object at its top", ErrUnusable, language)
	}
	if root == nil {
		root = map[string]any{}
	}
	return root, nil
}

// servers is where the servers are; nil where there are none.
func (s shape) servers(root map[string]any) any {
	var at any = root
	for _, name := range s.at {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[name]
	}
	return at
}

func (s shape) names(root map[string]any) []string {
	var out []string
	switch servers := s.servers(root).(type) {
	case map[string]any:
		for name := range servers {
			out = append(out, name)
		}
	case []any:
		for _, one := range servers {
			if object, ok := one.(map[string]any); ok {
				out = append(out, fmt.Sprint(object["name"]))
			}
		}
	}
	return out
}

// entry is the server of a name; nil where there is none.
func (s shape) entry(root map[string]any, name string) any {
	switch servers := s.servers(root).(type) {
	case map[string]any:
		return servers[name]
	case []any:
		for _, one := range servers {
			if object, ok := one.(map[string]any); ok && object["name"] == name {
				return one
			}
		}
	}
	return nil
}

// sameBut says whether two files hold the same but for an entry, what it needs and the
// objects around it that are empty otherwise. It changes both.
func (s shape) sameBut(e Entry, a, b map[string]any) bool {
	for _, root := range []map[string]any{a, b} {
		s.strip(root, s.at, e.Name)
		if s.input {
			kept := []any{}
			list, _ := root["inputs"].([]any)
			for _, one := range list {
				if input, ok := one.(map[string]any); !ok || input["id"] != inputID(e) {
					kept = append(kept, one)
				}
			}
			if root["inputs"] = kept; len(kept) == 0 {
				delete(root, "inputs")
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

func (s shape) strip(object map[string]any, at []string, name string) {
	if len(at) == 0 {
		delete(object, name)
		return
	}
	switch inner := object[at[0]].(type) {
	case map[string]any:
		s.strip(inner, at[1:], name)
		if len(inner) == 0 {
			delete(object, at[0])
		}
	case []any:
		var kept []any
		for _, one := range inner {
			if item, ok := one.(map[string]any); !ok || item["name"] != name {
				kept = append(kept, one)
			}
		}
		if object[at[0]] = kept; len(kept) == 0 {
			delete(object, at[0])
		}
	case nil:
		delete(object, at[0])
	}
}

// newline is what ends the lines of a text.
func newline(text string) string {
	if i := strings.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// quoted is a text as JSON has it, which TOML and YAML read too.
func quoted(text string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return `""` // a string cannot fail
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// inline is a value on one line, with a sign between a name and its value.
func inline(value any, sign string, name func(string) string) string {
	var parts []string
	switch v := value.(type) {
	case string:
		return quoted(v)
	case bool:
		return fmt.Sprint(v)
	case []string:
		for _, one := range v {
			parts = append(parts, quoted(one))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case [][]field:
		return "[" + inline(v[0], sign, name) + "]"
	case []field:
		for _, f := range v {
			parts = append(parts, name(f.name)+sign+inline(f.value, sign, name))
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	}
	return "null"
}
