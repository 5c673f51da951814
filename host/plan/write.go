package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// mostShown is how much of a value a report shows of it, in characters. JSON for
// programs has all of it.
const mostShown = 100

// Write prints the report for people.
func (r Report) Write(w io.Writer) error {
	var b bytes.Buffer
	r.writeProviders(&b)
	r.writeProjects(&b)
	if len(r.Shared) > 0 {
		b.WriteString("\nShared\n")
		for _, s := range r.Shared {
			with := strings.Join(s.With, ", ")
			if with == "" {
				with = "nobody: no grant names it"
			}
			fmt.Fprintf(&b, "  %s: one server for %s\n", s.Provider, with)
		}
	}
	if len(r.Hidden) > 0 {
		b.WriteString("\nHidden definitions\n")
		for _, h := range r.Hidden {
			fmt.Fprintf(&b, "  %s/%s: %s\n", h.Provider, h.Tool, h.Reason)
		}
	}
	r.writeFound(&b)
	r.Lock.write(&b)
	if errs := r.Errors(); len(errs) > 0 {
		b.WriteString("\nErrors\n")
		for _, e := range errs {
			fmt.Fprintf(&b, "  %s\n", e)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// WriteLock prints what differs from the lock file, for people.
func (r Report) WriteLock(w io.Writer) error {
	var b bytes.Buffer
	r.Lock.write(&b)
	_, err := w.Write(bytes.TrimLeft(b.Bytes(), "\n"))
	return err
}

func (r Report) writeProviders(b *bytes.Buffer) {
	b.WriteString("Providers\n")
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, p := range r.Providers {
		runs := p.Plugin
		if p.Command != "" {
			runs += " " + p.Command
		}
		says := fmt.Sprintf("%d tools", p.Tools)
		switch {
		case p.Start == "disabled":
			says = ""
		case p.Failure != "":
			says = "cannot start: " + oneLine(p.Failure)
		case p.Source == None:
			says = "its tools are not known: it was not asked"
		case p.Source == Remembered:
			says += ", as last listed"
		}
		starts := map[string]string{"lazy": "starts on first use", "eager": "starts with the host", "disabled": "disabled"}[p.Start]
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", p.Name, runs, starts, says)
	}
	_ = table.Flush() // into memory
}

func (r Report) writeProjects(b *bytes.Buffer) {
	for _, p := range r.Projects {
		if p.Name == "" {
			b.WriteString("\nEverything (no principal and no project is declared)\n")
		} else {
			fmt.Fprintf(b, "\nProject %s\n", p.Name)
		}
		if len(p.Principals) == 0 {
			b.WriteString("  nobody has a grant here\n")
		}
		for _, who := range p.Principals {
			fmt.Fprintf(b, "  %s sees %d tools\n", who.Name, len(who.Tools))
			for _, t := range who.Tools {
				fmt.Fprintf(b, "    %s\n", t)
			}
			for _, t := range who.Quarantined {
				fmt.Fprintf(b, "    %s (quarantined: not in the lock file)\n", t)
			}
		}
	}
}

// writeFound prints the blocks of plugins that were found by name.
func (r Report) writeFound(b *bytes.Buffer) {
	found := slices.DeleteFunc(slices.Clone(r.Plugins), func(p Plugin) bool { return !p.Found })
	if len(found) == 0 {
		return
	}
	b.WriteString("\nPlugins found in plugin_dir\nThey run only with their checksum in the lock file. To declare one instead, paste its block:\n")
	for _, p := range found {
		fmt.Fprintf(b, "\n  plugin %q {\n    path   = %q\n    sha256 = %q\n  }\n", p.Name, p.Path, p.SHA256)
	}
}

func (l LockReport) write(b *bytes.Buffer) {
	switch {
	case l.Missing:
		fmt.Fprintf(b, "\nNo lock file (%s)\n", l.Path)
		return
	case !l.Differs() && len(l.Unknown) == 0:
		fmt.Fprintf(b, "\nNothing differs from %s\n", l.Path)
		return
	}
	fmt.Fprintf(b, "\nDifferences from %s\n", l.Path)
	for _, p := range l.Plugins {
		fmt.Fprintf(b, "  %s plugin %s: %s\n", sign(p.Change), p.Name, between(p.Locked, p.SHA256))
	}
	for _, t := range l.Tools {
		fmt.Fprintf(b, "  %s %s/%s\n", sign(t.Change), t.Provider, t.Tool)
		for _, f := range t.Fields {
			old := value(f.Old)
			if !t.Whole {
				old = "(not at hand)"
			}
			fmt.Fprintf(b, "      %s: %s → %s\n", f.Path, old, value(f.New))
		}
	}
	for _, slug := range l.Unknown {
		fmt.Fprintf(b, "  ? %s: its tools are not known, so nothing could be compared\n", slug)
	}
}

func sign(change string) string {
	return map[string]string{Added: "+", Changed: "~", Gone: "-"}[change]
}

func between(old, new string) string {
	if old == "" || new == "" {
		return old + new
	}
	return old + " → " + new
}

func value(raw json.RawMessage) string {
	if raw == nil {
		return "nothing"
	}
	return oneLine(string(raw))
}

// oneLine is text for a line of a table: cut, and without what would make a
// terminal do something.
func oneLine(text string) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, text))
	if len(runes) > mostShown {
		return string(runes[:mostShown-1]) + "…"
	}
	return string(runes)
}
