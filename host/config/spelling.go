package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"golang.org/x/text/unicode/norm"
)

// cty turns every string into Unicode's form NFC when it makes a value of it:
// "e" and U+0301 become U+00E9. To a file system, a password check or a server
// these are two spellings. So that a string reaches its plugin as it is spelled,
// each character that NFC might change travels through HCL in disguise, as its
// number between two escapes, and is put back when the value leaves. The escape
// is one of Unicode's noncharacters, which are there for a program's own use.
//
// A disguise is made character by character, and holds nothing that composes
// with a neighbour, so two disguised strings may be joined by a template.
const escape = '\uFDD0'

// disguise makes s such that NFC changes nothing in it, alone or joined.
func disguise(s string) string {
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		c := s[i : i+width]
		if r == escape || !norm.NFC.PropertiesString(c).BoundaryBefore() || !norm.NFC.IsNormalString(c) {
			b.WriteRune(escape)
			b.WriteString(strconv.FormatInt(int64(r), 16))
			b.WriteRune(escape)
		} else {
			b.WriteString(c)
		}
		i += width
	}
	return b.String()
}

// restore takes the disguise off.
func restore(s string) string {
	parts := strings.Split(s, string(escape))
	for i := 1; i < len(parts); i += 2 {
		if n, err := strconv.ParseInt(parts[i], 16, 32); err == nil {
			parts[i] = string(rune(n))
		}
	}
	return strings.Join(parts, "")
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// disguiseLiterals gives each literal string of a parsed file the spelling it
// has in the source, in disguise. The parser has normalised it, but what it was
// parsed from still stands in src. Where the parser has taken white space out of
// it too (<<- and ~), the spelling cannot be kept, and is warned of.
func disguiseLiterals(body *hclsyntax.Body, src []byte) hcl.Diagnostics {
	return hclsyntax.VisitAll(body, func(node hclsyntax.Node) hcl.Diagnostics {
		literal, ok := node.(*hclsyntax.LiteralValueExpr)
		if !ok || !isLiteral(literal.Val, cty.String) || !literal.SrcRange.CanSliceBytes(src) {
			return nil
		}
		written := literal.SrcRange.SliceBytes(src)
		if s, ok := spelling(written, literal.Val.AsString()); ok {
			literal.Val = cty.StringVal(disguise(s))
		} else if !norm.NFC.IsNormal(written) {
			return hcl.Diagnostics{caution(literal.SrcRange, "Spelling is not kept",
				"This text holds decomposed characters, which are composed here because its indentation is removed. "+
					"Write it in quotes, or with << in place of <<-, to keep them.")}
		}
		return nil
	})
}

// spelling finds the string that src spells and whose normal form is val. A
// literal in quotes has escapes and one in a heredoc has none, and only the
// parser knew which it was; the value tells.
func spelling(src []byte, val string) (string, bool) {
	for _, kind := range []hclsyntax.TokenType{hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit} {
		s, diags := hclsyntax.ParseStringLiteralToken(hclsyntax.Token{Type: kind, Bytes: src})
		if !diags.HasErrors() && cty.NormalizeString(s) == val {
			return s, true
		}
	}
	return "", false
}

// warnDecomposed tells of literals of a config body that are not in the form NFC:
// they are passed on as they are spelled, and look on a screen like another name.
func warnDecomposed(body *hclsyntax.Body, secret func(attribute string) bool) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for name, attr := range body.Attributes {
		if secret(name) {
			continue
		}
		diags = append(diags, hclsyntax.VisitAll(attr.Expr, func(node hclsyntax.Node) hcl.Diagnostics {
			literal, ok := node.(*hclsyntax.LiteralValueExpr)
			if !ok || !isLiteral(literal.Val, cty.String) {
				return nil
			}
			s := restore(literal.Val.AsString())
			if norm.NFC.IsNormalString(s) {
				return nil
			}
			from, to := firstDecomposed(s)
			return hcl.Diagnostics{caution(literal.SrcRange, "Decomposed characters", fmt.Sprintf(
				"%s is spelled with %s, and is passed on so. The composed spelling, %s, looks the same and is another name: "+
					"if a path or name is not found, look here.", name+stepsTo(attr.Expr, literal.SrcRange.Start), from, to))}
		})...)
	}
	for _, block := range body.Blocks {
		diags = append(diags, warnDecomposed(block.Body, secret)...)
	}
	return diags
}

// firstDecomposed gives the code points of the first part of s that NFC changes,
// as they are and as NFC has them.
func firstDecomposed(s string) (from, to string) {
	var it norm.Iter
	it.InitString(norm.NFC, s)
	for !it.Done() {
		start := it.Pos()
		composed := it.Next()
		if part := s[start:it.Pos()]; part != string(composed) {
			return codePoints(part), codePoints(string(composed))
		}
	}
	return "", ""
}

func codePoints(s string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, " U+%04X", r)
	}
	return strings.TrimPrefix(b.String(), " ")
}
