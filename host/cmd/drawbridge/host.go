package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/artifact"
	"github.com/drawbridge-mcp/drawbridge/host/broker"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/front"
	"github.com/drawbridge-mcp/drawbridge/host/internal/redact"
	"github.com/drawbridge-mcp/drawbridge/host/internal/shape"
	"github.com/drawbridge-mcp/drawbridge/host/journal"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

// host is a host's parts, wired. Each is made once, before anything starts, and
// knows those below it; what has to go up goes through upward.
type host struct {
	cfg      *config.Config
	log      *slog.Logger
	redactor *redact.Redactor
	// life is this run of the host, as others who share the state dir see it; held
	// is what its processes are held by.
	life   *containment.Run
	held   *containment.Guarded
	tier   containment.Tier // asked for, "" for the best
	images *containment.Images
	run    *supervise.RunDir

	// gate holds the policy in force, identities what verifies issuers' tokens for it.
	gate       *access.Gate
	identities *access.OIDC
	// lock is the lock file in force, nil without locked = true.
	lock      atomic.Pointer[lock.File]
	plugins   plugins
	journal   *journal.Journal
	callIDs   *journal.CallIDs
	catalog   *catalog.Store
	sessions  *session.Manager
	artifacts *artifact.Store
	// shapes warns of results that do not fit their outputSchema.
	shapes *shape.Watch
	// endSweeps ends the goroutine that removes expired artifacts.
	endSweeps context.CancelFunc
	cleaner   broker.Cleaner
	broker    *broker.Broker
	front     *front.Server
	control   *control.Control
	// specs are the enabled providers, once start has checked them.
	specs []session.Spec
	// reloads keeps what a reload needs to know of the start and of other reloads.
	reloads reloads
	// warming are the starts that nobody waits for.
	warming sync.WaitGroup

	stopOnce   sync.Once
	stopBegan  time.Time
	stop       context.Context
	stopCancel context.CancelFunc
}

// hostOptions are how a host is run, beyond what its configuration says.
type hostOptions struct {
	level slog.Level
	// tier is what the processes are held by, also where a better one works; "" for
	// the best.
	tier containment.Tier
	// project is the one that a client on stdio works in.
	project string
	// fresh says that every server is to be asked anew what it has.
	fresh bool
	// leave says that what dead hosts left is left alone.
	leave bool
	// log gets the log. redactor, if there is one, is what log takes secrets out by
	// already.
	log      io.Writer
	redactor *redact.Redactor
}

// newHost makes a host; nothing runs yet. close must be called.
func newHost(ctx context.Context, cfg *config.Config, o hostOptions) (*host, error) {
	h := &host{cfg: cfg, redactor: o.redactor, tier: o.tier}
	if h.redactor == nil {
		h.redactor = new(redact.Redactor)
		o.log = redact.Writer(o.log, h.redactor)
	}
	h.redactor.Add(cfg.Secrets...)
	h.log = slog.New(slog.NewTextHandler(o.log, &slog.HandlerOptions{Level: o.level}))
	h.shapes = shape.NewWatch(h.log)
	h.newGate(cfg)
	if err := os.MkdirAll(cfg.Host.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("state_dir: %w", err)
	}
	if err := h.contain(ctx, !o.leave); err != nil {
		h.release()
		return nil, err
	}
	if err := h.openJournal(ctx); err != nil {
		h.release()
		return nil, err
	}
	if err := h.openArtifacts(ctx); err != nil {
		h.release()
		return nil, err
	}
	launcher := &supervise.Launcher{
		HostID: h.life.ID(),
		RunDir: h.run.Path,
		LogDir: filepath.Join(cfg.Host.StateDir, logsFolder),
		Logger: h.log,
		Redact: h.redactor.Text, RedactHead: h.redactor.Head,
		Env: os.Environ(),

		Containment: h.held,
		Images:      h.images,
	}
	h.plugins = pluginsOf(cfg, launcher, h.redactor)
	h.catalog = newCatalog(cfg, o.fresh, h.log, func() { h.front.ToolsChanged() }, h.redactor.Definition, h.shapes.Listed)
	h.sessions = session.NewManager(session.Options{
		Launcher: launcher, Listener: upward{h}, SpoolDir: h.run.Path, Logger: h.log, Version: version,
		Redact: h.redactor.Text,
	})
	h.cleaner = broker.Cleaner{Secrets: h.redactor.Results, Dir: h.run.Path}
	h.broker = h.newBroker()
	h.front = front.New(front.Options{
		Broker: h.broker, Version: version, MaxRequest: cfg.Host.MaxRequest, WriteTimeout: cfg.Host.WriteTimeout,
		SessionIdle: cfg.Host.SessionIdle, PageSize: cfg.Host.PageSize, Project: o.project, Artifacts: h.artifacts, SpoolDir: h.run.Path, Logger: h.log,
	})
	h.control = newControl(h, launcher)
	return h, nil
}

