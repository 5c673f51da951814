package config

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Bounds of what is given to HCL's parser. It recurses on brackets, operators
// and blocks, and 200 000 open brackets were measured to exhaust Go's stack, which
// no program survives.
const (
	maxFileSize = 1 << 20
	maxDepth    = 64
	maxTerms    = 1000
)

// maxExponent bounds a literal number: far beyond a float64, and far below what
// takes noticeable time to write out.
const maxExponent = 1100

// parsed is a file as far as it could be read.
type parsed struct {
	*hclsyntax.Body
	// partial is set when not all of the file could be read, and broken are the
	// blocks of which something may be missing.
	partial bool
	broken  map[*hclsyntax.Block]bool
}

// parse reads one file.
//
// After its first complaint HCL's parser keeps most others to itself, and one
// quote or brace that is not closed swallows the blocks that follow. So a file
// that does not parse is read again in pieces, one for each block that begins at
// the left edge, that a mistake in one block hides none in another.
func parse(src []byte, name string) (parsed, hcl.Diagnostics) {
	body, whole := parseAt(src, name, hcl.InitialPos)
	if !incomplete(whole) {
		return parsed{Body: body}, whole
	}
	all := parsed{&hclsyntax.Body{Attributes: hclsyntax.Attributes{}}, true, map[*hclsyntax.Block]bool{}}
	var diags hcl.Diagnostics
	starts := blockStart.FindAllIndex(src, -1)
	for from, i := 0, 1; from < len(src); i++ {
		to := len(src)
		if i < len(starts) {
			to = starts[i][0]
		}
		piece, found := parseAt(src[from:to], name, hcl.Pos{Byte: from, Line: 1 + bytes.Count(src[:from], []byte("\n")), Column: 1})
		maps.Copy(all.Attributes, piece.Attributes)
		for _, block := range piece.Blocks {
			all.Blocks = append(all.Blocks, block)
			all.broken[block] = incomplete(found)
		}
		diags = append(diags, found...)
		from = to
	}
	if !diags.HasErrors() {
		return all, whole // text that only looks like the header of a block
	}
	return all, diags
}

// incomplete says whether the parser left something out. It does not for an
// attribute that is set twice, which is a mistake it reports.
func incomplete(diags hcl.Diagnostics) bool {
	return slices.ContainsFunc(diags, func(d *hcl.Diagnostic) bool {
		return d.Severity == hcl.DiagError && d.Summary != "Attribute redefined"
	})
}

// blockStart is the header of a block at the left edge of a line.
var blockStart = regexp.MustCompile(`(?m)^(host|plugin|provider|principal|project)([ \t]+"[^"\n]*")?[ \t]*\{`)

// parseAt reads a file, or a piece that begins at start. What nests too deeply
// has no body.
func parseAt(src []byte, name string, start hcl.Pos) (*hclsyntax.Body, hcl.Diagnostics) {
	tokens, _ := hclsyntax.LexConfig(src, name, start)
	if where := tooComplex(tokens); where != nil {
		return &hclsyntax.Body{}, hcl.Diagnostics{problem(*where, "Too deeply nested",
			fmt.Sprintf("At most %d brackets, quotes and blocks may be open at once, and at most %d operators may stand in one expression.", maxDepth, maxTerms))}
	}
	file, diags := hclsyntax.ParseConfig(src, name, start)
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		body = &hclsyntax.Body{}
	}
	return body, firstOpenQuote(plain(diags))
}

// firstOpenQuote keeps the first complaint about a quote that is not closed: HCL
// has one for each line after it.
func firstOpenQuote(diags hcl.Diagnostics) hcl.Diagnostics {
	seen := false
	return slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
		if d.Summary != "Invalid multi-line string" && d.Summary != "Unterminated template string" {
			return false
		}
		again := seen
		seen = true
		return again
	})
}

