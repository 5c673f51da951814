package clientfile

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Entry is what a client is told of a host.
type Entry struct {
	// Name is the entry's name in the file.
	Name string
	// Command and Args start `drawbridge connect`: over stdio.
	Command string
	Args    []string
	// URL, where set, is the host's endpoint over HTTP; TokenEnv names the environment
	// variable, or what the client has instead, that holds the token.
	URL, TokenEnv string
}

// field is a member of an object, in its order. value is a string, a bool, a []string or
// a []field.
type field struct {
	name  string
	value any
}

type format int

const (
	inJSON format = iota
	inTOML
	inYAML
)

// shape is how a client's file holds servers.
type shape struct {
	format format
	// at is the path to them; list says that they are a list of objects with a name.
	at   []string
	list bool
	// stdio and http make an entry; http nil says that the client reads no token by
	// reference, or knows no servers over HTTP.
	stdio, http func(Entry) []field
	// input says that the token is asked for by the client, by an input of its file.
	input bool
}

// plain is a command and its arguments.
func plain(e Entry) []field { return []field{{"command", e.Command}, {"args", e.Args}} }

func typed(kind string, rest []field) []field {
	return append([]field{{"type", kind}}, rest...)
}

// web is a URL under a name and the token by reference.
func web(name, before, after string) func(Entry) []field {
	return func(e Entry) []field {
		return []field{{name, e.URL}, bearer("headers", before+e.TokenEnv+after)}
	}
}

func bearer(headers, reference string) field {
	return field{headers, []field{{"Authorization", "Bearer " + reference}}}
}

var mcpServers = []string{"mcpServers"}

// shapes are those of the clients' kinds, as the importer names them.
var shapes = map[string]shape{
	"claude-desktop": {at: mcpServers, stdio: plain},
	"claude-code": {at: mcpServers, stdio: func(e Entry) []field { return typed("stdio", plain(e)) },
		http: func(e Entry) []field { return typed("http", web("url", "${", "}")(e)) }},
	"vscode": {at: []string{"servers"}, input: true, stdio: func(e Entry) []field { return typed("stdio", plain(e)) },
		http: func(e Entry) []field {
			return []field{{"type", "http"}, {"url", e.URL}, bearer("headers", "${input:"+inputID(e)+"}")}
		}},
	"cursor":   {at: mcpServers, stdio: plain, http: web("url", "${env:", "}")},
	"windsurf": {at: mcpServers, stdio: plain, http: web("serverUrl", "${env:", "}")},
	"cline":    {at: mcpServers, stdio: plain},
	"roo": {at: mcpServers, stdio: plain,
		http: func(e Entry) []field { return typed("streamable-http", web("url", "${env:", "}")(e)) }},
	"zed": {at: []string{"context_servers"}, stdio: func(e Entry) []field { return append([]field{{"source", "custom"}}, plain(e)...) }},
	"codex": {format: inTOML, at: []string{"mcp_servers"}, stdio: plain,
		http: func(e Entry) []field { return []field{{"url", e.URL}, {"bearer_token_env_var", e.TokenEnv}} }},
	"gemini": {at: mcpServers, stdio: plain, http: web("httpUrl", "$", "")},
	"continue": {format: inYAML, at: mcpServers, list: true, stdio: plain,
		http: func(e Entry) []field {
			return []field{{"type", "streamable-http"}, {"url", e.URL}, {"requestOptions", []field{bearer("headers", "${{ secrets."+e.TokenEnv+" }}")}}}
		}},
	"opencode": {at: []string{"mcp"},
		stdio: func(e Entry) []field {
			return []field{{"type", "local"}, {"command", append([]string{e.Command}, e.Args...)}, {"enabled", true}}
		},
		http: func(e Entry) []field {
			return append([]field{{"type", "remote"}}, append(web("url", "{env:", "}")(e), field{"enabled", true})...)
		}},
	"librechat": {format: inYAML, at: mcpServers, stdio: func(e Entry) []field { return typed("stdio", plain(e)) },
		http: func(e Entry) []field { return typed("streamable-http", web("url", "${", "}")(e)) }},
	"generic": {at: mcpServers, stdio: plain},
}

// Kinds are the kinds of clients whose files can be written, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(shapes)) }

// Asks says whether a client asks its user for the token itself, so that no variable
// holds it.
func Asks(kind string) bool { return shapes[kind].input }

// shapeOf is the shape of a client's file at a path. An editor's settings hold servers
// elsewhere than its file of servers.
func shapeOf(kind, path string) (shape, error) {
	s, ok := shapes[kind]
	if !ok {
		return s, ErrKind
	}
	if kind == "vscode" && filepath.Base(path) == "settings.json" {
		s.at = []string{"mcp", "servers"}
	}
	return s, nil
}

// inputID is that of the input by which a client asks for the token.
func inputID(e Entry) string { return strings.ToLower(strings.ReplaceAll(e.TokenEnv, "_", "-")) }
