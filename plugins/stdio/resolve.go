package stdio

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// launch is what is executed, with nothing left to look up.
type launch struct {
	path string   // absolute
	args []string // with the command as declared in front
	env  []string
	dir  string // empty: the plugin's own
	hide secrets
}

var (
	atCommand = []provider.Step{provider.AttributeStep("command")}
	atCwd     = []provider.Step{provider.AttributeStep("cwd")}
	atEnvFile = []provider.Step{provider.AttributeStep("env_file")}
)

// resolve finds on this machine what a checked config names. environ is the
// plugin's own environment, of which the server gets the base set.
func resolve(c config, baseDir, mark string, environ []string) (launch, provider.Diagnostics) {
	var diags provider.Diagnostics
	l := launch{args: []string{*c.Command}, dir: baseDir}
	for _, arg := range c.Args {
		l.args = append(l.args, *arg)
	}
	if c.Cwd != nil {
		l.dir = relativeTo(baseDir, *c.Cwd)
		if info, err := os.Stat(l.dir); err != nil {
			diags = append(diags, problemf(atCwd, "The working directory cannot be used", "The folder that cwd names: %s.", cause(err)))
		} else if !info.IsDir() {
			diags = append(diags, problem("The working directory cannot be used", "What cwd names is not a folder.", atCwd...))
		}
	}
	env, hidden, more := environment(c, baseDir, mark, environ)
	diags = append(diags, more...)
	l.env, l.hide = env.list(), newSecrets(hidden)
	if diags.HasErrors() {
		return l, diags // the PATH to search may be wrong
	}
	path, problem := find(*c.Command, baseDir, env["PATH"])
	l.path = path
	if problem != nil {
		diags = append(diags, *problem)
	}
	return l, diags
}

// variables are an environment by name.
type variables map[string]string

func (v variables) list() []string {
	list := make([]string, 0, len(v))
	for _, name := range sortedKeys(v) {
		list = append(list, name+"="+v[name])
	}
	return list
}

// environment is, each winning over the one before: the base set, env_file,
// env; without unset_env; and the mark. hidden are the values that the owner gave.
func environment(c config, baseDir, mark string, environ []string) (vars variables, hidden []string, diags provider.Diagnostics) {
	vars = variables{}
	for _, pair := range provider.BaseEnv(environ) {
		name, value, _ := strings.Cut(pair, "=")
		vars[name] = value
	}
	if c.EnvFile != nil {
		values, err := readEnvFile(relativeTo(baseDir, *c.EnvFile))
		if bad, ok := errors.AsType[*lineError](err); ok {
			diags = append(diags, problemf(atEnvFile, "The env_file has a mistake", "%v.", bad))
		} else if err != nil {
			diags = append(diags, problemf(atEnvFile, "The env_file cannot be read", "%s.", cause(err)))
		}
		for name, value := range values {
			vars[name] = value
			hidden = append(hidden, value)
		}
	}
	for name, value := range c.Env {
		vars[name] = *value
		hidden = append(hidden, *value)
	}
	for _, name := range c.UnsetEnv {
		delete(vars, *name)
	}
	if mark != "" {
		vars[provider.MarkEnv] = mark
	}
	return vars, hidden, diags
}

func relativeTo(base, path string) string {
	if filepath.IsAbs(path) || base == "" {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// find returns the absolute path of the command, or why there is none. What a
// diagnostic says of the command is its base name alone.
func find(command, baseDir, path string) (string, *provider.Diagnostic) {
	name := filepath.Base(command)
	fail := func(summary, detail string, args ...any) (string, *provider.Diagnostic) {
		d := problemf(atCommand, summary, detail, args...)
		return "", &d
	}
	if strings.ContainsRune(command, filepath.Separator) || strings.Contains(command, "/") {
		full, err := filepath.Abs(relativeTo(baseDir, command))
		if err != nil {
			return fail("The command cannot be found", "%s: %s.", name, cause(err))
		}
		if _, err := exec.LookPath(full); err != nil {
			return fail("The command cannot be run", "%s: %s.", name, cause(err))
		}
		return full, nil
	}
	var denied string
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // relative to nothing that the file's author can see
		}
		full, err := exec.LookPath(filepath.Join(dir, command))
		if err == nil {
			return full, nil
		}
		if errors.Is(err, fs.ErrPermission) && denied == "" {
			denied = dir
		}
	}
	switch {
	case denied != "":
		return fail("The command cannot be run", "%s in %s is not an executable file. PATH searched: %s", name, denied, path)
	case path == "":
		return fail("The command was not found", "%s: the server's environment has no PATH to search. Set PATH in env, or give a path with a slash.", name)
	}
	return fail("The command was not found", "%s is in no folder of the PATH searched: %s", name, path)
}

// startProblem turns what the system said at the start into a diagnostic.
func startProblem(l launch, err error) provider.Diagnostic {
	name := filepath.Base(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return problemf(atCommand, "The command cannot be run", "%s is there, but the interpreter that it names, in its first line or as its loader, is not.", name)
	case errors.Is(err, syscall.ENOEXEC):
		return problemf(atCommand, "The command cannot be run", "%s is no program for this machine: another CPU's, or a script without a #! line.", name)
	}
	return problemf(atCommand, "The command cannot be run", "%s: %s.", name, cause(err))
}

// cause is what the system said, without the path it said it of.
func cause(err error) string {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if lookup, ok := errors.AsType[*exec.Error](err); ok {
		err = lookup.Err
	}
	if system, ok := errors.AsType[*os.SyscallError](err); ok {
		err = system.Err
	}
	return err.Error()
}
