package supervise

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// What a Failure's text holds of others' at most, in bytes.
const (
	maxCause    = 2000
	maxLastLine = 300
)

// Error is one sentence, such as
//
//	provider "files" (providers.hcl:12): initialize: the server exited with code 3: Error: API_KEY is not set
//
// The last line of standard error follows the cause where Exit has one.
func (f *Failure) Error() string {
	var b strings.Builder
	name := f.Label
	if name == "" {
		name = f.Provider
	}
	fmt.Fprintf(&b, "provider %q", name)
	if f.Where != "" {
		fmt.Fprintf(&b, " (%s)", f.Where)
	}
	if f.Phase != "" {
		fmt.Fprintf(&b, ": %s", f.Phase)
	}
	cause := f.Cause
	if cause == "" && f.Exit != nil {
		cause = Ended("the server", *f.Exit)
	}
	if cause = clean(cause, maxCause); cause != "" {
		fmt.Fprintf(&b, ": %s", cause)
	}
	if f.Exit != nil {
		if last := LastLine(f.Exit.StderrTail); last != "" && !strings.Contains(cause, last) {
			fmt.Fprintf(&b, ": %s", last)
		}
	}
	return b.String()
}

// Ended says how subject ("the server", a plugin's path) ended, without its
// standard error.
func Ended(subject string, s provider.ExitStatus) string {
	if s.Signal != 0 {
		return fmt.Sprintf("%s was killed by signal %d (%v)", subject, s.Signal, syscall.Signal(s.Signal))
	}
	return fmt.Sprintf("%s exited with code %d", subject, s.Code)
}

// LastLine is the last line of text that says something, as a person may read it:
// without control characters, cut to a few hundred bytes. What npm tells of itself when
// the server that it ran is gone is passed over, where there is anything else.
func LastLine(text string) string {
	last := ""
	for _, line := range slices.Backward(strings.FieldsFunc(text, func(r rune) bool { return r == '\r' || r == '\n' })) {
		line = clean(apart.Replace(strings.TrimFunc(line, unicode.IsControl)), maxLastLine)
		if line != "" && !strings.HasPrefix(line, npmNotice) {
			return line
		}
		last = cmp.Or(last, line)
	}
	return last
}

// apart keeps what a tab parts from being what a space parts: that may be a secret, which
// nobody looks for any more.
var apart = strings.NewReplacer("\t", "  ", "\v", "  ", "\f", "  ", "\u00a0", "  ")

// npmNotice begins the lines in which npm tells of its own news.
const npmNotice = "npm notice"

// clean makes foreign text fit to stand in a sentence. Secrets have been taken out of it
// already, so nothing may be left out: what is left of a secret that stood apart would
// stand together.
func clean(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if unicode.IsControl(r) || !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(strings.TrimSpace(text), "\uFFFD"))
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// failure makes a Failure of this spec.
func (s Spec) failure(phase Phase, cause string) *Failure {
	return &Failure{Provider: s.Provider, Label: s.Label, Where: s.Where, Phase: phase, Cause: cause}
}
