package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/internal/identity"
	"github.com/drawbridge-mcp/drawbridge/host/internal/redact"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// describeTimeout bounds one question to a third-party plugin, its start
// included: an interpreter needs a second or two, and a host that starts waits.
const describeTimeout = 10 * time.Second

// plugins answers what a config needs to know of the plugins that it names. A
// built-in plugin answers in this process; a third-party one is started,
// asked and stopped.
type plugins struct {
	launcher *supervise.Launcher
	declared map[string]*config.Plugin
	// lockPath is where the lock file stands or would, for messages.
	lockPath string
	// redactor is told the secrets of each config before anybody sees them.
	redactor *redact.Redactor
	// secrets finds the values of secret().
	secrets config.Lookup
}

// pluginsOf are the plugins of a configuration; launcher is nil where none has to
// be started.
func pluginsOf(cfg *config.Config, launcher *supervise.Launcher, r *redact.Redactor) plugins {
	return plugins{
		launcher: launcher, declared: cfg.Plugins, lockPath: lock.PathFor(cfg.Path),
		redactor: r, secrets: lookup(cfg.Host.StateDir),
	}
}

// exec says how the plugin of p is run.
func (pl plugins) exec(p *config.Provider) supervise.Exec {
	if d, ok := pl.declared[p.Plugin]; ok {
		return supervise.Exec{
			Name: d.Name, Path: d.Path, SHA256: d.SHA256, Command: d.Command, Args: d.Args, Files: d.Files, MTLS: d.MTLS,
		}
	}
	return supervise.Exec{Name: p.Plugin, Builtin: true}
}

// foreign says whether asking p's plugin takes a process.
func (pl plugins) foreign(p *config.Provider) bool { return !pl.exec(p).Builtin }

// askable are the enabled providers whose plugin can be asked. In a valid file these
// are all of them: of any other plugin reading has told what is wrong.
func (pl plugins) askable(cfg *config.Config) []*config.Provider {
	var out []*config.Provider
	for _, p := range cfg.Providers {
		d, declared := pl.declared[p.Plugin]
		if _, ok := builtin[p.Plugin]; p.Enabled && (ok || declared && d.Found || declared && d.SHA256 != "" && (d.Path != "" || d.Command != "" && len(d.Files) > 0)) {
			out = append(out, p)
		}
	}
	return out
}

func (pl plugins) describe(ctx context.Context, p *config.Provider) (provider.Description, error) {
	if make, ok := builtin[p.Plugin]; ok {
		return make().Describe(ctx)
	}
	return pl.launcher.Describe(ctx, specOf(p, pl.exec(p)).Spec)
}

func (pl plugins) validate(ctx context.Context, p *config.Provider, c provider.Config) (provider.Diagnostics, error) {
	if make, ok := builtin[p.Plugin]; ok {
		return make().Validate(ctx, c)
	}
	spec := specOf(p, pl.exec(p)).Spec
	spec.Config = c
	return pl.launcher.Validate(ctx, spec)
}

// decode decodes the config block of p. From then on its secrets are known.
func (pl plugins) decode(p *config.Provider, schema provider.Schema) (d config.Decoded, diags, missing hcl.Diagnostics) {
	d, diags, missing = config.DecodeBody(p, schema, pl.secrets)
	pl.redactor.Add(d.Secrets...)
	pl.redactor.AddSecret(d.FromSecret...)
	return d, diags, missing
}

// prepared is one provider, checked.
type prepared struct {
	spec session.Spec
	// schema is that of the config block, nil where the plugin could not be asked, and
	// decoded what the block came to.
	schema  *provider.Schema
	decoded config.Decoded
	// material is what decides its process; without a Config it is not known.
	material identity.Material
	// mistakes are errors of the file, which nothing may start with; faults are
	// what keeps this provider alone from starting.
	mistakes, faults hcl.Diagnostics
}

// prepare decodes and validates every enabled provider, side by side, so that a
// slow plugin costs the others nothing.
func (pl plugins) prepare(ctx context.Context, cfg *config.Config) []prepared {
	enabled := pl.askable(cfg)
	out := make([]prepared, len(enabled))
	var all sync.WaitGroup
	for i, p := range enabled {
		all.Go(func() { out[i] = pl.prepareOne(ctx, p) })
	}
	all.Wait()
	return out
}

