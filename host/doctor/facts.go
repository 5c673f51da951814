package doctor

import (
	"io/fs"
	"time"
)

// Facts are what was found out. A nil pointer says that it was not looked at.
type Facts struct {
	Config      *Config
	Containment *Containment
	State       *State
	// Temp is what is wrong with TMPDIR, "" if nothing is.
	Temp     string
	Plugins  []Plugin
	Lock     *Lock
	Commands []Command
	Secrets  *Secrets
	Listen   *Listen
	// Hosts are the running hosts of this user.
	Hosts     []Host
	Leftovers *Leftovers
	Starts    []Start
	Projects  []Project
}

// Config is the configuration as it was found and read.
type Config struct {
	// Path is where it is, "" where none was found; Missing then says where it was
	// looked for.
	Path, Missing string
	// Providers and Disabled count the provider blocks.
	Providers, Disabled int
	// Mistakes are errors and warnings of reading and of what plugins said.
	Mistakes []Mistake
}

// Mistake is one diagnostic.
type Mistake struct {
	// Where is file:line, or "".
	Where           string
	Warning         bool
	Summary, Detail string
}

// Containment is what holds process trees here.
type Containment struct {
	// Tier is the best that works, "" where none does; Best says whether it is the
	// strongest that this system could have.
	Tier string
	Best bool
	// WhyNot is why there is no better one, or none.
	WhyNot string
	// Required is what the configuration asks for, "" for nothing, and Unmet that the
	// tier is weaker.
	Required string
	Unmet    bool
}

// State is the folder that holds what outlives a host.
type State struct {
	Dir string
	// Exists says that it is there. Writable is whether a file can be made in it, or
	// in the closest folder above where it is missing.
	Exists, Folder, Writable bool
	Mode                     fs.FileMode
	// Foreign says that it belongs to another user.
	Foreign bool
	// Private are the files in it that have to be their owner's alone, as far as they
	// are there.
	Private []PrivateFile
}

// PrivateFile is a file whose content is a secret.
type PrivateFile struct {
	Path string
	Mode fs.FileMode
}

// Plugin is a third-party plugin that a provider names.
type Plugin struct {
	Name, Path string
	// Declared is the checksum that may run, "" for none; Actual that of what is
	// there, "" where it cannot be read, and Wrong says why.
	Declared, Actual, Wrong string
	// Found says that it was found in plugin_dir, so that the lock file has to have it.
	Found bool
}

// Lock is the lock file.
type Lock struct {
	Path string
	// Needed says that the configuration has locked = true.
	Needed, Exists bool
	// Wrong says why it cannot be relied on, "" if nothing is wrong.
	Wrong string
	// Unapproved counts the tools that providers list and the file does not have as
	// they are, by provider.
	Unapproved map[string]int
}

// Command is what a provider runs.
type Command struct {
	Provider string
	// Name is its name, or its path as declared; Path where it was found, "" for nowhere,
	// and Wrong says what that means.
	Name, Path, Wrong string
	// OwnPath says that the PATH that was searched is the provider's own (env), not
	// that of this terminal.
	OwnPath bool
	// NeedsNode says that it is node, npm or npx; Node and Npx are the versions that
	// the same PATH gives, "" where it gives none.
	NeedsNode bool
	Node, Npx string
}

// Secrets are those that secret() names.
type Secrets struct {
	// Present are set. Missing are not, and Unusable cannot be read, with the reason;
	// by name.
	Present  []string
	Missing  []string
	Unusable map[string]string
	// Unused are set and not named.
	Unused []string
}

// Listen is the address that the host is to listen at.
type Listen struct {
	Address string
	// Busy says that somebody listens there already, and Wrong why it cannot be had,
	// "" if it can.
	Busy  bool
	Wrong string
	// Holder is the id of the host of ours that has it, "" for somebody else.
	Holder string
}

// Host is a running host.
type Host struct {
	ID          string
	PID         int
	URL, Config string
	Version     string
	// Same says that it serves the configuration that is examined, and Current that
	// its version is this program's.
	Same, Current bool
}

// Leftovers are what hosts that died have left.
type Leftovers struct {
	// Runs are dead runs on the disk, Processes what is left of them, and Unsure what
	// could not be told.
	Runs      int
	Processes []Process
	Unsure    []string
	// Wrong says why it could not be looked at, "" if it could.
	Wrong string
}

// Process is a process that outlived its host.
type Process struct {
	PID  int
	Mark string
}

// Start is how a provider started, or stands in the host that runs.
type Start struct {
	Provider string
	// Running says that a host runs it and nothing was started; State is then its
	// state there.
	Running bool
	State   string
	// Absent says that the host which runs does not know it: it has read an older file.
	Absent bool
	// Skipped says that it was not to be started.
	Skipped bool
	// Failure is why it did not start, "" if it did; Fault says that it was not tried,
	// because its configuration cannot work.
	Failure string
	Fault   bool
	Took    time.Duration
	// Limit is its start_timeout.
	Limit time.Duration
	// Known says that it is known what it lists, and Tools how many they are.
	Known bool
	Tools int
}

// Project is what clients of one project are shown.
type Project struct {
	// Name is "" where no project is declared.
	Name string
	// NameMax is the longest that a name may get.
	NameMax int
	Tools   []Tool
	// Unlisted are providers of which it is not known what they list.
	Unlisted []string
}

// Tool is one definition as a client gets it.
type Tool struct {
	Exposed, Provider string
	// Bytes is the length of the definition.
	Bytes int
}
