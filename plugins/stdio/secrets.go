package stdio

import (
	"strings"
)

const (
	// redacted stands where a secret was.
	redacted = "[redacted]"
	// leastSecret is the length from which a value of env or env_file is taken for
	// a secret: shorter ones ("true", "8080") would make logs unreadable.
	leastSecret = 8
)

// secrets are what env and env_file give the server. The host knows those of env,
// and nobody but this process those of env_file, so they are taken out here of
// what the server says beside its messages: standard error and noise. The zero
// value knows none.
type secrets struct {
	replacer *strings.Replacer
	longest  int
}

func newSecrets(values []string) secrets {
	var s secrets
	var pairs []string
	for _, v := range values {
		for line := range strings.Lines(v) { // what is looked at are lines
			if line = strings.TrimRight(line, "\r\n"); len(line) >= leastSecret {
				pairs = append(pairs, line, redacted)
				s.longest = max(s.longest, len(line))
			}
		}
	}
	if len(pairs) > 0 {
		s.replacer = strings.NewReplacer(pairs...)
	}
	return s
}

// from returns text without them.
func (s secrets) from(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// beforeCut is from for a text whose rest was cut off: what may be the beginning of
// a secret goes too.
func (s secrets) beforeCut(text string) string {
	return s.from(text[:max(0, len(text)-max(0, s.longest-1))])
}

// afterCut is from for a text whose beginning was cut off.
func (s secrets) afterCut(text string) string {
	return s.from(text[min(len(text), max(0, s.longest-1)):])
}