// tooComplex finds the token at which a file exceeds maxDepth or maxTerms.
func tooComplex(tokens hclsyntax.Tokens) *hcl.Range {
	type level struct {
		terms int  // operators since the last separator
		lines bool // whether the end of a line separates
	}
	open := []level{{lines: true}}
	for i := range tokens {
		top := &open[len(open)-1]
		switch tokens[i].Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOQuote,
			hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			top.terms++
			open = append(open, level{lines: tokens[i].Type == hclsyntax.TokenOBrace})
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCQuote,
			hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			if len(open) > 1 {
				open = open[:len(open)-1]
			}
		case hclsyntax.TokenNewline:
			if top.lines {
				top.terms = 0
			}
		case hclsyntax.TokenComma:
			top.terms = 0
		case hclsyntax.TokenIdent, hclsyntax.TokenNumberLit, hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit, hclsyntax.TokenComment:
		default:
			top.terms++
		}
		if len(open) > maxDepth+1 || top.terms > maxTerms {
			return tokens[i].Range.Ptr()
		}
	}
	return nil
}

// checkLanguage refuses what HCL takes and a configuration has no use for:
// loops, whose work can grow far beyond their text; numbers that no program can
// hold; and a key that stands twice in one map, of which HCL keeps the last. An
// attribute whose evaluation could take unbounded time is left without a value.
func checkLanguage(body *hclsyntax.Body) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, attr := range body.Attributes {
		unbounded := hclsyntax.VisitAll(attr.Expr, checkBounded)
		diags = append(diags, unbounded...)
		diags = append(diags, hclsyntax.VisitAll(attr.Expr, checkKeys)...)
		if unbounded.HasErrors() {
			attr.Expr = &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: attr.Expr.Range()}
		}
	}
	for _, block := range body.Blocks {
		diags = append(diags, checkLanguage(block.Body)...)
	}
	return diags
}

func checkBounded(node hclsyntax.Node) hcl.Diagnostics {
	switch node := node.(type) {
	case *hclsyntax.ForExpr:
		return hcl.Diagnostics{problem(node.OpenRange, "No loops here", "A configuration has no `for`: write the elements out.")}
	case *hclsyntax.LiteralValueExpr:
		if !isLiteral(node.Val, cty.Number) {
			return nil
		}
		if e := node.Val.AsBigFloat().MantExp(nil); e > maxExponent || e < -maxExponent {
			return hcl.Diagnostics{problem(node.SrcRange, "Number out of range", "No program can hold a number of this size.")}
		}
	}
	return nil
}

func checkKeys(node hclsyntax.Node) hcl.Diagnostics {
	object, ok := node.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil
	}
	var diags hcl.Diagnostics
	first := map[string]hcl.Range{}
	for _, item := range object.Items {
		key, ok := literalKey(item.KeyExpr)
		if !ok {
			continue
		}
		if before, ok := first[key]; ok {
			diags = append(diags, problem(item.KeyExpr.Range(), "Key set twice",
				fmt.Sprintf("This key was already set at %s. Remove one of the two.", where(before))))
			continue
		}
		first[key] = item.KeyExpr.Range()
	}
	return diags
}

// isLiteral says whether there is a value of a type: a literal may be null, and
// one that the parser complained of is unknown.
func isLiteral(v cty.Value, ty cty.Type) bool {
	return v.Type() == ty && v.IsKnown() && !v.IsNull()
}

// literalKey is the key of an item of an object that is written out in the file.
func literalKey(expr hclsyntax.Expression) (string, bool) {
	v, diags := expr.Value(nil)
	if diags.HasErrors() || !isLiteral(v, cty.String) {
		return "", false
	}
	return restore(v.AsString()), true
}

// where writes a place as file:line:column.
func where(r hcl.Range) string {
	return fmt.Sprintf("%s:%d:%d", r.Filename, r.Start.Line, r.Start.Column)
}

// problem is an error at a place.
func problem(at hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at}
}

// caution is a warning at a place.
func caution(at hcl.Range, summary, detail string) *hcl.Diagnostic {
	d := problem(at, summary, detail)
	d.Severity = hcl.DiagWarning
	return d
}
