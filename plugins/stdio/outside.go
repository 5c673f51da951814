package stdio

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// Some commands let others run the server: a container engine, a cluster, the
// service manager, another machine. What they start is not below the host, so
// neither a kill of the tree nor a sweep by mark ends it. Nothing here can change
// that; what can be said in time is what may be left, and which flags help.

// outsider is a command that lets others run what it is given.
type outsider struct {
	// verbs are the sub-commands that do so; none means that the command itself does.
	verbs []string
	// below is a flag with which it does not.
	below string
	// composes says that its sub-command compose has verbs of its own.
	composes bool
	// left is who runs the server, and what may be left.
	left string
	// advice is what helps, given a verb and what follows it; nil for nothing.
	advice func(verb string, args []string) []string
}

var engine = outsider{
	verbs: []string{"run", "exec", "start", "create"}, composes: true,
	left: "the container belongs to the engine. It ends with its input, or with a signal that is passed on; when the host, the guard or this command is killed it may run on",
	advice: func(verb string, args []string) []string {
		if verb != "run" && verb != "create" {
			return []string{"a server that ends at the end of its input"}
		}
		return runFlags(args)
	},
}

var compose = outsider{
	verbs: []string{"run", "up", "exec", "start"},
	left:  "the containers belong to the engine, and the services that it starts along stay",
	advice: func(verb string, args []string) []string {
		if verb == "run" {
			return missing(args, [2]string{"--rm", "--rm"}, [2]string{"-T", "--no-TTY"}, [2]string{"--no-deps", "--no-deps"})
		}
		return []string{"`compose run --rm -T` for the server alone"}
	},
}

var cluster = outsider{
	verbs: []string{"run", "exec", "debug", "attach"},
	left:  "the process is on a node of the cluster, and ends when that notices the end of its input",
	advice: func(verb string, args []string) []string {
		advice := missing(args, [2]string{"-i", "--stdin"})
		if verb == "run" {
			advice = append(advice, missing(args, [2]string{"--rm", "--rm"}, [2]string{"--restart=Never", "--restart"})...)
		}
		return advice
	},
}

var remote = outsider{
	left: "the process is on another machine, and ends when that notices the end of its input, or of the connection",
	advice: func(_ string, args []string) []string {
		return append(missing(args, [2]string{"-T", "-T"}), "a server that ends at the end of its input")
	},
}

const (
	inContainer = "it runs in a container, which stays"
	byManager   = "the service manager runs it, and does not end it with the host"
)

var outsiders = map[string]outsider{
	"docker": engine, "podman": engine, "nerdctl": engine, "finch": engine,
	"docker-compose": compose, "podman-compose": compose,
	"kubectl": cluster, "oc": cluster,
	"ssh": remote, "plink": remote, "mosh": remote,
	"systemd-run": {below: "--scope", left: byManager, advice: func(string, []string) []string {
		return []string{"the program itself as command"}
	}},
	"machinectl":    {verbs: []string{"shell"}, left: byManager},
	"toolbox":       {verbs: []string{"run", "enter"}, left: inContainer},
	"distrobox":     {verbs: []string{"enter"}, left: inContainer},
	"lxc":           {verbs: []string{"exec"}, left: inContainer},
	"incus":         {verbs: []string{"exec"}, left: inContainer},
	"flatpak-spawn": {left: "it runs outside of the sandbox that the host stands in"},
	"wsl":           {left: "it runs in the virtual machine of WSL, and ends when that notices the end of its input"},
}

// wrappers run the command that they are given, and shells one that is a text.
var (
	wrappers   = []string{"env", "nice", "ionice", "timeout", "stdbuf", "nohup", "setsid", "sudo", "doas", "time", "exec", "tini", "dumb-init"}
	shells     = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "cmd", "powershell", "pwsh"}
	valueFlags = []string{"-u", "-g", "-n", "-k", "-s", "-C"} // of wrappers, with the value after them
)

