package stdio

import (
	"github.com/drawbridge-mcp/drawbridge/shared/scrub"
)

const (
	// redacted stands where a secret was.
	redacted = scrub.Mark
	// leastSecret is the length from which a value of env or env_file is taken for
	// a secret, as the host takes one of a sensitive attribute: shorter ones ("true",
	// "8080") would make logs unreadable.
	leastSecret = 6
)

// secrets are what env and env_file give the server. The host knows those of env,
// and nobody but this process those of env_file, so they are taken out here, in
// every form, of what the server says beside its messages: standard error and
// noise. The zero value knows none.
type secrets struct{ set *scrub.Set }

func newSecrets(values []string) secrets {
	var forms []string
	for _, v := range values {
		if len(v) >= leastSecret {
			forms = append(forms, scrub.Forms(v)...)
		}
	}
	return secrets{scrub.New(forms)}
}

// from returns text without them.
func (s secrets) from(text string) string { return s.set.Text(text) }

// beforeCut is from for a text whose rest was cut off: what may be the beginning of
// a secret goes too.
func (s secrets) beforeCut(text string) string { return s.set.Head(text) }

// afterCut is from for a text whose beginning was cut off.
func (s secrets) afterCut(text string) string { return s.set.Tail(text) }
