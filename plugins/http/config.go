package http

import (
	"encoding/json"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// schema is the `config` block of a provider with this plugin.
var schema = provider.Schema{Attributes: []provider.Attribute{
	{
		Name: "url", Type: json.RawMessage(`"string"`),
		Description: "Where the server answers on this machine: http or https, at localhost or an address of loopback.",
	},
	{
		Name: "headers", Type: json.RawMessage(`["map","string"]`), Sensitive: true,
		Description: "Headers sent with every request.",
	},
	{
		Name: "transport", Type: json.RawMessage(`"string"`), Default: json.RawMessage(`"auto"`),
		Description: "http for streamable HTTP, sse for the older transport, or auto: the first, and where the server does not know it the second.",
	},
	{
		Name: "command", Type: json.RawMessage(`"string"`),
		Description: "The program that is the server, where the plugin is to start it.",
	},
	{
		Name: "args", Type: json.RawMessage(`["list","string"]`),
		Description: "Its arguments, passed as they are: no shell sees them.",
	},
	{
		Name: "env", Type: json.RawMessage(`["map","string"]`), Sensitive: true,
		Description: "Variables set in its environment, besides the base set.",
	},
	{
		Name: "cwd", Type: json.RawMessage(`"string"`),
		Description: "Its working directory; the folder of the file when absent.",
	},
}}

// transports are the values of transport.
var transports = []string{"auto", "http", "sse"}

// config is the decoded block. Pointers tell null from a value.
type config struct {
	URL       *string            `json:"url"`
	Headers   map[string]*string `json:"headers"`
	Transport *string            `json:"transport"`
	Command   *string            `json:"command"`
	Args      []*string          `json:"args"`
	Env       map[string]*string `json:"env"`
	Cwd       *string            `json:"cwd"`
}

// check reads a config without looking at the machine. No text of a diagnostic holds
// a value of it.
func check(raw json.RawMessage) provider.Diagnostics {
	var c config
	if err := json.Unmarshal(raw, &c); err != nil {
		return provider.Diagnostics{problem("The config is not what the schema says", "It does not decode as the attributes of this plugin.")}
	}
	var diags provider.Diagnostics
	switch {
	case c.URL == nil && c.Command == nil:
		diags = append(diags, problem("Neither url nor command", "url says where the server answers; command starts one."))
	case c.URL != nil && c.Command != nil:
		diags = append(diags, problem("Both url and command", "The server is either one that runs, at url, or one to start, by command. Take one out.", provider.AttributeStep("command")))
	}
	diags = append(diags, checkURL(c.URL)...)
	if c.Transport != nil && !slices.Contains(transports, *c.Transport) {
		diags = append(diags, problem("Unknown transport", "It is auto, http or sse.", provider.AttributeStep("transport")))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		diags = append(diags, checkHeader(name, c.Headers[name])...)
	}
	return append(diags, checkProcess(c)...)
}

// checkURL wants an address on this machine: a provider stands for a server that is
// here, and nobody reaches others through it.
func checkURL(raw *string) provider.Diagnostics {
	if raw == nil {
		return nil
	}
	at := provider.AttributeStep("url")
	u, err := url.Parse(*raw)
	switch {
	case err != nil || u.Host == "":
		return provider.Diagnostics{problem("Not a URL", "It is written like http://127.0.0.1:8931/mcp.", at)}
	case u.Scheme != "http" && u.Scheme != "https":
		return provider.Diagnostics{problem("Not a URL of HTTP", "It begins with http:// or https://.", at)}
	case !loopback(u.Hostname()):
		return provider.Diagnostics{problem("The server is not on this machine", "A provider is a server on this machine: localhost, or an address of loopback such as 127.0.0.1 or [::1].", at)}
	case u.Fragment != "":
		return provider.Diagnostics{problem("The URL has a fragment", "What follows the # is never sent. Take it out.", at)}
	}
	return nil
}

// loopback says whether a host is this machine, whatever a resolver says.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func checkHeader(name string, value *string) provider.Diagnostics {
	at := []provider.Step{provider.AttributeStep("headers"), provider.KeyStep(name)}
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return provider.Diagnostics{problem("Not a header's name", "A name holds letters, digits and dashes.", at...)}
	case value == nil:
		return provider.Diagnostics{problem("The header is null", "Leave it out, or write \"\".", at...)}
	case !httpguts.ValidHeaderFieldValue(*value):
		return provider.Diagnostics{problem("Not a header's value", "It holds a line break or another control character.", at...)}
	}
	return nil
}

// checkProcess checks what belongs to a command.
func checkProcess(c config) provider.Diagnostics {
	var diags provider.Diagnostics
	if c.Command == nil {
		for name, given := range map[string]bool{"args": c.Args != nil, "env": c.Env != nil, "cwd": c.Cwd != nil} {
			if given {
				diags = append(diags, problem(name+" without a command", "It belongs to a server that the plugin starts.", provider.AttributeStep(name)))
			}
		}
		slices.SortFunc(diags, func(a, b provider.Diagnostic) int { return strings.Compare(a.Summary, b.Summary) })
		return diags
	}
	if *c.Command == "" {
		diags = append(diags, problem("No command", "command names the program that is the MCP server.", provider.AttributeStep("command")))
	}
	for i, arg := range c.Args {
		if arg == nil || strings.ContainsRune(*arg, 0) {
			diags = append(diags, problem("No argument of a program", "It is null, or holds a NUL byte.", provider.AttributeStep("args"), provider.IndexStep(i)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		value := c.Env[name]
		if name == "" || strings.ContainsAny(name, "=\x00") || name == provider.MarkEnv || value == nil || strings.ContainsRune(*value, 0) {
			diags = append(diags, problem("No variable of an environment", "A name is not empty, holds no =, and is not Drawbridge's own; a value is not null and holds no NUL byte.",
				provider.AttributeStep("env"), provider.KeyStep(name)))
		}
	}
	return diags
}

func problem(summary, detail string, path ...provider.Step) provider.Diagnostic {
	return provider.Diagnostic{Severity: provider.Error, Summary: summary, Detail: detail, Path: path}
}