// outside warns of a command whose server is not below the host. Of the config it
// tells nothing but the command's own name and that of its sub-command.
func outside(c config) provider.Diagnostics {
	if c.Command == nil {
		return nil
	}
	name, words, from := programName(*c.Command), []string(nil), []int(nil)
	for i, arg := range c.Args {
		if arg == nil {
			return nil // an error, and said
		}
		words, from = append(words, *arg), append(from, i)
	}
	at := provider.Path{provider.AttributeStep("command")}
	for slices.Contains(wrappers, name) || slices.Contains(shells, name) {
		i := wrapped(words)
		if slices.Contains(shells, name) {
			words, from, i = script(words, from)
		}
		if i < 0 {
			return nil
		}
		at = provider.Path{provider.AttributeStep("args"), provider.IndexStep(from[i])}
		name, words, from = programName(words[i]), words[i+1:], from[i+1:]
	}
	one, ok := outsiders[name]
	if !ok || one.below != "" && has(words, one.below) {
		return nil
	}
	verb, rest := one.verb(words)
	if one.composes && verb == "compose" {
		one, name = compose, name+" compose"
		verb, rest = one.verb(rest)
	}
	if verb == "" && one.verbs != nil {
		return nil
	}
	detail := fmt.Sprintf("The server is not below the host: %s.", one.left)
	if one.advice != nil {
		if advice := one.advice(verb, rest); len(advice) > 0 {
			detail += fmt.Sprintf(" What helps: %s.", strings.Join(advice, ", "))
		}
	}
	return provider.Diagnostics{{
		Severity: provider.Warning, Summary: fmt.Sprintf("%q is outside of the clean-up", strings.TrimSpace(name+" "+verb)), Detail: detail, Path: at,
	}}
}

// wrapped is where the command of a wrapper stands among its arguments, behind
// flags, variables and numbers; -1 where there is none.
func wrapped(words []string) int {
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case slices.Contains(valueFlags, word):
			i++
		case word == "" || word[0] == '-' || strings.Contains(word, "=") || word[0] >= '0' && word[0] <= '9':
		default:
			return i
		}
	}
	return -1
}

// script takes the text that a shell is to run apart, roughly, and finds the first
// word in it that is a command to warn of; -1 where there is none.
func script(args []string, from []int) (words []string, places []int, at int) {
	text := slices.IndexFunc(args, func(arg string) bool {
		return len(arg) > 1 && strings.ContainsRune("-/", rune(arg[0])) && strings.HasSuffix(strings.TrimSuffix(strings.ToLower(arg), "ommand"), "c")
	})
	if text < 0 {
		return nil, nil, -1
	}
	for i, arg := range args[text+1:] {
		for _, word := range strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune(" \t\r\n;&|()`\"'", r) }) {
			words, places = append(words, word), append(places, from[text+1+i])
		}
	}
	return words, places, slices.IndexFunc(words, func(word string) bool {
		_, ok := outsiders[programName(word)]
		return ok
	})
}

// verb is the sub-command that lets others run the server, and what follows it.
// Flags, and values of flags, may stand before it.
func (o outsider) verb(words []string) (string, []string) {
	for i, word := range words {
		if slices.Contains(o.verbs, word) || o.composes && word == "compose" {
			return word, words[i+1:]
		}
	}
	return "", words
}

// runFlags is what a `run` of a container should be given, or should not.
func runFlags(args []string) []string {
	advice := missing(args, [2]string{"--rm", "--rm"}, [2]string{"--init", "--init"}, [2]string{"-i", "--interactive"})
	for _, bad := range [][2]string{{"-d", "--detach"}, {"-t", "--tty"}} {
		if has(args, bad[0]) || has(args, bad[1]) {
			advice = append(advice, "no "+bad[0])
		}
	}
	return advice
}

// missing are the flags that stand in args neither short nor long.
func missing(args []string, flags ...[2]string) []string {
	var out []string
	for _, flag := range flags {
		if !has(args, flag[0]) && !has(args, flag[1]) {
			out = append(out, flag[0])
		}
	}
	return out
}

// has says whether a flag stands in args, also as --flag=value, or as one of several
// letters after a dash.
func has(args []string, flag string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		if strings.HasPrefix(flag, "--") {
			name, value, given := strings.Cut(arg, "=")
			return arg == flag || name == flag && given && value != "false"
		}
		return len(arg) > 1 && arg[0] == '-' && arg[1] != '-' && strings.Trim(arg[1:], "diPtTqv") == "" && strings.Contains(arg, flag[1:])
	})
}

// programName is a command without its folder, its extension and its case.
func programName(command string) string {
	name := command[strings.LastIndexAny(command, `/\`)+1:]
	return strings.TrimSuffix(strings.ToLower(name), ".exe")
}
