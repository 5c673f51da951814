package shape

import (
	"slices"
	"strconv"
	"strings"
)

// annotations are the keywords that say nothing of whether a value fits.
var annotations = map[string]bool{
	"$schema": true, "$id": true, "$comment": true, "$defs": true, "definitions": true,
	"title": true, "description": true, "default": true, "examples": true, "deprecated": true, "readOnly": true, "writeOnly": true,
}

// rule is a keyword of a schema, and the value that is held against it.
type rule struct {
	// in is the schema, says the keyword's value.
	in, says, value *node
	depth           int
}

// breach is the verdict on a value that breaks a keyword by itself.
func (r rule) breach(expected string) (verdict, *clash) {
	return no, &clash{expected: expected, found: r.value.kindName()}
}

// keywords are those that are known. Each is sure of what it says in every dialect
// that has it, and says maybe where it is written in a way that it should not be.
var keywords map[string]func(*trial, rule) (verdict, *clash)

func init() { // they lead to each other
	keywords = map[string]func(*trial, rule) (verdict, *clash){
		"$ref": (*trial).ref,
		"type": (*trial).kind, "enum": (*trial).enum, "const": (*trial).constant,
		"required": (*trial).required, "properties": (*trial).properties,
		"patternProperties": (*trial).patternProperties, "additionalProperties": (*trial).additionalProperties,
		"items": (*trial).items, "prefixItems": (*trial).prefixItems,
		"allOf": (*trial).allOf, "anyOf": (*trial).anyOf, "oneOf": (*trial).oneOf, "not": (*trial).not,
		"minimum": bound("minimum", -1), "maximum": bound("maximum", 1),
		"minLength": least("minLength", length), "maxLength": most("maxLength", length),
		"minItems": least("minItems", size('[')), "maxItems": most("maxItems", size('[')),
		"minProperties": least("minProperties", size('{')), "maxProperties": most("maxProperties", size('{')),
	}
}

func (t *trial) ref(r rule) (verdict, *clash) {
	target := t.schema.targets[r.in]
	if target == nil {
		return maybe, nil
	}
	return t.judge(target, r.value, r.depth+1)
}

func (t *trial) kind(r rule) (verdict, *clash) {
	names := []*node{r.says}
	if r.says.kind == '[' {
		names = r.says.values
	}
	best := no
	for _, name := range names {
		if name.kind != '"' || !t.spend(len(name.text)) {
			return maybe, nil
		}
		best = max(best, t.is(r.value, name.text))
	}
	switch {
	case len(names) == 0:
		return maybe, nil
	case best != no:
		return best, nil
	}
	var expected []string
	for _, name := range names {
		if !slices.Contains(expected, name.text) {
			expected = append(expected, name.text)
		}
	}
	return r.breach(strings.Join(expected, " or "))
}

// is says whether a value is of a type.
func (t *trial) is(n *node, typeName string) verdict {
	switch {
	case !slices.Contains(types, typeName):
		return maybe
	case typeName == "integer" && n.kind == '0':
		got := integer(n.text)
		if got == yes && t.schema.dialect == draft4 && strings.ContainsAny(n.text, ".eE") {
			return maybe // 1.0 was none yet
		}
		return got
	case typeName == n.kindName():
		return yes
	}
	return no
}

func (t *trial) enum(r rule) (verdict, *clash) {
	if r.says.kind != '[' || len(r.says.values) == 0 {
		return maybe, nil
	}
	best := no
	for _, one := range r.says.values {
		if best = max(best, t.equal(one, r.value)); best == yes {
			return yes, nil
		}
	}
	if best == no {
		return r.breach("one of enum")
	}
	return best, nil
}

func (t *trial) constant(r rule) (verdict, *clash) {
	if t.schema.dialect == draft4 {
		return maybe, nil
	}
	if got := t.equal(r.says, r.value); got != no {
		return got, nil
	}
	return r.breach("const")
}

