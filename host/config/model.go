package config

import (
	"encoding/json"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// Config is a checked configuration: every value has its default, every
// reference points to something.
type Config struct {
	// Path is the file or folder that was read, absolute.
	Path string
	// Sources holds the text of each file by its name, to show lines in diagnostics.
	Sources map[string][]byte
	Host    Host
	Plugins map[string]*Plugin
	// Providers are all of them, enabled or not, by slug.
	Providers []*Provider
	// Principals and Projects are in the order of the files. There are both or
	// neither.
	Principals []*Principal
	Projects   []*Project
	// Notices name what is accepted and not yet in force.
	Notices hcl.Diagnostics
	// Secrets are the values of env() of 8 characters or more that stand outside of
	// config blocks, whose secrets DecodeBody gives, and outside of the host block,
	// which holds what the host says of itself.
	Secrets []string
	// settings are for Changes.
	settings map[string]setting
}

// Host is the `host` block.
type Host struct {
	Surface                                         string
	StateDir, PluginDir                             string
	Watch, Locked                                   bool
	Names                                           string
	NameMax, PageSize                               int
	ListWait, WriteTimeout, SessionIdle, StopBudget time.Duration
	MaxRequest                                      int64
	HTTP                                            HTTP
	ContainmentRequire                              string
	JournalSync                                     string
	JournalKeep                                     time.Duration
	JournalMaxSize, ArtifactsQuota                  int64
	ArtifactsTTL                                    time.Duration
	Range                                           hcl.Range
}

// HTTP is the `http` block of the host.
type HTTP struct {
	// Listen is host:port; default 127.0.0.1:7420.
	Listen                       string
	PublicURL                    string
	AllowedHosts, AllowedOrigins []string
	TLSCert, TLSKey              string
}

// Plugin is a `plugin` block: a third-party plugin.
type Plugin struct {
	Name string
	// Path is the executable, absolute; "" for a script.
	Path string
	// SHA256 is the declared checksum, as shared/checksum has it, in digits of either case.
	SHA256 string
	// Command runs a script: absolute, or a name to look for in PATH. Args are its
	// arguments, in which a name of Files stands for that file's absolute path.
	Command string
	Args    []string
	// Files are what the checksum of a script is made of.
	Files []checksum.Named
	// Version is what the plugin has to say of itself; "" for anything.
	Version string
	MTLS    bool
	// Found says that no block declares it: it was found in plugin_dir by its name.
	// It has no SHA256; the lock file must have it.
	Found bool
	// Range is the block's header, or of one that was found the place that names it,
	// VersionRange the place of version, if it is there.
	Range, VersionRange hcl.Range
}

// Provider is a `provider` block.
type Provider struct {
	Label, Slug string
	// Plugin is the plugin's name: a built-in one or a Plugin's.
	Plugin                 string
	Description            string
	Enabled, Required      bool
	Start                  string // "lazy" or "eager"
	Tools, Except          []string
	Recheck                string
	RefreshInterval        time.Duration
	Discovery              string
	RedactResults, Overlap bool
	Session                Session
	Limits                 Limits
	Restart                Restart
	// Body is the undecoded `config` block, for DecodeBody; ConfigRange its place.
	Body        hcl.Body
	ConfigRange hcl.Range
	// Missing holds what fails this provider and no other: an env() or file() of
	// one of its attributes that is not there. DecodeBody gives it too.
	Missing hcl.Diagnostics
	// Range is the block's header.
	Range hcl.Range
	// BaseDir is the folder of the file, which relative paths are relative to.
	BaseDir string
	// broken is set when the block could not be read whole.
	broken bool
}

// Session is a provider's `session` block.
type Session struct {
	Scope        string
	Stateful     bool
	IdleStop     time.Duration
	MaxInstances int
}

// Limits is a provider's `limits` block.
type Limits struct {
	StartTimeout, StopGrace, CallTimeout, CallTimeoutMax, DrainTimeout, HealthInterval time.Duration
	MaxConcurrent, MaxQueue, MaxPages, MaxDefinitions                                  int
	MaxMessage, InlineResult, MaxListBytes                                             int64
}

// Restart is a provider's `restart` block.
type Restart struct {
	Intensity                                          int
	Period, Backoff, BackoffMax, StableAfter, Cooldown time.Duration
}

// Local is the reserved principal: whoever speaks over stdio, and who has the
// token of the first start as long as no principal is declared. It has no block
// and may be named in grants.
const Local = "local"

// Principal is a `principal` block: someone who may call. It has a token's hash
// or an identity provider's word, never both.
type Principal struct {
	Name string
	// TokenSHA256 is in lower case; "" with OIDC.
	TokenSHA256 string
	// Expires is when the token ceases to be taken; zero for never.
	Expires time.Time
	OIDC    *OIDC
	// Range is the block's header.
	Range hcl.Range
}

// OIDC is a principal's `oidc` block.
type OIDC struct{ Issuer, Audience, Claim, Value string }

// Project is a `project` block.
type Project struct {
	Name string
	// Names and Surface are "", and NameMax is 0, where the host's hold.
	Names   string
	NameMax int
	Surface string
	Grants  []*Grant
	// Range is the block's header.
	Range hcl.Range
}

// Grant is a `grant` block of a project. A list that is empty allows nothing.
type Grant struct {
	Principals []string
	// Provider is the provider's slug.
	Provider                          string
	Tools, Except, Resources, Prompts []string
	Methods, ServerRequests           []string
	Rate                              string
	// Range is the block's header.
	Range hcl.Range
}

// Decoded is a provider's config block after decoding against its plugin's schema.
type Decoded struct {
	// Config is what the plugin gets.
	Config provider.Config
	// Secrets are the values to keep out of every sink: those of secret(), those of
	// env() of 8 characters or more, every string and number in a sensitive
	// attribute of 6 or more, and what was made of any of these, each as it is,
	// without repetition.
	Secrets []string
	// FromSecret are the values of secret() alone, which are kept out of lists and
	// results too.
	FromSecret []string
	// Masked is Config.JSON without what a secret's rotation changes: in the place of
	// each sensitive value, and of one that cannot be made without env() or secret(),
	// stands a mask, and in that of what these two give (a default included) one and
	// the same text. Names of attributes and keys stay.
	Masked json.RawMessage
	// Command is the base name of the attribute `command`, if there is one: the
	// one thing of a config that may be shown.
	Command string
}