// contain registers this host in its state dir, with sweep ends what dead ones left
// there, and finds out how its processes can be held.
func (h *host) contain(ctx context.Context, sweep bool) (err error) {
	if h.life, err = containment.NewRun(ctx, h.cfg.Host.StateDir); err != nil {
		return err
	}
	if sweep {
		if err := h.sweep(ctx); err != nil {
			return err
		}
	}
	if h.run, err = supervise.OpenRunDir(h.life.ID()); err != nil {
		return err
	}
	if err := h.life.Own(h.run.Path); err != nil {
		return err
	}
	h.held, err = containment.Open(containment.Options{
		Require: containment.Tier(h.cfg.Host.ContainmentRequire), Use: h.tier, Run: h.life, Log: h.log,
	})
	if err != nil {
		return err
	}
	h.images = containment.NewImages(h.run.Path)
	return nil
}

// sweep ends what dead hosts left in this state dir.
func (h *host) sweep(ctx context.Context) error {
	swept, err := containment.Sweep(ctx, h.cfg.Host.StateDir)
	if err != nil {
		return fmt.Errorf("sweep of what earlier hosts left: %w", err)
	}
	for _, f := range swept.Ended {
		h.log.Warn("ended a process that a dead host had left", "pid", f.Pid, "instance", f.Mark, "why", f.Why)
	}
	for _, f := range swept.Left {
		h.log.Warn("left a process alone that a dead host's record names", "pid", f.Pid, "instance", f.Mark, "why", f.Why)
	}
	return nil
}

// whyNotMore says why no better tier is used, "" where there is none.
func (h *host) whyNotMore() string {
	var why []string
	if h.tier != "" {
		why = append(why, fmt.Sprintf("%s was asked for", h.tier))
	}
	if refused := h.held.Support().Why(); refused != "" {
		why = append(why, refused)
	}
	return strings.Join(why, "; ")
}

// logTier says how what is started is contained, and why not better, where it is not.
func (h *host) logTier() {
	log := h.log
	if why := h.whyNotMore(); why != "" {
		log = log.With("why_not_more", why)
	}
	log.Info("containment", "tier", h.held.Tier())
}

// release gives up what contain took. Nothing runs any more.
func (h *host) release() {
	var errs []error
	if h.images != nil {
		errs = append(errs, h.images.Close())
	}
	if h.run != nil {
		errs = append(errs, h.run.Close())
	}
	errs = append(errs, h.closeJournal())
	if h.life != nil {
		errs = append(errs, h.life.Close())
	}
	if err := errors.Join(errs...); err != nil {
		h.log.Warn("something of this host stays behind", "error", err)
	}
}

func newCatalog(cfg *config.Config, fresh bool, log *slog.Logger, onChange func(), clean func(json.RawMessage) json.RawMessage,
	output func(provider, tool, digest string, schema []byte)) *catalog.Store {
	return catalog.New(catalog.Options{
		Names: cfg.Host.Names, NameMax: cfg.Host.NameMax, OnChange: onChange,
		Reserved: []string{front.ReadArtifact},
		Dir:      filepath.Join(cfg.Host.StateDir, catalogFolder), Afresh: fresh, Logger: log,
		Clean: clean, OutputSchema: output,
	}, catalogued(cfg))
}

// shownFolder is where it is kept in the state dir what clients were shown.
const shownFolder = "shown"

func (h *host) newBroker() *broker.Broker {
	var providers []broker.Provider
	for _, p := range h.cfg.Providers {
		if p.Enabled {
			providers = append(providers, broker.Provider{
				Slug: p.Slug, Label: p.Label, MaxMessage: p.Limits.MaxMessage, CallTimeoutMax: p.Limits.CallTimeoutMax, CallTimeout: p.Limits.CallTimeout,
				KeepSecrets: !p.RedactResults, InlineResult: p.Limits.InlineResult,
				MaxConcurrent: p.Limits.MaxConcurrent, MaxQueue: p.Limits.MaxQueue,
				Required: p.Discovery == "required", BeforeCall: p.Recheck == "before_call",
				RefreshInterval: p.RefreshInterval, Stateful: p.Session.Stateful,
			})
		}
	}
	return broker.New(broker.Options{
		Sessions: broker.Of(h.sessions), Catalog: h.catalog, Policy: h.gate.Policy, Lock: h.lock.Load, Providers: providers, Cleaner: h.cleaner, Artifacts: h.artifacts, Results: h.shapes, SpoolDir: h.run.Path,
		ListWait: h.cfg.Host.ListWait, ShownDir: filepath.Join(h.cfg.Host.StateDir, shownFolder),
		Journal: h.journal, CallIDs: h.callIDs, Generation: h.generation, Redact: h.redactor.Text, Places: placesOf(h.cfg, h.run.Path), Logger: h.log,
	})
}

