package main

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/doctor"
	"github.com/drawbridge-mcp/drawbridge/host/internal/secretstore"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// plugins looks at the third-party plugins and the lock file.
func (x *examination) plugins() {
	file, err := readLock(x.cfg)
	l := &doctor.Lock{Path: lock.PathFor(x.cfg.Path), Needed: x.cfg.Host.Locked, Exists: file != nil}
	if err != nil {
		l.Wrong = err.Error()
	}
	x.facts.Lock = l
	approveFound(x.cfg, file)
	for _, d := range foreignPlugins(x.cfg) {
		p := doctor.Plugin{Name: d.Name, Path: d.Path, Declared: d.SHA256, Found: d.Found}
		if d.Path != "" {
			p.Actual, err = checksum.File(d.Path)
		} else {
			p.Path = d.Command
			p.Actual, err = checksum.Files(d.Files)
		}
		if err != nil {
			p.Wrong = err.Error()
		}
		x.facts.Plugins = append(x.facts.Plugins, p)
	}
}

// askBuiltin asks the plugins for which that takes no process, looks for the commands
// they would run, and says whether the configuration is valid so far.
func (x *examination) askBuiltin(ctx context.Context) (valid bool) {
	pl := pluginsOf(x.cfg, nil, x.g.std.redactor)
	pl.secrets = x.used.record(pl.secrets)
	versions := nodeVersions{}
	for _, p := range pl.askable(x.cfg) {
		if pl.foreign(p) {
			continue
		}
		ready := pl.prepareOne(ctx, p)
		x.mistakes(ready.mistakes)
		for _, d := range ready.faults {
			if d.Severity == hcl.DiagWarning { // what keeps it from starting is told where it would start
				x.mistakes(hcl.Diagnostics{d})
				continue
			}
			x.faults[p.Slug] = append(x.faults[p.Slug], clauseOf(d))
		}
		if c, ok := commandOf(ctx, p, ready, versions); ok {
			x.facts.Commands = append(x.facts.Commands, c)
		}
	}
	return !slices.ContainsFunc(x.facts.Config.Mistakes, func(m doctor.Mistake) bool { return !m.Warning })
}

// commandOf looks for the command of a provider as its plugin will.
func commandOf(ctx context.Context, p *config.Provider, ready prepared, versions nodeVersions) (doctor.Command, bool) {
	var set struct {
		Command string            `json:"command"`
		Env     map[string]string `json:"env"`
	}
	if json.Unmarshal(ready.decoded.Config.JSON, &set) != nil || set.Command == "" {
		return doctor.Command{}, false
	}
	c := doctor.Command{Provider: p.Slug, Name: filepath.Base(set.Command)}
	path, own := set.Env["PATH"]
	if !own {
		path = hostPath()
	}
	c.OwnPath = own
	if strings.ContainsRune(set.Command, filepath.Separator) {
		c.Name = set.Command
		c.Path = executable(p.BaseDir, set.Command)
		c.Wrong = c.Name + " is not there, or is no executable file"
	} else {
		c.Path = lookIn(path, set.Command)
		c.Wrong = c.Name + " is in no folder of the PATH searched: " + path
	}
	switch base := filepath.Base(set.Command); base {
	case "node", "npm", "npx":
		c.NeedsNode = true
		c.Node = versions.of(ctx, path, "node")
		if base != "node" {
			c.Npx = versions.of(ctx, path, "npx")
		}
	}
	return c, true
}

// executable is the path of a command that is given with one, "" where it cannot run.
func executable(base, command string) string {
	if !filepath.IsAbs(command) {
		command = filepath.Join(base, command)
	}
	if found, err := exec.LookPath(command); err == nil {
		return found
	}
	return ""
}

// hostPath is the PATH that servers get of this process.
func hostPath() string {
	for _, pair := range provider.BaseEnv(os.Environ()) {
		if path, ok := strings.CutPrefix(pair, "PATH="); ok {
			return path
		}
	}
	return ""
}

// lookIn is where a command stands in a PATH, "" for nowhere.
func lookIn(path, command string) string {
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) {
			if found := executable(dir, command); found != "" {
				return found
			}
		}
	}
	return ""
}

// nodeVersions are what commands said of themselves, by their path.
type nodeVersions map[string]string

// versionLimit bounds a question for a version. npx takes most of a second.
const versionLimit = 20 * time.Second