// equal says whether two values are the same.
func (t *trial) equal(a, b *node) verdict {
	if !t.spend(min(len(a.text), len(b.text))) {
		return maybe
	}
	if a.kind != b.kind || len(a.values) != len(b.values) {
		return no
	}
	switch a.kind {
	case '"':
		if a.text != b.text {
			return no
		}
	case '0':
		return sameNumber(a.text, b.text)
	}
	all := yes
	for i, one := range a.values {
		other := b.values[i]
		if a.kind == '{' {
			if !t.spend(len(a.names[i])) {
				return maybe
			}
			if other = b.member(a.names[i]); other == nil {
				return no
			}
		}
		if all = min(all, t.equal(one, other)); all == no {
			return no
		}
	}
	return all
}

// sameNumber compares literals.
func sameNumber(a, b string) verdict {
	if a == b {
		return yes
	}
	d, known := readDecimal(a)
	e, also := readDecimal(b)
	switch {
	case !known || !also:
		return maybe
	case d.compare(e) == 0:
		return yes
	}
	return no
}

func (t *trial) required(r rule) (verdict, *clash) {
	if r.value.kind != '{' {
		return yes, nil
	}
	if r.says.kind != '[' {
		return maybe, nil
	}
	for _, name := range r.says.values {
		if name.kind != '"' || !t.spend(len(name.text)) {
			return maybe, nil
		}
		if !r.value.has(name.text) {
			return no, (&clash{expected: "a member", found: "none"}).in(name.text)
		}
	}
	return yes, nil
}

func (t *trial) properties(r rule) (verdict, *clash) {
	if r.value.kind != '{' {
		return yes, nil
	}
	if r.says.kind != '{' {
		return maybe, nil
	}
	all := yes
	for i, name := range r.says.names {
		if !t.spend(len(name)) {
			return maybe, nil
		}
		member := r.value.member(name)
		if member == nil {
			continue
		}
		got, c := t.judge(r.says.values[i], member, r.depth+1)
		if got == no {
			return no, c.in(name).under(name)
		}
		all = min(all, got)
	}
	return all, nil
}

// patternProperties runs no expression, so any may match.
func (t *trial) patternProperties(r rule) (verdict, *clash) {
	if r.value.kind != '{' || len(r.value.values) == 0 || r.says.kind == '{' && len(r.says.values) == 0 {
		return yes, nil
	}
	return maybe, nil
}

func (t *trial) additionalProperties(r rule) (verdict, *clash) {
	if r.value.kind != '{' {
		return yes, nil
	}
	properties := r.in.member("properties")
	if properties != nil && properties.kind != '{' {
		return maybe, nil
	}
	patterns := r.in.member("patternProperties")
	matched := patterns != nil && (patterns.kind != '{' || len(patterns.values) > 0)
	all := yes
	for i, name := range r.value.names {
		if !t.spend(len(name)) {
			return maybe, nil
		}
		if properties != nil && properties.has(name) {
			continue
		}
		got, c := t.judge(r.says, r.value.values[i], r.depth+1)
		if got == no && !matched {
			return no, c.in("*")
		}
		all = min(all, max(got, maybe))
	}
	return all, nil
}

func (t *trial) items(r rule) (verdict, *clash) {
	if r.value.kind != '[' {
		return yes, nil
	}
	if r.says.kind == '[' { // one each in older dialects, nothing in the newest
		return maybe, nil
	}
	// Where prefixItems is known, items is for what follows those.
	from := 0
	if prefix := r.in.member("prefixItems"); prefix != nil && prefix.kind == '[' {
		from = min(len(prefix.values), len(r.value.values))
	}
	all := yes
	if from > 0 {
		all = maybe
	}
	for i, one := range r.value.values[from:] {
		got, c := t.judge(r.says, one, r.depth+1)
		if got == no {
			return no, c.in(strconv.Itoa(from + i))
		}
		all = min(all, got)
	}
	return all, nil
}

