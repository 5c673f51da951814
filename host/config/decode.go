package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

var errNull = errors.New("must not be null; leave it out to have the default")

// decoder walks what stands in the files along the table, and collects all that
// is wrong.
type decoder struct {
	scope *scope
	at    place
	// partial is set when not all that stands in the files could be read, so that
	// what is referred to may stand there.
	partial bool
	// broken are the outermost blocks of which something may be missing, and
	// inBroken says that one of them is being decoded.
	broken   map[*hclsyntax.Block]bool
	inBroken bool
	diags    hcl.Diagnostics
	notices  hcl.Diagnostics
	// missing collects, inside of a provider, what fails that provider alone.
	missing hcl.Diagnostics
	// seen are the names of the outermost blocks that stand in the files.
	seen map[string]bool
	// within is the name of the outermost block being decoded.
	within string
	// providers are what was decoded, in the order of the files.
	providers []declared[*Provider]
	// trail is the block being decoded, with labels: provider.browser.limits.
	trail string
	// settings are what the blocks say that decide more than access; see changes.go.
	settings map[string]setting
	// principals, projects and grants are likewise; host is the block host, nil
	// without one.
	principals []declared[*Principal]
	projects   []declared[*Project]
	grants     []grantIn
	host       *hclsyntax.Block
}

// declared is a value and the block that declares it.
type declared[T any] struct {
	value T
	src   *hclsyntax.Block
}

func (d *decoder) errorf(at hcl.Range, summary, detail string, args ...any) {
	d.diags = append(d.diags, problem(at, summary, fmt.Sprintf(detail, args...)))
}

// children decodes the blocks of src, which stands at path.
func (d *decoder) children(src *hclsyntax.Body, path string, b body) {
	first := map[string]*hclsyntax.Block{}
	for _, block := range src.Blocks {
		i := slices.IndexFunc(b.blocks, func(t blockType) bool { return t.name == block.Type })
		if i < 0 {
			d.unknownBlock(block, path, b)
			continue
		}
		kind := b.blocks[i]
		if before := first[kind.name]; before != nil && !kind.repeated {
			d.errorf(block.DefRange(), fmt.Sprintf("Second block %q", kind.name),
				"There is already one at %s, and only one is allowed. Make the two one.", where(before.DefRange()))
			continue
		}
		first[kind.name] = block
		if path == "" {
			d.within, d.inBroken, d.missing = kind.name, d.broken[block], nil
			d.seen[kind.name] = true
		}
		inner := kind.open()
		if !d.labels(block, kind) {
			inner.check = nil
		}
		outer := d.trail
		d.trail = join(outer, kind.name)
		if kind.label != "" && len(block.Labels) > 0 {
			d.trail += keyText(block.Labels[0])
		}
		d.block(block, join(path, kind.name), inner)
		d.trail = outer
	}
	for _, kind := range b.blocks {
		if first[kind.name] == nil && !kind.repeated {
			d.defaults(kind, join(d.trail, kind.name))
		}
	}
}

// defaults opens an absent block, and those in it, for their defaults.
func (d *decoder) defaults(kind blockType, trail string) {
	b := kind.open()
	d.record(nil, trail, b)
	for _, inner := range b.blocks {
		if !inner.repeated {
			d.defaults(inner, join(trail, inner.name))
		}
	}
}

// block decodes one block, which stands at path.
func (d *decoder) block(src *hclsyntax.Block, path string, b body) {
	d.pend(path, "", src.DefRange())
	if b.foreign {
		return
	}
	defer d.record(src, d.trail, b)
	for _, name := range slices.Sorted(maps.Keys(src.Body.Attributes)) {
		attr := src.Body.Attributes[name]
		i := slices.IndexFunc(b.attributes, func(a attribute) bool { return a.name == name })
		if i < 0 {
			d.unknownAttribute(attr, path, b)
			continue
		}
		d.attribute(attr, join(path, name), b.attributes[i])
	}
	d.requireIn(src.Body, src.DefRange(), b)
	d.children(src.Body, path, b)
	if b.check != nil {
		b.check(d, src)
	}
}

// requireIn reports what has to stand in a body and does not.
func (d *decoder) requireIn(src *hclsyntax.Body, at hcl.Range, b body) {
	for _, a := range b.attributes {
		if a.required && src.Attributes[a.name] == nil && !d.inBroken {
			d.errorf(at, fmt.Sprintf("Missing attribute %q", a.name), "%s", strings.TrimSpace(fmt.Sprintf("Set %s here. %s", a.name, a.usage)))
		}
	}
}

