package config

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// Finding is a diagnostic as programs read it. Lines and columns count from 1,
// columns in characters; File is empty where there is no place.
type Finding struct {
	Severity  string `json:"severity"` // "error" or "warning"
	Summary   string `json:"summary"`
	Detail    string `json:"detail"`
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Column    int    `json:"column,omitempty"`
	EndLine   int    `json:"end_line,omitempty"`
	EndColumn int    `json:"end_column,omitempty"`
	// Path says what stands there: provider.browser.config.args[1].
	Path string `json:"path,omitempty"`
}

// maxShown is the most diagnostics that are printed: nobody reads more, and the
// work for each grows with its file.
const maxShown = 1000

// shown cuts a long list of diagnostics, and says so in its last one.
func shown(diags hcl.Diagnostics) hcl.Diagnostics {
	if len(diags) <= maxShown {
		return diags
	}
	more := *diags[maxShown]
	more.Summary = fmt.Sprintf("%d more, not shown", len(diags)-maxShown)
	more.Detail = "The first of them stands here. Mend those above and look again."
	return append(diags[:maxShown:maxShown], &more)
}

// Findings gives diagnostics in the form for programs. c may be nil.
func Findings(c *Config, diags hcl.Diagnostics) []Finding {
	views := newViews(c)
	list := make([]Finding, 0, len(diags))
	for _, d := range shown(diags) {
		f := Finding{Severity: severity(d), Summary: clean(d.Summary), Detail: clean(d.Detail)}
		if at := d.Subject; at != nil {
			f.File, f.Line, f.Column = at.Filename, at.Start.Line, at.Start.Column
			f.EndLine, f.EndColumn = at.End.Line, at.End.Column
			if v := views.of(at.Filename); v != nil {
				f.Path = clean(pathAt(v.body, at.Start))
			}
		}
		list = append(list, f)
	}
	return list
}

func severity(d *hcl.Diagnostic) string {
	if d.Severity == hcl.DiagWarning {
		return "warning"
	}
	return "error"
}

// palette holds the codes of a terminal, or nothing.
type palette struct{ red, yellow, bold, dim, reset string }

var colours = palette{red: "\x1b[1;31m", yellow: "\x1b[1;33m", bold: "\x1b[1m", dim: "\x1b[2m", reset: "\x1b[0m"}

// WriteDiagnostics prints diagnostics for people: what is wrong, where, the line
// of the file, and what to do. Of a `config` block, and of whatever may be one
// that is misspelled or misplaced, the line shows names only; values and comments
// become "…". c may be nil. Unlike HCL's own writer it never shows the value of a
// variable or function.
func WriteDiagnostics(w io.Writer, c *Config, diags hcl.Diagnostics, color bool) error {
	p := palette{}
	if color {
		p = colours
	}
	views := newViews(c)
	var out bytes.Buffer
	for _, d := range shown(diags) {
		tint, word := p.red, "Error"
		if d.Severity == hcl.DiagWarning {
			tint, word = p.yellow, "Warning"
		}
		fmt.Fprintf(&out, "%s%s%s: %s%s%s\n", tint, word, p.reset, p.bold, clean(d.Summary), p.reset)
		if d.Subject != nil {
			views.of(d.Subject.Filename).excerpt(&out, *d.Subject, p)
		}
		if d.Detail != "" {
			fmt.Fprintf(&out, "  %s\n", strings.ReplaceAll(clean(d.Detail), "\n", "\n  "))
		}
		out.WriteByte('\n')
	}
	_, err := w.Write(out.Bytes())
	return err
}

// excerpt prints the place and the first line of a range.
func (v *view) excerpt(out *bytes.Buffer, at hcl.Range, p palette) {
	fmt.Fprintf(out, "  %s", clean(where(at)))
	if v == nil {
		out.WriteByte('\n')
		return
	}
	if path := pathAt(v.body, at.Start); path != "" {
		fmt.Fprintf(out, ", %s", clean(path))
	}
	out.WriteByte('\n')
	text, marks := v.line(at)
	if text == "" {
		return
	}
	number := fmt.Sprint(at.Start.Line)
	fmt.Fprintf(out, "  %s%s |%s %s\n", p.dim, number, p.reset, text)
	if marks != "" {
		fmt.Fprintf(out, "  %s%s |%s %s\n", p.dim, strings.Repeat(" ", len(number)), p.reset, marks)
	}
}

// maxLine bounds how much of a line is shown.
const maxLine = 160

// cell is what stands in one column of a line that is shown.
type cell struct {
	text   []rune // a character, and those that combine with it
	marked bool
}

// line gives the first line of a range, with "…" for each run of what must not be
// shown, and below it marks under the range.
func (v *view) line(at hcl.Range) (text, marks string) {
	if at.Start.Byte < 0 || at.Start.Byte > len(v.src) {
		return "", ""
	}
	start := bytes.LastIndexByte(v.src[:at.Start.Byte], '\n') + 1
	end := len(v.src)
	if n := bytes.IndexByte(v.src[start:], '\n'); n >= 0 {
		end = start + n
	}
	var cells []cell
	hiding := false
	for i := start; i < end && len(cells) < maxLine; {
		r, width := utf8.DecodeRune(v.src[i:end])
		marked := i == at.Start.Byte || i > at.Start.Byte && i < at.End.Byte
		hidden := v.hides(i) && (hiding || !unicode.IsSpace(r))
		last := len(cells) - 1
		switch {
		case hidden && hiding:
			cells[last].marked = cells[last].marked || marked
		case hidden:
			cells = append(cells, cell{[]rune{'…'}, marked})
		case unicode.Is(unicode.Mn, r) && last >= 0:
			cells[last].text = append(cells[last].text, r)
		default:
			cells = append(cells, cell{[]rune{safe(r)}, marked})
		}
		hiding = hidden
		i += width
	}
	if !slices.ContainsFunc(cells, func(c cell) bool { return c.marked }) && len(cells) < maxLine {
		cells = append(cells, cell{[]rune{' '}, true}) // the range begins at the end of the line
	}
	var above, below strings.Builder
	for _, c := range cells {
		above.WriteString(string(c.text))
		switch {
		case c.marked:
			below.WriteByte('^')
		case c.text[0] == '\t':
			below.WriteByte('\t')
		default:
			below.WriteByte(' ')
		}
	}
	return strings.TrimRightFunc(above.String(), unicode.IsSpace), strings.TrimRightFunc(below.String(), unicode.IsSpace)
}

// clean makes foreign text fit for a terminal: a control character, or one that
// turns the direction of writing, could make it read as something else.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return safe(r)
	}, restore(s))
}

func safe(r rune) rune {
	if r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
		return utf8.RuneError
	}
	return r
}

// views are the files of a config as they may be shown, made when first asked for.
type views struct {
	sources map[string][]byte
	made    map[string]*view
}

func newViews(c *Config) *views {
	v := &views{made: map[string]*view{}}
	if c != nil {
		v.sources = c.Sources
	}
	return v
}

// of is nil for a file whose text is not at hand.
func (v *views) of(name string) *view {
	src, ok := v.sources[name]
	if !ok {
		return nil
	}
	if v.made[name] == nil {
		v.made[name] = newView(src, name)
	}
	return v.made[name]
}

// hides says whether the byte at an offset must not be shown.
func (v *view) hides(offset int) bool {
	i, found := slices.BinarySearchFunc(v.hidden, offset, func(s span, offset int) int { return s.start - offset })
	return found || i > 0 && offset < v.hidden[i-1].end
}
