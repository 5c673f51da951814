package config

import (
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Builtin are the names of the plugins in the host's own binary.
var Builtin = []string{"stdio", "http"}

// root is the whole language: what may stand at the top of a file.
func root(c *Config, at place) body {
	return body{blocks: []blockType{
		{name: "host", usage: "What concerns the host as a whole.",
			open: func() body { return hostBody(&c.Host, at) }},
		{name: "plugin", label: "name", repeated: true, usage: "A third-party plugin.",
			open: func() body { return pluginBody(c, new(Plugin), at) }},
		{name: "provider", label: "label", repeated: true, usage: "One MCP server on this machine.",
			open: func() body { return providerBody(c, new(Provider), at) }},
		{name: "principal", label: "name", repeated: true, usage: "Someone who may call.",
			open: func() body { return principalBody(c, new(Principal)) }},
		{name: "project", label: "name", repeated: true, usage: "What its principals may see and call.",
			open: func() body { return projectBody(c, new(Project)) }},
	}}
}

func hostBody(h *Host, at place) body {
	stateDir := file(&h.StateDir, "state_dir", "Where the host keeps what must outlive it.")
	h.StateDir, stateDir.fallback = defaultStateDir(at), "$XDG_STATE_HOME/drawbridge"
	return body{
		attributes: []attribute{
			oneOf(&h.Surface, "surface", "How tools are shown to clients: each under its name, or behind three tools that find and call them.", "direct", "search"),
			stateDir,
			file(&h.PluginDir, "plugin_dir", "Where plugins are found by name."),
			boolean(&h.Watch, "watch", false, "Reload when the files change."),
			boolean(&h.Locked, "locked", false, "Hide every tool whose definition is not in the lock file."),
			oneOf(&h.Names, "names", "Names of tools: slug_tool, or bare as the servers call them.", "prefixed", "bare"),
			number(&h.NameMax, "name_max", 64, 16, 128, "Most characters of a tool's name."),
			number(&h.PageSize, "page_size", 1000, 1, 100_000, "Most items on one page of a list."),
			duration(&h.ListWait, "list_wait", "2s", "0s", "10m", "How long a list waits for providers that have none yet."),
			size(&h.MaxRequest, "max_request", "16MiB", "1KiB", "1GiB", "Most bytes of one message from a client."),
			duration(&h.WriteTimeout, "write_timeout", "30s", "100ms", "1h", "How long a client may drain nothing before it loses its connection."),
			duration(&h.SessionIdle, "session_idle", "30m", "1s", "30d", "How long an idle session of a client is kept."),
			duration(&h.StopBudget, "stop_budget", "15s", "1s", "10m", "How long stopping everything may take."),
		},
		blocks: []blockType{
			{name: "http", usage: "The face over HTTP.", open: func() body { return httpBody(&h.HTTP) }},
			{name: "containment", usage: "How processes are kept together.", open: func() body {
				return body{attributes: []attribute{
					oneOf(&h.ContainmentRequire, "require", "The tier without which nothing starts.", "", "pidns", "subreaper", "pgroup", "job"),
				}}
			}},
			{name: "journal", usage: "The record of calls.", open: func() body {
				return body{attributes: []attribute{
					oneOf(&h.JournalSync, "sync", "Whether each line is forced to the disk.", "normal", "full"),
					duration(&h.JournalKeep, "keep", "90d", "1h", "36500d", "How long calls are kept."),
					size(&h.JournalMaxSize, "max_size", "1GiB", "1MiB", "1TiB", "Most bytes the journal may take."),
				}}
			}},
			{name: "artifacts", usage: "Large results.", open: func() body {
				return body{attributes: []attribute{
					size(&h.ArtifactsQuota, "quota", "2GiB", "1MiB", "1TiB", "Most bytes all artifacts may take."),
					duration(&h.ArtifactsTTL, "ttl", "24h", "1m", "3650d", "How long an artifact is kept."),
				}}
			}},
		},
		check: h.check,
	}
}

func httpBody(h *HTTP) body {
	return body{
		attributes: []attribute{
			text(&h.Listen, "listen", "127.0.0.1:7420", "Address and port to listen on.", checkListen),
			text(&h.PublicURL, "public_url", "", "The URL below which clients outside of this machine find /mcp.", checkPublicURL),
			texts(&h.AllowedHosts, "allowed_hosts", nil, "Values of Host to take besides the names of loopback.", checkHost),
			texts(&h.AllowedOrigins, "allowed_origins", nil, "Values of Origin to take besides those of loopback.", checkOrigin),
		},
		blocks: []blockType{
			{name: "tls", usage: "The certificate to serve with.", open: func() body {
				return body{attributes: []attribute{
					file(&h.TLSCert, "cert", "The certificate's file, PEM.").must(),
					file(&h.TLSKey, "key", "The key's file, PEM.").must(),
				}}
			}},
		},
	}
}

func providerBody(c *Config, p *Provider, at place) body {
	p.BaseDir = at.base
	return body{
		attributes: []attribute{
			text(&p.Plugin, "plugin", "", "A built-in plugin or the name of a plugin block.", notEmpty).must(),
			text(&p.Description, "description", "", "What it is, for people.", nil),
			boolean(&p.Enabled, "enabled", true, "Whether it takes part at all."),
			boolean(&p.Required, "required", false, "Whether the host ends if it cannot start."),
			oneOf(&p.Start, "start", "On first use, or with the host.", "lazy", "eager"),
			texts(&p.Tools, "tools", []string{"*"}, "Names of the tools it exposes to anyone; * stands for any run of characters. An empty list exposes none.", checkGlob),
			texts(&p.Except, "except", nil, "Names of tools it never exposes, whatever tools says.", checkGlob),
			oneOf(&p.Recheck, "recheck", "When definitions are read again: when they may have changed, or before every call that may have an effect.", "on_change", "before_call"),
			duration(&p.RefreshInterval, "refresh_interval", "30s", "100ms", "24h", "How old a list may be at an effectful call, for servers that announce no changes."),
			oneOf(&p.Discovery, "discovery", "Whether a caller must have been shown a tool before it calls it.", "first_use", "required"),
			boolean(&p.RedactResults, "redact_results", true, "Remove values of secret() from results."),
			boolean(&p.Overlap, "overlap", false, "Start the new generation before the old one has ended."),
		},
		blocks: []blockType{
			{name: "config", usage: "What the plugin is to know; its attributes are the plugin's.",
				open: func() body { return body{foreign: true} }},
			{name: "session", usage: "Who shares a server process.", open: func() body { return sessionBody(&p.Session) }},
			{name: "limits", usage: "Times and sizes.", open: func() body { return limitsBody(&p.Limits) }},
			{name: "restart", usage: "What happens when it ends by itself.", open: func() body { return restartBody(&p.Restart) }},
		},
		check: func(d *decoder, src *hclsyntax.Block) { d.addProvider(c, p, src) },
	}
}

func sessionBody(s *Session) body {
	return body{attributes: []attribute{
		oneOf(&s.Scope, "scope", "For whom there is one server process each.", "principal", "shared", "client", "call"),
		boolean(&s.Stateful, "stateful", false, "Refuse calls, once, to a server process that replaced the one the caller knew."),
		duration(&s.IdleStop, "idle_stop", "", "1s", "365d", "Stop a server process that nobody has used for so long."),
		number(&s.MaxInstances, "max_instances", 16, 1, 10_000, "Most server processes at a time."),
	}}
}

func limitsBody(l *Limits) body {
	return body{attributes: []attribute{
		duration(&l.StartTimeout, "start_timeout", "120s", "100ms", "1h", "How long a start may take, to the end of the first list."),
		duration(&l.StopGrace, "stop_grace", "5s", "0s", "10m", "How long a server may take to end by itself."),
		duration(&l.CallTimeout, "call_timeout", "60s", "10ms", "24h", "How long a call may be silent; progress extends it."),
		duration(&l.CallTimeoutMax, "call_timeout_max", "10m", "10ms", "7d", "How long a call may take in all."),
		duration(&l.DrainTimeout, "drain_timeout", "30s", "0s", "24h", "How long calls may go on when a reload replaces the server."),
		duration(&l.HealthInterval, "health_interval", "30s", "100ms", "24h", "Silence after which the server is pinged."),
		number(&l.MaxConcurrent, "max_concurrent", 16, 1, 10_000, "Most calls at a time."),
		number(&l.MaxQueue, "max_queue", 64, 0, 100_000, "Most calls that wait."),
		size(&l.MaxMessage, "max_message", "64MiB", "1KiB", "1GiB", "Most bytes of one message to or from the server."),
		size(&l.InlineResult, "inline_result", "512KiB", "1KiB", "1GiB", "Most bytes of a result that is passed as it is."),
		number(&l.MaxPages, "max_pages", 100, 1, 100_000, "Most pages of one list."),
		number(&l.MaxDefinitions, "max_definitions", 10_000, 1, 1_000_000, "Most definitions in one list."),
		size(&l.MaxListBytes, "max_list_bytes", "32MiB", "1KiB", "1GiB", "Most bytes of one list."),
	}}
}

func restartBody(r *Restart) body {
	return body{attributes: []attribute{
		number(&r.Intensity, "intensity", 5, 0, 1000, "Most restarts in a period; more, and the provider has failed."),
		duration(&r.Period, "period", "1m", "100ms", "24h", "The span in which restarts are counted."),
		duration(&r.Backoff, "backoff", "1s", "1ms", "1h", "The first pause before a restart; it doubles."),
		duration(&r.BackoffMax, "backoff_max", "1m", "1ms", "24h", "The longest pause."),
		duration(&r.StableAfter, "stable_after", "30s", "0s", "24h", "Healthy running after which the count begins anew."),
		duration(&r.Cooldown, "cooldown", "5m", "0s", "7d", "How long a failed provider refuses calls before one starts it again."),
	}}
}

// principalBody and those below it are the blocks of access control; what they
// say of each other is checked in checkaccess.go.
func principalBody(c *Config, p *Principal) body {
	var o OIDC
	return body{
		attributes: []attribute{
			text(&p.TokenSHA256, "token_sha256", "", "The SHA-256 of its bearer token, in hexadecimal; `drawbridge token new` makes one.", checkTokenSHA256),
			moment(&p.Expires, "expires", "When its token ceases to let it in."),
		},
		blocks: []blockType{
			{name: "oidc", usage: "Let in by an identity provider's token instead.", open: func() body {
				return body{
					attributes: []attribute{
						text(&o.Issuer, "issuer", "", "Who issues the tokens.", checkIssuer).must(),
						text(&o.Audience, "audience", "", "For whom they are issued.", notEmpty).must(),
						text(&o.Claim, "claim", "sub", "The claim that tells who it is.", notEmpty),
						text(&o.Value, "value", "", "What the claim must say.", notEmpty).must(),
					},
					check: func(*decoder, *hclsyntax.Block) { p.OIDC = &o },
				}
			}},
		},
		check: func(d *decoder, src *hclsyntax.Block) { d.addPrincipal(c, p, src) },
	}
}

func projectBody(c *Config, p *Project) body {
	return body{
		attributes: []attribute{
			oneOf(&p.Names, "names", "As in host, for this project; the host's when absent.", "", "prefixed", "bare"),
			withoutDefault(number(&p.NameMax, "name_max", 0, 16, 128, "As in host, for this project; the host's when absent.")),
			oneOf(&p.Surface, "surface", "As in host, for this project; the host's when absent.", "", "direct", "search"),
		},
		blocks: []blockType{
			{name: "grant", repeated: true, usage: "Lets principals see and call. What no grant names is neither seen nor called; what one grant excepts, no other gives.",
				open: func() body { return grantBody(p, new(Grant)) }},
		},
		check: func(d *decoder, src *hclsyntax.Block) { d.addProject(c, p, src) },
	}
}

func grantBody(p *Project, g *Grant) body {
	requests := []string{"elicitation", "sampling", "roots"}
	return body{
		attributes: []attribute{
			texts(&g.Principals, "principals", nil, "Who: names of principals, and \"local\" for whoever speaks over stdio.", notEmpty).must(),
			text(&g.Provider, "provider", "", "Whose: the label of a provider.", notEmpty).must(),
			texts(&g.Tools, "tools", nil, "Names of tools, as the server calls them; * stands for any run of characters.", checkGlob),
			texts(&g.Except, "except", nil, "Names of tools that are not granted, whatever another grant to the same principals says.", checkGlob),
			texts(&g.Resources, "resources", nil, "URIs of resources.", checkURIGlob),
			texts(&g.Prompts, "prompts", nil, "Names of prompts.", checkGlob),
			texts(&g.Methods, "methods", []string{}, "Methods the host does not know and passes on.", checkGlob),
			texts(&g.ServerRequests, "server_requests", requests, "What the server may ask of the client.", func(s string) error {
				return among(s, requests)
			}),
			text(&g.Rate, "rate", "", "Most calls in a span of time, like \"60/1m\".", checkRate),
		},
		check: func(d *decoder, src *hclsyntax.Block) { d.addGrant(p, g, src) },
	}
}

// defaultStateDir follows the XDG base directory specification, by which a
// relative path counts as none. Without a home folder there is no default.
func defaultStateDir(at place) string {
	if base := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "drawbridge")
	}
	if at.home == "" {
		return ""
	}
	return filepath.Join(at.home, ".local", "state", "drawbridge")
}