func (pl plugins) prepareOne(ctx context.Context, p *config.Provider) prepared {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	out := prepared{spec: specOf(p, pl.exec(p))}
	if wrong := unapproved(pl.declared[p.Plugin], pl.lockPath); wrong != nil {
		out.fault(p, supervise.PhasePlugin, wrong)
		return out
	}
	about, err := pl.describe(ctx, p)
	if err != nil {
		out.fault(p, supervise.PhasePlugin, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Plugin cannot be asked", Detail: causeOf(err), Subject: p.Range.Ptr()})
		return out
	}
	if wrong := pl.wrongVersion(p, about); wrong != nil {
		out.fault(p, supervise.PhasePlugin, wrong)
		return out
	}
	decoded, diags, missing := pl.decode(p, about.Config)
	out.schema, out.decoded, out.mistakes = &about.Config, decoded, diags
	out.spec.Config, out.spec.Command = decoded.Config, decoded.Command
	if missing.HasErrors() {
		out.fault(p, supervise.PhaseConfig, missing...)
		return out
	}
	if diags.HasErrors() || decoded.Config.JSON == nil { // reading has told of the rest
		return out
	}
	if pl.launcher != nil {
		out.material = pl.materialOf(p, about, decoded)
	}
	found, err := pl.validate(ctx, p, decoded.Config)
	if err != nil {
		out.fault(p, supervise.PhasePlugin, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Plugin cannot check its config", Detail: causeOf(err), Subject: p.Range.Ptr()})
		return out
	}
	located := config.Locate(p, about.Config, pl.withoutSecrets(found))
	if located.HasErrors() {
		out.fault(p, supervise.PhaseConfig, located...)
		return out
	}
	out.faults = append(out.faults, located...)
	if reason, ok := runsNothingYet(p.Plugin); ok {
		// Failed at once: starting it again and again would say the same.
		out.spec.Fault = &supervise.Failure{Provider: p.Slug, Label: p.Label, Where: place(nil, p.Range), Phase: supervise.PhasePlugin, Cause: reason}
	}
	return out
}

// causeOf is why a plugin could not be asked, without the names of provider and
// phase, which stand around it where it is shown.
func causeOf(err error) string {
	var f *supervise.Failure
	if errors.As(err, &f) {
		if _, cause, ok := strings.Cut(f.Error(), fmt.Sprintf(": %s: ", f.Phase)); ok {
			return cause
		}
	}
	return err.Error()
}

// wrongVersion compares what the plugin of p says of itself with what is declared.
func (pl plugins) wrongVersion(p *config.Provider, about provider.Description) *hcl.Diagnostic {
	d := pl.declared[p.Plugin]
	if d == nil || d.Version == "" || d.Version == about.Version {
		return nil
	}
	return &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: fmt.Sprintf("Another version of the plugin %q", d.Name), Subject: d.VersionRange.Ptr(),
		Detail: fmt.Sprintf("It says that its version is %q, and the declared one is %q. Declare the one that you want to run, with its sha256.", about.Version, d.Version),
	}
}

// withoutSecrets is what a plugin said of a config, without what the config holds.
func (pl plugins) withoutSecrets(found provider.Diagnostics) provider.Diagnostics {
	out := slices.Clone(found)
	for i := range out {
		out[i].Summary, out[i].Detail = pl.redactor.Text(out[i].Summary), pl.redactor.Text(out[i].Detail)
	}
	return out
}

// fault records what keeps the provider from starting.
func (out *prepared) fault(p *config.Provider, phase supervise.Phase, diags ...*hcl.Diagnostic) {
	out.faults = append(out.faults, diags...)
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		out.spec.Fault = &supervise.Failure{Provider: p.Slug, Label: p.Label, Where: place(d.Subject, p.Range), Phase: phase, Cause: clauseOf(d)}
		return
	}
}

// clauseOf is a diagnostic as one clause.
func clauseOf(d *hcl.Diagnostic) string {
	if d.Detail == "" {
		return d.Summary
	}
	return d.Summary + ": " + d.Detail
}

// placed is clauseOf with the diagnostic's place before it, where it has one.
func placed(d *hcl.Diagnostic) string {
	if d.Subject == nil {
		return clauseOf(d)
	}
	return place(d.Subject, *d.Subject) + ": " + clauseOf(d)
}

// place is file:line of a diagnostic, or of the provider's block.
func place(at *hcl.Range, block hcl.Range) string {
	if at == nil {
		at = &block
	}
	return fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Start.Line)
}

func specOf(p *config.Provider, exec supervise.Exec) session.Spec {
	return session.Spec{
		Spec: supervise.Spec{
			Provider: p.Slug, Label: p.Label, Where: place(nil, p.Range),
			Exec:         exec,
			MaxMessage:   p.Limits.MaxMessage,
			StartTimeout: p.Limits.StartTimeout,
			StopGrace:    p.Limits.StopGrace,
			Restart: supervise.Policy{
				Intensity: p.Restart.Intensity, Period: p.Restart.Period,
				Backoff: p.Restart.Backoff, BackoffMax: p.Restart.BackoffMax,
				StableAfter: p.Restart.StableAfter, Cooldown: p.Restart.Cooldown,
			},
		},
		CallTimeout: p.Limits.CallTimeout, CallTimeoutMax: p.Limits.CallTimeoutMax,
		HealthInterval: p.Limits.HealthInterval,
		MaxPages:       p.Limits.MaxPages, MaxDefinitions: p.Limits.MaxDefinitions, MaxListBytes: p.Limits.MaxListBytes,
	}
}
