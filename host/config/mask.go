package config

import (
	"regexp"
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// view is a file as it may be shown: its text, its structure, and the parts of
// the text that must not be seen, in order and not overlapping.
type view struct {
	src    []byte
	body   *hclsyntax.Body
	hidden []span
}

// span is a part of a file, from start to before end.
type span struct{ start, end int }

func newView(src []byte, name string) *view {
	file, diags := parse(src, name)
	_ = disguiseLiterals(file.Body, src) // load has warned; here it makes keys show as they are spelled
	v := &view{src: src, body: file.Body}
	if file.partial {
		v.maskBroken()
		return v
	}
	v.maskIn(file.Body, root(&Config{}, place{}))
	for _, d := range diags { // an attribute set twice, whose second value is not in the structure
		v.hide(d.Subject.End.Byte, v.lineEnd(d.Subject.End.Byte))
	}
	v.merge()
	return v
}

// maskIn hides what the table does not know: it may be what a plugin is to know,
// under a wrong name or in a wrong place.
func (v *view) maskIn(body *hclsyntax.Body, table body) {
	for name, attr := range body.Attributes {
		if !slices.ContainsFunc(table.attributes, func(a attribute) bool { return a.name == name }) {
			v.maskValue(attr)
		}
	}
	for _, block := range body.Blocks {
		i := slices.IndexFunc(table.blocks, func(t blockType) bool { return t.name == block.Type })
		if i < 0 {
			v.maskBody(block)
			continue
		}
		if inner := table.blocks[i].open(); inner.foreign {
			v.maskBody(block)
		} else {
			v.maskIn(block.Body, inner)
		}
	}
}

// maskBody hides all of a block but its braces and the names in it: labels, which
// a config block has no use for, and comments too, for a value that was commented
// out is one still.
func (v *view) maskBody(block *hclsyntax.Block) {
	var shown []span
	for _, attr := range block.Body.Attributes {
		shown = append(shown, span{attr.NameRange.Start.Byte, attr.EqualsRange.End.Byte})
	}
	for _, inner := range block.Body.Blocks {
		shown = append(shown, span{inner.TypeRange.Start.Byte, inner.CloseBraceRange.End.Byte})
		v.maskBody(inner)
	}
	slices.SortFunc(shown, func(a, b span) int { return a.start - b.start })
	v.hide(block.TypeRange.End.Byte, block.OpenBraceRange.Start.Byte)
	from := block.OpenBraceRange.End.Byte
	for _, s := range shown {
		v.hide(from, s.start)
		from = s.end
	}
	v.hide(from, block.CloseBraceRange.Start.Byte)
}

// maskValue hides a value and what follows it on its last line.
func (v *view) maskValue(attr *hclsyntax.Attribute) {
	v.hide(attr.EqualsRange.End.Byte, v.lineEnd(attr.SrcRange.End.Byte))
}

// lineEnd is where the line ends that an offset stands on.
func (v *view) lineEnd(offset int) int {
	for offset < len(v.src) && v.src[offset] != '\n' {
		offset++
	}
	return offset
}

func (v *view) hide(start, end int) {
	if start < end {
		v.hidden = append(v.hidden, span{start, end})
	}
}

// merge puts the hidden parts in order and makes one of those that overlap.
func (v *view) merge() {
	slices.SortFunc(v.hidden, func(a, b span) int { return a.start - b.start })
	merged := v.hidden[:0]
	for _, s := range v.hidden {
		if last := len(merged) - 1; last >= 0 && s.start <= merged[last].end {
			merged[last].end = max(merged[last].end, s.end)
		} else {
			merged = append(merged, s)
		}
	}
	v.hidden = merged
}

// opening is the beginning of a line that says what the line is about.
var opening = regexp.MustCompile(`^((plugin|provider|principal|project)[ \t]+"[^"]*"[ \t]*\{|[ \t]*[A-Za-z_][A-Za-z0-9_-]*[ \t]*[={])`)

// maskBroken is for a file that does not parse, of which nobody can tell where a
// config block ends: only what each line is about is shown.
func (v *view) maskBroken() {
	for start := 0; start < len(v.src); {
		end := v.lineEnd(start)
		v.hide(start+len(opening.Find(v.src[start:end])), end)
		start = end + 1
	}
}