// attribute evaluates one attribute and puts its value where the table says.
func (d *decoder) attribute(src *hclsyntax.Attribute, path string, a attribute) {
	d.scope.within = d.within
	v, found := src.Expr.Value(d.scope.ctx)
	wrong, missing := d.scope.sift(found)
	if d.within == "provider" {
		d.missing = append(d.missing, missing...)
	} else {
		wrong = append(wrong, missing...)
	}
	d.diags = append(d.diags, wrong...)
	v, _ = v.UnmarkDeep()
	if found.HasErrors() || !v.IsWhollyKnown() {
		return // said already: here, or by checkLanguage
	}
	err := errNull
	if !v.IsNull() {
		err = a.set(v, d.at)
	}
	for _, one := range split(err) {
		at, name := placeOf(src.Expr, a.name, one)
		d.errorf(at, fmt.Sprintf("Bad value for %q", a.name), "%s %s", name, sentence(one))
	}
	if err != nil {
		return
	}
	if !isEmptyList(v) {
		d.pend(path, valueText(v), src.Expr.Range())
	}
}

// split gives the errors that were joined into one.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// sentence ends an error's text as a sentence ends.
func sentence(err error) string {
	s := err.Error()
	if strings.HasSuffix(s, "?") {
		return s
	}
	return s + "."
}

// placeOf is where an error of set stands, and the name of what stands there: an
// element of a list that is written out, or the whole expression.
func placeOf(expr hclsyntax.Expression, name string, err error) (hcl.Range, string) {
	var e *elementError
	if !errors.As(err, &e) {
		return expr.Range(), name
	}
	at := expr.Range()
	if list, ok := expr.(*hclsyntax.TupleConsExpr); ok && e.index < len(list.Exprs) {
		at = list.Exprs[e.index].Range()
	}
	return at, fmt.Sprintf("%s[%d]", name, e.index)
}

// labels checks that a block has the label it needs, and no other; false means
// that it has none and should.
func (d *decoder) labels(src *hclsyntax.Block, kind blockType) bool {
	switch {
	case kind.label == "" && len(src.Labels) > 0:
		d.errorf(src.LabelRanges[0], fmt.Sprintf("Label on %q", kind.name), "A block %q has no label: write %s { … }.", kind.name, kind.name)
	case kind.label != "" && len(src.Labels) == 0:
		d.errorf(src.TypeRange, fmt.Sprintf("Missing label of %q", kind.name), "A block %q needs a %s: write %s \"…\" { … }.", kind.name, kind.label, kind.name)
		return false
	case kind.label != "" && len(src.Labels) > 1:
		d.errorf(src.LabelRanges[1], fmt.Sprintf("Second label on %q", kind.name), "A block %q has one label.", kind.name)
	}
	return true
}

func (d *decoder) unknownAttribute(src *hclsyntax.Attribute, path string, b body) {
	d.errorf(src.NameRange, fmt.Sprintf("Unknown attribute %q", src.Name), "%s", strangerHint(src.Name, path, b, false))
}

func (d *decoder) unknownBlock(src *hclsyntax.Block, path string, b body) {
	d.errorf(src.TypeRange, fmt.Sprintf("Unknown block %q", src.Type), "%s", strangerHint(src.Type, path, b, true))
}

// strangerHint tells what may have been meant by a name that means nothing where
// it stands.
func strangerHint(name, path string, b body, isBlock bool) string {
	attributes, blocks := b.names()
	switch {
	case !isBlock && slices.Contains(blocks, name):
		return fmt.Sprintf("%q is a block: write %s { … }, without an equals sign.", name, name)
	case isBlock && slices.Contains(attributes, name):
		return fmt.Sprintf("%q is an attribute: write %s = …, with an equals sign.", name, name)
	}
	for _, kind := range b.blocks {
		inner, innerBlocks := kind.open().names()
		if slices.Contains(inner, name) || slices.Contains(innerBlocks, name) {
			return fmt.Sprintf("It belongs in the block %q.", kind.name)
		}
	}
	if near := nearest(name, append(attributes, blocks...)); near != "" {
		return fmt.Sprintf("Did you mean %q?", near)
	}
	var hint strings.Builder
	if slices.Contains(blocks, "config") {
		hint.WriteString("What the plugin is to know stands in config { … }. ")
	}
	where := "A file"
	if path != "" {
		where = fmt.Sprintf("A block %q", path[strings.LastIndex(path, ".")+1:])
	}
	if len(attributes) > 0 {
		fmt.Fprintf(&hint, "%s has the attributes %s", where, strings.Join(attributes, ", "))
		if len(blocks) > 0 {
			hint.WriteString(" and the blocks " + strings.Join(blocks, ", "))
		}
	} else {
		fmt.Fprintf(&hint, "%s has the blocks %s", where, strings.Join(blocks, ", "))
	}
	return hint.String() + "."
}

func (b body) names() (attributes, blocks []string) {
	for _, a := range b.attributes {
		attributes = append(attributes, a.name)
	}
	for _, k := range b.blocks {
		blocks = append(blocks, k.name)
	}
	return attributes, blocks
}

// nearest is the word closest to s, if one is close enough to be a slip of it or
// is a part of it.
func nearest(s string, words []string) string {
	best, distance := "", max(2, len(s)/4)+1
	for _, word := range words {
		if n := levenshtein.Distance(s, word, nil); n < distance && n < len(word) {
			best, distance = word, n
		}
	}
	for _, word := range words {
		if best == "" && len(word) > 3 && strings.Contains(s, word) {
			best = word
		}
	}
	return best
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
