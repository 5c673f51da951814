package shape

import "slices"

const (
	// maxSteps bounds one comparison. A step looks at a value, a keyword or 64 bytes;
	// all of them take a few milliseconds.
	maxSteps = 50_000
	// maxDepth bounds how deep schemas lead to each other.
	maxDepth = 200
	// stepBytes is how much of a text is looked at in a step.
	stepBytes = 64
)

// verdict says whether a value fits a schema.
type verdict int8

// The verdicts, in an order by which the smallest holds where all count, and the
// largest where one is enough.
const (
	no verdict = iota
	maybe
	yes
)

// Misfit is a value that does not fit a schema. It says nothing of what is in the
// value but of what kind it is.
type Misfit struct {
	// At is where it stands, as a JSON pointer; a member that the schema does not name
	// is "*" in it.
	At string
	// Rule is what it breaks, as a JSON pointer into the schema that follows references.
	Rule string
	// Expected is what the schema wants there, Found the kind of what there is.
	Expected, Found string
}

// Misfit returns how a value surely does not fit the schema; nil if it fits, or if
// that is not known.
func (s *Schema) Misfit(value []byte) *Misfit {
	got, c := s.judge(value)
	if got != no {
		return nil
	}
	slices.Reverse(c.at)
	slices.Reverse(c.rule)
	return &Misfit{At: pointer(c.at), Rule: pointer(c.rule), Expected: c.expected, Found: c.found}
}

// judge holds a value against the schema.
func (s *Schema) judge(value []byte) (verdict, *clash) {
	if s == nil || len(value) > MaxValue {
		return maybe, nil
	}
	v, _ := parse(value)
	if v == nil {
		return maybe, nil
	}
	t := trial{schema: s, left: maxSteps}
	got, c := t.judge(s.root, v, 0)
	if t.over {
		return maybe, nil
	}
	return got, c
}

// trial is one comparison.
type trial struct {
	schema *Schema
	// left are the steps that it still has; over says that they did not suffice, or
	// that it led too deep.
	left int
	over bool
}

// spend takes a step, and more for a text that is looked at; false without one left.
func (t *trial) spend(text int) bool {
	t.left -= 1 + text/stepBytes
	if t.left < 0 {
		t.over = true
	}
	return !t.over
}

// clash is why a value does not fit, while the ways to it, in the value and in the
// schema, are put together: from their ends.
type clash struct {
	at, rule        []string
	expected, found string
}

// under adds a step to the way in the schema.
func (c *clash) under(step string) *clash {
	c.rule = append(c.rule, step)
	return c
}

// in adds a step to the way in the value.
func (c *clash) in(step string) *clash {
	c.at = append(c.at, step)
	return c
}

// judge holds a value against a schema. There is a clash if and only if the verdict is
// no.
func (t *trial) judge(s, v *node, depth int) (verdict, *clash) {
	if depth > maxDepth {
		t.over = true
	}
	if !t.spend(0) {
		return maybe, nil
	}
	switch {
	case s.kind == 't':
		return yes, nil
	case s.kind == 'f' && t.schema.dialect != draft4: // which has no such schema
		return no, &clash{expected: "nothing", found: v.kindName()}
	case s.kind != '{':
		return maybe, nil
	}
	all := yes
	for i, name := range s.names {
		got, c := t.keyword(name, rule{in: s, says: s.values[i], value: v, depth: depth})
		if got == no {
			if !t.waived(s, name, v) {
				return no, c.under(name)
			}
			got = maybe
		}
		all = min(all, got)
	}
	return all, nil
}

// waived says whether something beside a keyword may make it mean less than it says.
func (t *trial) waived(s *node, name string, v *node) bool {
	return s.has("nullable") && v.kind == 'n' || s.has("discriminator") || name != "$ref" && t.schema.lone(s)
}

// keyword holds a value against one keyword. One that is not known may say anything.
func (t *trial) keyword(name string, r rule) (verdict, *clash) {
	if !t.spend(len(name)) {
		return maybe, nil
	}
	if annotations[name] {
		return yes, nil
	}
	check, known := keywords[name]
	if !known {
		return maybe, nil
	}
	return check(t, r)
}
