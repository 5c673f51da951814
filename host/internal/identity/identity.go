package identity

import (
	"encoding/json"
	"slices"
)

// Material is what decides a provider's process. What changes nothing about the
// process (limits, restarts, a description, who may use it) is not in it.
type Material struct {
	// Slug is the provider's: two that are declared alike are two all the same.
	Slug string
	// Plugin is the plugin's name in the config, Code what runs: the checksum of a
	// third-party plugin, the version of a built-in one.
	Plugin, Code string
	// BaseDir is what relative paths in the config are relative to.
	BaseDir string
	// Config is the config block with all values, Masked the same without what a
	// secret's rotation changes.
	Config, Masked json.RawMessage
	// Env is what the plugin inherits, as KEY=value.
	Env []string
}

// Identity decides which server a caller is talking to. It holds no secret value
// and nothing of the environment, so that neither a rotated secret nor another
// terminal makes another server of it.
func (k Key) Identity(m Material) string {
	return k.Sum("identity", m.Slug, m.Plugin, m.Code, m.BaseDir, string(m.Masked))
}

// Fingerprint tells processes apart: with another one, a new process is needed.
func (k Key) Fingerprint(m Material) string {
	env := slices.Sorted(slices.Values(m.Env))
	return k.Sum("fingerprint", append([]string{m.Slug, m.Plugin, m.Code, m.BaseDir, string(m.Config)}, env...)...)
}