// of is the version of a command in a PATH, "" where there is none that says it.
func (v nodeVersions) of(ctx context.Context, path, command string) string {
	found := lookIn(path, command)
	if found == "" {
		return ""
	}
	if said, ok := v[found]; ok {
		return said
	}
	ctx, cancel := context.WithTimeout(ctx, versionLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, found, "--version") // what the owner's own file would run
	cmd.Env = append(provider.BaseEnv(os.Environ()), "PATH="+path)
	said, err := cmd.Output()
	if err != nil {
		said = nil
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
	v[found] = line
	return line
}

// secretUse is what was asked of the store, by name. It is safe for concurrent use.
type secretUse struct {
	mu    sync.Mutex
	asked map[string]secretFound
}

type secretFound struct {
	set bool
	err error
}

// record passes questions on, and remembers their answers.
func (u *secretUse) record(ask config.Lookup) config.Lookup {
	return func(name string) (string, bool, error) {
		value, set, err := ask(name)
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.asked == nil {
			u.asked = map[string]secretFound{}
		}
		u.asked[name] = secretFound{set, err}
		return value, set, err
	}
}

// secrets says which secrets are there of those that providers name; of a valid
// configuration also which are there for nothing.
func (x *examination) secrets(valid bool) {
	s := &doctor.Secrets{Unusable: map[string]string{}}
	x.facts.Secrets = s
	for name, found := range x.used.asked {
		switch {
		case found.err != nil:
			s.Unusable[name] = found.err.Error()
		case found.set:
			s.Present = append(s.Present, name)
		default:
			s.Missing = append(s.Missing, name)
		}
	}
	slices.Sort(s.Present)
	slices.Sort(s.Missing)
	if !valid || x.facts.Config.Disabled > 0 || len(x.facts.Plugins) > 0 || x.cfg.Host.StateDir == "" {
		return // a provider that was not asked may name the others
	}
	entries, _ := secretstore.In(x.cfg.Host.StateDir).List() // what it holds besides is told where it is needed
	for _, e := range entries {
		if _, ok := x.used.asked[e.Name]; !ok {
			s.Unused = append(s.Unused, e.Name)
		}
	}
}

// providers starts what is to be started, and says what is listed.
func (x *examination) providers(ctx context.Context, running *control.Client) {
	h, err := x.newHost(ctx)
	if err != nil {
		x.hostFault(err)
		return
	}
	defer h.close(x.g.std.hurry) //nolint:contextcheck // hurry ends the waits of a stop
	h.plugins.secrets = x.used.record(h.plugins.secrets)
	diags := h.start(ctx)
	if diags.HasErrors() {
		x.mistakes(slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool { return d.Severity != hcl.DiagError }))
		return
	}
	states := map[string]control.ProviderStatus{}
	if running != nil {
		states, running = statesOf(ctx, running)
	}
	starts := make([]doctor.Start, len(h.specs))
	var all sync.WaitGroup
	for i, spec := range h.specs {
		all.Go(func() { starts[i] = x.start(ctx, h, spec, running != nil, states) })
	}
	all.Wait()
	snapshot := h.catalog.Snapshot()
	for i := range starts {
		starts[i].Known = snapshot.Known(starts[i].Provider)
		for _, t := range snapshot.Tools() {
			if t.Provider == starts[i].Provider {
				starts[i].Tools++
			}
		}
	}
	x.facts.Starts = starts
	x.listed(h)
}

// hostFault says why no host can be made, unless another check says it already.
func (x *examination) hostFault(err error) {
	if c := x.facts.Containment; c.Tier == "" || c.Unmet {
		return
	}
	x.mistakes(hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Host cannot be set up", Detail: err.Error()}})
}

// statesOf are the providers of a running host, nil as the host if it does not answer.
func statesOf(ctx context.Context, running *control.Client) (map[string]control.ProviderStatus, *control.Client) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, err := running.Status(ctx)
	if err != nil {
		return nil, nil
	}
	states := map[string]control.ProviderStatus{}
	for _, p := range status.Providers {
		states[p.Name] = p
	}
	return states, running
}

// start finds out how one provider starts, or stands where it runs already.
func (x *examination) start(ctx context.Context, h *host, spec session.Spec, runs bool, states map[string]control.ProviderStatus) doctor.Start {
	out := doctor.Start{Provider: spec.Provider, Limit: spec.StartTimeout}
	state, there := states[spec.Provider]
	switch {
	case spec.Fault != nil:
		out.Fault, out.Failure = true, cmp.Or(strings.Join(x.faults[spec.Provider], "\n"), spec.Fault.Cause)
	case runs && there:
		out.Running, out.State = true, state.State
		if state.State == string(supervise.Failed) || state.State == string(supervise.Backoff) {
			out.Failure = state.State + " in the running host: " + state.Reason
		}
	case runs:
		out.Absent = true
	case x.offline:
		out.Skipped = true
	default:
		began := time.Now()
		if _, err := h.sessions.Get(ctx, spec.Provider); err != nil {
			out.Failure = err.Error()
		}
		out.Took = time.Since(began)
	}
	return out
}

// listed says what clients of each project are shown, and what of it the lock file
// does not have.
func (x *examination) listed(h *host) {
	snapshot, policy := h.catalog.Snapshot(), h.gate.Policy()
	file, _ := readLock(x.cfg) // what is wrong with it is told
	if file != nil {
		x.facts.Lock.Unapproved = map[string]int{}
		for _, t := range snapshot.Tools() {
			if !file.Approves(t.Provider, t.Name, t.Digest) {
				x.facts.Lock.Unapproved[t.Provider]++
			}
		}
	}
	for _, view := range projectViews(x.cfg, policy, snapshot, file) {
		p := doctor.Project{Name: view.project, NameMax: view.nameMax, Unlisted: view.unlisted}
		for _, t := range view.tools {
			p.Tools = append(p.Tools, doctor.Tool{Exposed: t.Exposed, Provider: t.Provider, Bytes: len(t.Listed)})
		}
		x.facts.Projects = append(x.facts.Projects, p)
	}
}