func (t *trial) prefixItems(r rule) (verdict, *clash) {
	if r.value.kind != '[' {
		return yes, nil
	}
	if r.says.kind != '[' || t.schema.dialect != draft2020 && t.schema.dialect != unnamed {
		return maybe, nil
	}
	all := yes
	for i, one := range r.says.values {
		if i == len(r.value.values) {
			break
		}
		got, c := t.judge(one, r.value.values[i], r.depth+1)
		if got == no {
			return no, c.in(strconv.Itoa(i)).under(strconv.Itoa(i))
		}
		all = min(all, got)
	}
	return all, nil
}

func (t *trial) allOf(r rule) (verdict, *clash) {
	if r.says.kind != '[' {
		return maybe, nil
	}
	all := yes
	for i, one := range r.says.values {
		got, c := t.judge(one, r.value, r.depth+1)
		if got == no {
			return no, c.under(strconv.Itoa(i))
		}
		all = min(all, got)
	}
	return all, nil
}

func (t *trial) anyOf(r rule) (verdict, *clash) {
	count := t.branches(r)
	switch {
	case count[yes] > 0:
		return yes, nil
	case count[maybe] > 0 || count[no] == 0:
		return maybe, nil
	}
	return r.breach("one of anyOf")
}

func (t *trial) oneOf(r rule) (verdict, *clash) {
	count := t.branches(r)
	switch {
	case count[yes] > 1:
		return r.breach("only one of oneOf")
	case count[maybe] > 0 || count[yes]+count[no] == 0:
		return maybe, nil
	case count[yes] == 1:
		return yes, nil
	}
	return r.breach("one of oneOf")
}

// branches counts the verdicts of an array of schemas.
func (t *trial) branches(r rule) (count [3]int) {
	if r.says.kind != '[' {
		return count
	}
	for _, one := range r.says.values {
		got, _ := t.judge(one, r.value, r.depth+1)
		count[got]++
	}
	return count
}

func (t *trial) not(r rule) (verdict, *clash) {
	switch got, _ := t.judge(r.says, r.value, r.depth+1); got {
	case no:
		return yes, nil
	case yes:
		return r.breach("other than not has it")
	}
	return maybe, nil
}

// bound is minimum or maximum: out is how a number compares to one that it breaks.
func bound(name string, out int) func(*trial, rule) (verdict, *clash) {
	return func(_ *trial, r rule) (verdict, *clash) {
		if r.value.kind != '0' {
			return yes, nil
		}
		if r.says.kind != '0' {
			return maybe, nil
		}
		limit, known := readDecimal(r.says.text)
		d, also := readDecimal(r.value.text)
		switch {
		case !known || !also:
			return maybe, nil
		case d.compare(limit)*out > 0:
			return r.breach(name + " " + r.says.text)
		}
		return yes, nil // in the oldest dialect but for what exclusiveMinimum says
	}
}

// measure says how large a value is; false for one of another kind, maybe where that
// depends on who counts.
type measure func(*trial, *node) (n int, sure verdict)

// length is that of a string. Readers count characters of more than one byte in
// different ways.
func length(t *trial, n *node) (int, verdict) {
	if n.kind != '"' {
		return 0, no
	}
	if !t.spend(len(n.text)) {
		return 0, maybe
	}
	for i := range len(n.text) {
		if n.text[i] >= 0x80 {
			return 0, maybe
		}
	}
	return len(n.text), yes
}

func size(kind byte) measure {
	return func(_ *trial, n *node) (int, verdict) {
		if n.kind != kind {
			return 0, no
		}
		return len(n.values), yes
	}
}

func least(name string, of measure) func(*trial, rule) (verdict, *clash) {
	return limit(name, of, func(n, limit int) bool { return n >= limit })
}

func most(name string, of measure) func(*trial, rule) (verdict, *clash) {
	return limit(name, of, func(n, limit int) bool { return n <= limit })
}

func limit(name string, of measure, within func(n, limit int) bool) func(*trial, rule) (verdict, *clash) {
	return func(t *trial, r rule) (verdict, *clash) {
		n, sure := of(t, r.value)
		if sure == no {
			return yes, nil
		}
		limit, ok := count(r.says)
		switch {
		case sure == maybe || !ok:
			return maybe, nil
		case within(n, limit):
			return yes, nil
		}
		return r.breach(name + " " + r.says.text)
	}
}
