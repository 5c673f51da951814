package stdio

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// schema is the `config` block of a provider with this plugin.
var schema = provider.Schema{Attributes: []provider.Attribute{
	{
		Name: "command", Type: json.RawMessage(`"string"`), Required: true,
		Description: "The program to run. Without a slash it is searched in PATH as the server will see it; a relative path is relative to the folder of the file.",
	},
	{
		Name: "args", Type: json.RawMessage(`["list","string"]`),
		Description: "Its arguments, passed as they are: no shell sees them.",
	},
	{
		Name: "env", Type: json.RawMessage(`["map","string"]`), Sensitive: true,
		Description: "Variables set in its environment, besides the base set (PATH, HOME, LANG, LC_*, TMPDIR, TZ, USER, SHELL).",
	},
	{
		Name: "env_file", Type: json.RawMessage(`"string"`),
		Description: "A file with NAME=VALUE lines, read at each start; env wins over it.",
	},
	{
		Name: "unset_env", Type: json.RawMessage(`["list","string"]`),
		Description: "Variables of the base set or of env_file that the server does not get.",
	},
	{
		Name: "cwd", Type: json.RawMessage(`"string"`),
		Description: "Its working directory; the folder of the file when absent.",
	},
}}

// config is the decoded block. Pointers tell null, which HCL allows anywhere,
// from a value.
type config struct {
	Command  *string            `json:"command"`
	Args     []*string          `json:"args"`
	Env      map[string]*string `json:"env"`
	EnvFile  *string            `json:"env_file"`
	UnsetEnv []*string          `json:"unset_env"`
	Cwd      *string            `json:"cwd"`
}

// decode reads and checks a config without looking at the machine. No text of a
// diagnostic holds a value of the config: values may be secrets.
func decode(raw json.RawMessage) (config, provider.Diagnostics) {
	var c config
	var diags provider.Diagnostics
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, append(diags, problem("The config is not what the schema says", "It does not decode as the attributes of this plugin."))
	}
	if c.Command == nil || *c.Command == "" {
		diags = append(diags, problem("No command", "command names the program that is the MCP server.", provider.AttributeStep("command")))
	}
	diags = append(diags, checkText("command", c.Command)...)
	diags = append(diags, checkText("cwd", c.Cwd)...)
	diags = append(diags, checkText("env_file", c.EnvFile)...)
	for i, arg := range c.Args {
		if arg == nil {
			diags = append(diags, problem("An argument is null", "Leave the argument out, or write \"\".",
				provider.AttributeStep("args"), provider.IndexStep(i)))
		} else if strings.ContainsRune(*arg, 0) {
			diags = append(diags, problem("An argument holds a NUL byte", "No program can be given one.",
				provider.AttributeStep("args"), provider.IndexStep(i)))
		}
	}
	return c, append(diags, checkEnv(c)...)
}

func checkText(name string, value *string) provider.Diagnostics {
	switch {
	case value == nil:
	case name != "command" && *value == "":
		return provider.Diagnostics{problem(name+" is empty", "Give a path, or leave "+name+" out.", provider.AttributeStep(name))}
	case strings.ContainsRune(*value, 0):
		return provider.Diagnostics{problem(name+" holds a NUL byte", "No path or program name can.", provider.AttributeStep(name))}
	}
	return nil
}

func checkEnv(c config) provider.Diagnostics {
	var diags provider.Diagnostics
	for _, name := range sortedKeys(c.Env) {
		at := []provider.Step{provider.AttributeStep("env"), provider.KeyStep(name)}
		switch value := c.Env[name]; {
		case badName(name):
			diags = append(diags, problem("Not a variable's name", "A name is not empty and holds no = and no NUL byte.", at...))
		case reserved(name):
			diags = append(diags, problem(name+" cannot be set", "Drawbridge sets it, to know the processes of an instance.", at...))
		case value == nil:
			diags = append(diags, problem("The variable is null", "Leave it out, write \"\" for an empty value, or name it in unset_env.", at...))
		case strings.ContainsRune(*value, 0):
			diags = append(diags, problem("The value holds a NUL byte", "No environment can.", at...))
		}
	}
	for i, name := range c.UnsetEnv {
		at := []provider.Step{provider.AttributeStep("unset_env"), provider.IndexStep(i)}
		switch {
		case name == nil || badName(*name):
			diags = append(diags, problem("Not a variable's name", "A name is not empty and holds no = and no NUL byte.", at...))
		case reserved(*name):
			diags = append(diags, problem(*name+" cannot be unset", "Drawbridge sets it, to know the processes of an instance.", at...))
		default:
			if _, both := c.Env[*name]; both {
				diags = append(diags, problem(*name+" is both set and unset", "It stands in env and in unset_env; take it out of one.", at...))
			}
		}
	}
	return diags
}

func badName(name string) bool { return name == "" || strings.ContainsAny(name, "=\x00") }

func reserved(name string) bool { return name == provider.MarkEnv }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func problem(summary, detail string, path ...provider.Step) provider.Diagnostic {
	return provider.Diagnostic{Severity: provider.Error, Summary: summary, Detail: detail, Path: path}
}

func problemf(path []provider.Step, summary, detail string, args ...any) provider.Diagnostic {
	return problem(summary, fmt.Sprintf(detail, args...), path...)
}
