package config

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// Locate turns what a plugin said about a config into diagnostics with a place
// in the file: that of the value a path leads to, where the file writes it out,
// else of the nearest thing around it that stands in the file, at last the
// header of the `config` block. A plugin's words are passed on as they are, so
// the caller takes secrets out of them.
func Locate(p *Provider, schema provider.Schema, found provider.Diagnostics) hcl.Diagnostics {
	diags := make(hcl.Diagnostics, 0, len(found))
	for _, one := range found {
		d := problem(find(p, schema, one.Path), one.Summary, one.Detail)
		if one.Severity == provider.Warning {
			d.Severity = hcl.DiagWarning
		}
		diags = append(diags, d)
	}
	return diags
}

// find follows a path through a config block.
func find(p *Provider, schema provider.Schema, path provider.Path) hcl.Range {
	at := p.ConfigRange
	body, ok := p.Body.(*hclsyntax.Body)
	for ok && len(path) > 0 {
		name, isName := path[0].(provider.AttributeStep)
		if !isName {
			return at
		}
		if attr := body.Attributes[string(name)]; attr != nil {
			return findIn(attr.Expr, path[1:])
		}
		i := slices.IndexFunc(schema.Blocks, func(b provider.Block) bool { return b.Name == string(name) })
		if i < 0 {
			return at
		}
		schema, path = schema.Blocks[i].Schema, path[1:]
		n := provider.IndexStep(0)
		if len(path) > 0 {
			if index, ok := path[0].(provider.IndexStep); ok {
				n, path = index, path[1:]
			}
		}
		block := nth(body, string(name), n)
		if block == nil {
			return at
		}
		at, body = block.DefRange(), block.Body
	}
	return at
}

// nth is the n-th block of a type in a body, from zero.
func nth(body *hclsyntax.Body, name string, n provider.IndexStep) *hclsyntax.Block {
	for _, block := range body.Blocks {
		if block.Type != name {
			continue
		}
		if n == 0 {
			return block
		}
		n--
	}
	return nil
}

// findIn follows a path through an expression, as far as it is written out.
func findIn(expr hclsyntax.Expression, path provider.Path) hcl.Range {
	for _, step := range path {
		inner := element(expr, step)
		if inner == nil {
			break
		}
		expr = inner
	}
	return expr.Range()
}

// element is the part of a list or map, written out in the file, that a step
// leads to; nil where there is none.
func element(expr hclsyntax.Expression, step provider.Step) hclsyntax.Expression {
	switch expr := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return element(expr.Expression, step)
	case *hclsyntax.TupleConsExpr:
		if i, ok := step.(provider.IndexStep); ok && i >= 0 && int64(i) < int64(len(expr.Exprs)) {
			return expr.Exprs[i]
		}
	case *hclsyntax.ObjectConsExpr:
		var want string
		switch step := step.(type) {
		case provider.KeyStep:
			want = string(step)
		case provider.AttributeStep:
			want = string(step)
		default:
			return nil
		}
		for _, item := range expr.Items {
			if key, ok := literalKey(item.KeyExpr); ok && key == want {
				return item.ValueExpr
			}
		}
	}
	return nil
}

// rangeIn is the place of an attribute's value, named by the blocks that lead to
// it, or the header of the innermost of them that stands in the file.
func rangeIn(src *hclsyntax.Block, names ...string) hcl.Range {
	for i, name := range names {
		if attr := src.Body.Attributes[name]; attr != nil && i == len(names)-1 {
			return attr.Expr.Range()
		}
		inner := nth(src.Body, name, 0)
		if inner == nil {
			break
		}
		src = inner
	}
	return src.DefRange()
}

// stands says whether an attribute of a nested block is written in the file.
func stands(src *hclsyntax.Block, block, name string) bool {
	inner := nth(src.Body, block, 0)
	return inner != nil && inner.Body.Attributes[name] != nil
}

// labelled are the blocks whose label tells which one is meant. Of any other a
// label is a mistake, and may be anything.
var labelled = []string{"plugin", "provider", "principal", "project"}

// pathAt says in words what stands at a position of a file, from the outermost
// block inwards: provider.browser.config.args[1].
func pathAt(body *hclsyntax.Body, pos hcl.Pos) string {
	path := ""
	for {
		for _, attr := range body.Attributes {
			if attr.SrcRange.ContainsPos(pos) {
				return join(path, attr.Name) + stepsTo(attr.Expr, pos)
			}
		}
		i := slices.IndexFunc(body.Blocks, func(b *hclsyntax.Block) bool {
			return hcl.RangeBetween(b.TypeRange, b.CloseBraceRange).ContainsPos(pos)
		})
		if i < 0 {
			return path
		}
		block := body.Blocks[i]
		path = join(path, block.Type)
		if len(block.Labels) > 0 && slices.Contains(labelled, path) {
			path += keyText(block.Labels[0])
		}
		body = block.Body
	}
}

// stepsTo says which part of a value stands at a position, as far as lists and
// maps are written out: "[1]", ".TOKEN", or nothing.
func stepsTo(expr hclsyntax.Expression, pos hcl.Pos) string {
	switch expr := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return stepsTo(expr.Expression, pos)
	case *hclsyntax.TupleConsExpr:
		for i, inner := range expr.Exprs {
			if inner.Range().ContainsPos(pos) {
				return fmt.Sprintf("[%d]", i) + stepsTo(inner, pos)
			}
		}
	case *hclsyntax.ObjectConsExpr:
		for _, item := range expr.Items {
			if key, ok := literalKey(item.KeyExpr); ok && hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range()).ContainsPos(pos) {
				return keyText(key) + stepsTo(item.ValueExpr, pos)
			}
		}
	}
	return ""
}

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// keyText writes a key of a map or the label of a block as a step of a path.
func keyText(key string) string {
	if plainKey.MatchString(key) {
		return "." + key
	}
	return fmt.Sprintf("[%q]", key)
}
