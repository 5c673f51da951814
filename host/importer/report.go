package importer

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
)

// The exit codes of an import.
const (
	ExitAll    = 0 // every entry is a provider now
	ExitNone   = 1 // no file could be used, and nothing was written
	ExitSome   = 2 // some entries were not imported
	fileFailed = "(file)"
)

// Report says what became of every entry, for people and for programs.
type Report struct {
	Files []FileReport `json:"files"`
	// Config is the file that was written, or would have been.
	Config  string `json:"config"`
	Written bool   `json:"written"`
	// DryRun says that nothing was to be written.
	DryRun bool `json:"dry_run,omitempty"`
	// Secrets are those that were kept, by name, and Store is where.
	Secrets []string `json:"secrets"`
	Store   string   `json:"store,omitempty"`
	// Next are hints on what to do now.
	Next []string `json:"next"`
	Exit int      `json:"exit"`
}

// FileReport is what became of one file.
type FileReport struct {
	File    string        `json:"file"`
	Client  Client        `json:"client,omitempty"`
	Entries []EntryReport `json:"entries"`
	// Errors are the reasons of what was not imported, by entry; "(file)" where the
	// file could not be used.
	Errors map[string]string `json:"errors"`
	Notes  []Note            `json:"notes"`
	// Total is the sum of the others.
	Total     int `json:"total"`
	Added     int `json:"added"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed"`
	// Credentials is how many literal credentials were found.
	Credentials int `json:"credentials"`
}

// EntryReport is what became of one entry.
type EntryReport struct {
	Entry string `json:"entry"`
	Path  string `json:"path"`
	Line  int    `json:"line,omitempty"`
	// Provider is the name that it has in the configuration; "" where it has none.
	Provider string  `json:"provider,omitempty"`
	Outcome  Outcome `json:"outcome"`
	Enabled  bool    `json:"enabled"`
	// Reason is why it was not imported, Off why it is imported disabled.
	Reason string   `json:"reason,omitempty"`
	Off    []string `json:"off,omitempty"`
	// Secrets are the credentials that it refers to, ToSet those that the user has to
	// set before it can start.
	Secrets []string `json:"secrets,omitempty"`
	ToSet   []string `json:"to_set,omitempty"`
}

// NewReport is a report of nothing.
func NewReport() *Report {
	return &Report{Files: []FileReport{}, Secrets: []string{}, Next: []string{}}
}

// Add adds a file. The exit code is that of all files: ExitNone where none could be
// used, ExitSome where anything was not imported.
func (r *Report) Add(f FileReport) {
	r.Files = append(r.Files, f)
	usable, failed := false, false
	for _, f := range r.Files {
		_, broken := f.Errors[fileFailed]
		usable = usable || !broken
		failed = failed || broken || f.Failed > 0
	}
	switch {
	case !usable:
		r.Exit = ExitNone
	case failed:
		r.Exit = ExitSome
	default:
		r.Exit = ExitAll
	}
}

// ReportOf is what became of the entries of a file.
func ReportOf(im *Import, m *Merged) FileReport {
	out := FileReport{File: im.File, Client: im.Client, Entries: []EntryReport{}, Errors: map[string]string{}, Notes: append([]Note{}, im.Notes...), Total: len(im.Entries)}
	for _, r := range m.Results {
		e := EntryReport{Entry: r.Entry.Source, Path: r.Entry.Path, Line: r.Entry.Line, Outcome: r.Outcome, Reason: r.Reason, ToSet: r.ToSet}
		switch r.Outcome {
		case Added:
			out.Added++
		case Unchanged:
			out.Unchanged++
		default:
			out.Failed++
			out.Errors[e.Entry] = r.Reason
		}
		if r.Outcome == Added || r.Outcome == Unchanged {
			e.Provider, e.Enabled, e.Off = r.Entry.Name, r.Entry.Server.Enabled, r.Entry.Off
			for _, c := range r.Entry.Credentials() {
				e.Secrets = append(e.Secrets, c.Name)
				out.Credentials++
			}
		}
		out.Entries = append(out.Entries, e)
	}
	return out
}

// Unusable is the report of a file that could not be used.
func Unusable(err *FileError) FileReport {
	return FileReport{File: err.File, Entries: []EntryReport{}, Errors: map[string]string{fileFailed: err.Place()}, Notes: []Note{}}
}

// Write prints the report for people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Files {
		f.write(&b)
	}
	switch {
	case r.Written:
		fmt.Fprintf(&b, "wrote %s\n", r.Config)
	case r.Config != "" && !r.DryRun:
		fmt.Fprintf(&b, "nothing was written to %s\n", r.Config)
	}
	if len(r.Secrets) > 0 {
		fmt.Fprintf(&b, "kept in %s: %s\n", r.Store, strings.Join(r.Secrets, ", "))
	}
	for i, hint := range r.Next {
		fmt.Fprintf(&b, "%s%s\n", map[bool]string{true: "next: ", false: "      "}[i == 0], hint)
	}
	_, err := io.WriteString(w, shown(b.String()))
	return err
}

// shown takes out of a text what a terminal would obey.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsGraphic(r) && !unicode.Is(unicode.Cf, r) {
			return r
		}
		return '?'
	}, s)
}

func (f *FileReport) write(b *strings.Builder) {
	if why, broken := f.Errors[fileFailed]; broken {
		fmt.Fprintf(b, "%s\n  not imported: %s\n\n", f.File, why)
		return
	}
	fmt.Fprintf(b, "%s (%s)\n", f.File, f.Client)
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  ENTRY\tPROVIDER\tWHAT BECAME OF IT")
	for _, e := range f.Entries {
		name := e.Provider
		if name == "" {
			name = "-"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", strings.ReplaceAll(e.Entry, "\t", " "), name, e.became())
	}
	_ = table.Flush() // it writes to memory
	fmt.Fprintf(b, "  %d entries: %d added, %d already there, %d not imported\n", f.Total, f.Added, f.Unchanged, f.Failed)
	if f.Credentials > 0 {
		fmt.Fprintf(b, "  credentials found: %d; their place is the secret store, and not the configuration\n", f.Credentials)
	}
	for _, n := range f.Notes {
		kind := "warning"
		if n.Info {
			kind = "note"
		}
		fmt.Fprintf(b, "  %s: %s: %s\n", kind, n.Path, n.Text)
	}
	b.WriteByte('\n')
}

// became says in words what became of an entry.
func (e *EntryReport) became() string {
	var out string
	switch e.Outcome {
	case Added:
		out = "added"
	case Unchanged:
		out = "already there"
	default:
		return "not imported: " + e.Reason
	}
	if !e.Enabled {
		out += ", disabled (" + strings.Join(e.Off, "; ") + ")"
	}
	if len(e.ToSet) > 0 {
		out += "; to be set before it can start: " + strings.Join(e.ToSet, ", ")
	}
	return out
}