// start checks every provider and hands them to the sessions; none starts yet. With an error among the diagnostics, which is a mistake in the file,
// nothing starts. What is wrong with one provider alone becomes its fault, and is
// a warning here: it costs the others nothing.
func (h *host) start(ctx context.Context) hcl.Diagnostics {
	var diags hcl.Diagnostics
	if problem := checkTemp(); problem != nil {
		return hcl.Diagnostics{problem}
	}
	file, problem := h.lockToday()
	if problem != nil {
		return hcl.Diagnostics{problem}
	}
	h.lock.Store(file)
	all := h.plugins.prepare(ctx, h.cfg)
	for _, p := range all {
		diags = append(diags, p.mistakes...)
		for _, d := range p.faults {
			warned := *d
			warned.Severity = hcl.DiagWarning
			diags = append(diags, &warned)
		}
		h.specs = append(h.specs, p.spec)
		h.reloads.started(p)
	}
	if diags.HasErrors() {
		return diags
	}
	if diags = append(diags, h.identify(all)...); diags.HasErrors() {
		return diags
	}
	h.sessions.Apply(h.specs)
	h.control.SetProviders(h.controlled(h.cfg))
	h.reloads.inForce(h.cfg)
	return diags
}

// warm starts the eager providers.
func (h *host) warm(ctx context.Context) {
	for _, p := range h.cfg.Providers {
		if p.Enabled && p.Start == "eager" && !p.Required {
			h.warming.Go(func() { _, _ = h.sessions.Get(ctx, p.Slug) }) // its state tells how it went
		}
	}
}

// requireAll starts the required providers and ends the host if one cannot.
func (h *host) requireAll(ctx context.Context, fail context.CancelCauseFunc) {
	for _, p := range h.cfg.Providers {
		if p.Enabled && p.Required {
			h.warming.Go(func() {
				if _, err := h.sessions.Get(ctx, p.Slug); err != nil && ctx.Err() == nil {
					fail(fmt.Errorf("a required provider cannot start: %w", err))
				}
			})
		}
	}
}

// stopping is the context of all that ends the host: it lasts for the stop budget
// from its first use on, or until hurry ends.
func (h *host) stopping(hurry context.Context) context.Context {
	h.stopOnce.Do(func() {
		h.stopBegan = time.Now()
		h.stop, h.stopCancel = context.WithTimeout(hurry, h.cfg.Host.StopBudget)
	})
	return h.stop
}

// closeFace takes no more requests and lets those in flight end, for as long as
// the most patient provider's stop_grace.
func (h *host) closeFace(hurry context.Context) {
	var grace time.Duration
	for _, s := range h.specs {
		grace = max(grace, s.StopGrace)
	}
	ctx, cancel := context.WithTimeout(h.stopping(hurry), grace)
	defer cancel()
	h.front.Close(ctx)
}

// close ends what is left: every provider by its ladder, side by side, within the
// stop budget.
func (h *host) close(hurry context.Context) {
	ctx := h.stopping(hurry)
	defer h.stopCancel()
	h.sessions.StopSince(ctx, h.stopBegan)
	h.endSweeps()
	h.warming.Wait()
	h.shapes.Close()
	if err := h.control.Close(ctx); err != nil {
		h.log.Warn("command socket stays behind", "error", err)
	}
	h.release()
}

// upward carries what servers say to the parts above the sessions.
type upward struct{ h *host }

// Opened remembers what a server is together with its list.
func (u upward) Opened(slug, _ string, s session.Server) {
	u.h.catalog.Met(slug, catalog.Server{Era: s.Era.String(), Version: s.Version, Capabilities: s.Capabilities})
}

func (u upward) Tools(slug, instance string, defs []json.RawMessage) {
	if err := u.h.catalog.Put(slug, instance, defs); err != nil {
		u.h.log.Warn("some of a provider's tools are hidden", "provider", slug, "why", err)
	}
}

func (u upward) Log(slug, _, level string, m *rpc.Message) {
	if !u.h.keepsSecrets(slug) {
		var err error
		if m, err = u.h.cleaner.Notification(m); err != nil {
			u.h.log.Warn("a log message of a server is lost", "provider", slug, "error", err)
			return
		}
	}
	u.h.front.Log(slug, level, m)
	_ = m.Close() // what the clients were given is theirs
}

// keepsSecrets says whether what a provider's server says passes as it is.
func (h *host) keepsSecrets(slug string) bool {
	for _, p := range h.cfg.Providers {
		if p.Slug == slug {
			return !p.RedactResults
		}
	}
	return false
}

// State logs what a unit does not: it tells of failures itself.
func (u upward) State(slug string, s session.State) {
	level := slog.LevelDebug
	if s.Name == string(supervise.Ready) {
		level = slog.LevelInfo
	}
	u.h.log.Log(context.Background(), level, "provider is "+s.Name, "provider", slug)
}
