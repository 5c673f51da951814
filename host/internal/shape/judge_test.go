package shape

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	old    = `"$schema":"http://json-schema.org/draft-07/schema#",`
	oldest = `"$schema":"http://json-schema.org/draft-04/schema#",`
	newest = `"$schema":"https://json-schema.org/draft/2020-12/schema",`
)

// TestMisfits: what surely does not fit, where it stands, and what it breaks. A
// library says of each of them the same.
func TestMisfits(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":"x"}`, "/a /properties/a/type integer string"},
		{`{"type":"object"}`, `[]`, " /type object array"},
		{`{"type":["string","null"]}`, `1`, " /type string or null number"},
		{`{"type":"integer"}`, `1.5`, " /type integer number"},
		{`{"type":"integer"}`, `15e-1`, " /type integer number"},
		{`{"type":"boolean"}`, `0`, " /type boolean number"},
		{`{"type":"number"}`, `true`, " /type number boolean"},
		{`false`, `1`, "  nothing number"},
		{`{"enum":[1,"a",null,{"b":[1,2]}]}`, `{"b":[1,3]}`, " /enum one of enum object"},
		{`{"enum":[1,"a"]}`, `1.01`, " /enum one of enum number"},
		{`{"const":{"a":1}}`, `{"a":1,"b":2}`, " /const const object"},
		{`{"const":{"a":1}}`, `{"b":1}`, " /const const object"},
		{`{"const":-1e1}`, `10`, " /const const number"},
		{`{"required":["a","b/c"]}`, `{"a":null}`, "/b~1c /required a member none"},
		{`{"properties":{"a":true},"additionalProperties":false}`, `{"a":1,"secret":2}`, "/* /additionalProperties nothing number"},
		{`{"additionalProperties":{"type":"string"}}`, `{"secret":2}`, "/* /additionalProperties/type string number"},
		{`{"properties":{"a":true},"patternProperties":{},"additionalProperties":false}`, `{"b":2}`, "/* /additionalProperties nothing number"},
		{`{"items":{"properties":{"a":{"type":"null"}}}}`, `[{},{"a":1}]`, "/1/a /items/properties/a/type null number"},
		{newest + `"prefixItems":[{"type":"string"},{"type":"null"}]`, `["a",1]`, "/1 /prefixItems/1/type null number"},
		{`{"prefixItems":[true],"items":{"type":"null"}}`, `[1,null,2]`, "/2 /items/type null number"},
		{`{"allOf":[true,{"type":"string"}]}`, `1`, " /allOf/1/type string number"},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `1`, " /anyOf one of anyOf number"},
		{`{"oneOf":[{"type":"string"},{"type":"null"}]}`, `1`, " /oneOf one of oneOf number"},
		{`{"oneOf":[{"type":"integer"},{"minimum":0}]}`, `1`, " /oneOf only one of oneOf number"},
		{`{"not":{"type":"null"}}`, `null`, " /not other than not has it null"},
		{`{"not":{"not":{"type":"null"}}}`, `1`, " /not other than not has it number"},
		{`{"minimum":1.5}`, `1`, " /minimum minimum 1.5 number"},
		{`{"minimum":-3}`, `-3.5`, " /minimum minimum -3 number"},
		{`{"maximum":0}`, `1e-9`, " /maximum maximum 0 number"},
		{`{"maximum":99}`, `1E2`, " /maximum maximum 99 number"},
		{`{"minLength":2}`, `"a"`, " /minLength minLength 2 string"},
		{`{"maxLength":2}`, `"abc"`, " /maxLength maxLength 2 string"},
		{`{"minItems":1}`, `[]`, " /minItems minItems 1 array"},
		{`{"maxItems":1}`, `[1,2]`, " /maxItems maxItems 1 array"},
		{`{"minProperties":1}`, `{}`, " /minProperties minProperties 1 object"},
		{`{"maxProperties":1}`, `{"a":1,"b":1}`, " /maxProperties maxProperties 1 object"},
		{`{"$ref":"#/$defs/a%20b","$defs":{"a b":{"type":"string"}}}`, `1`, " /$ref/type string number"},
		{`{"properties":{"a":{"$ref":"#/properties/b"},"b":{"type":"string"}}}`, `{"a":1}`, "/a /properties/a/$ref/type string number"},
		{`{"properties":{"child":{"$ref":"#"},"v":{"type":"string"}}}`, `{"child":{"child":{"v":1}}}`, "/child/child/v /properties/child/$ref/properties/child/$ref/properties/v/type string number"},
		{`{"$ref":"#/$defs/x~1y~0z","$defs":{"x/y~z":{"type":"string"}}}`, `1`, " /$ref/type string number"},
		{newest + `"$ref":"#/$defs/a","$defs":{"a":true},"type":"null"`, `1`, " /type null number"},
		{old + `"$ref":"#/definitions/a","definitions":{"a":{"type":"string"}},"type":"null"`, `1`, " /$ref/type string number"},
		{`{"$id":"https://example.com/s","$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`, `1`, " /$ref/type string number"},
		{`{"pattern":"^a","format":"date","type":"string","x-vendor":true,"nullable":true}`, `1`, " /type string number"},
		{`{"if":true,"then":false,"unevaluatedProperties":false,"type":"string"}`, `1`, " /type string number"},
	} {
		schema := c.schema
		if !strings.HasPrefix(schema, "{") && schema != "false" {
			schema = "{" + schema + "}"
		}
		s, fault := Compile([]byte(schema))
		if fault != nil {
			t.Errorf("%s: %+v", schema, fault)
			continue
		}
		m := s.Misfit([]byte(c.value))
		if m == nil {
			t.Errorf("%s passes as %s", c.value, schema)
			continue
		}
		if got := m.At + " " + m.Rule + " " + m.Expected + " " + m.Found; got != c.want {
			t.Errorf("%s as %s: %q, want %q", c.value, schema, got, c.want)
		}
		if fits, known := oracle(schema, c.value); !known || fits {
			t.Errorf("%s as %s: the library says %v, %v", c.value, schema, fits, known)
		}
	}
}

// TestNoFalseWarning: what fits, what some reader may let pass, and what is beyond a
// bound is not told.
func TestNoFalseWarning(t *testing.T) {
	for _, c := range []struct{ schema, value string }{
		// It fits.
		{`true`, `1`},
		{`{}`, `1`},
		{`{"type":"integer"}`, `1`},
		{`{"type":"integer"}`, `-1.0`},
		{`{"type":"integer"}`, `1.50e1`},
		{`{"type":"integer"}`, `9007199254740993`},
		{`{"type":"number"}`, `1`},
		{`{"type":["string","integer"]}`, `0.0`},
		{`{"const":1}`, `1.0`},
		{`{"const":0}`, `-0e5`},
		{`{"const":100}`, `1e2`},
		{`{"const":{"a":1,"b":[null]}}`, `{"b":[null],"a":1}`},
		{`{"enum":["\u00e9"]}`, `"é"`},
		{`{"minimum":1}`, `1`},
		{`{"maximum":-1e-2}`, `-0.01`},
		{`{"minLength":1}`, `1`},
		{`{"minItems":1}`, `{}`},
		{`{"required":["a"],"properties":{"a":false}}`, `[]`},
		{`{"anyOf":[{"type":"string"},true]}`, `1`},
		{`{"oneOf":[{"type":"string"},{"type":"integer"}]}`, `1`},
		// A keyword that is not known, or not run, could decide.
		{`{"not":{"pattern":"^a"}}`, `"a"`},
		{`{"not":{"format":"email"}}`, `"a"`},
		{`{"not":{"x-vendor":true}}`, `1`},
		{`{"oneOf":[{"type":"string"},{"type":"string","pattern":"^b"}]}`, `"a"`},
		{`{"oneOf":[{"const":"a"},{"type":"string"}],"discriminator":{"propertyName":"t"}}`, `"a"`},
		{`{"oneOf":[{"type":"null"},{"pattern":"^a"}]}`, `"a"`},
		{`{"not":{"oneOf":[{"type":"string"},{"pattern":"^b"}]}}`, `"b"`},
		{`{"anyOf":[{"type":"null"},{"format":"email"}]}`, `"a"`},
		{`{"not":{"anyOf":[{"type":"null"},{"format":"email"}]}}`, `"a"`},
		{`{"patternProperties":{"^b":true},"additionalProperties":false}`, `{"b":2}`},
		{`{"patternProperties":{"^b":true},"additionalProperties":{"type":"string"}}`, `{"b":2}`},
		{`{"not":{"additionalProperties":{"type":"string"},"patternProperties":{"^b":true}}}`, `{"c":1}`},
		{`{"not":{"if":{"type":"string"},"then":false}}`, `1`},
		{`{"not":{"unevaluatedProperties":false}}`, `{"a":1}`},
		{`{"not":{"$dynamicRef":"#x"}}`, `1`},
		{`{"$ref":"https://example.com/other"}`, `1`},
		{`{"$ref":"other.json#/a"}`, `1`},
		{`{"$ref":"#anchor","$defs":{"a":{"$anchor":"anchor","type":"string"}}}`, `1`},
		{`{"$ref":"#/x-own/a","x-own":{"a":{"type":"string"}}}`, `1`},
		{`{"type":"string","nullable":true}`, `null`},
		{`{"allOf":[{"type":"string"}],"nullable":true}`, `null`},
		{`{"items":[{"type":"string"}]}`, `[1]`},
		{`{"maxLength":1}`, `"👩‍👩‍👧"`},
		{`{"minLength":2}`, `"é"`},
		// The dialects differ.
		{`{"$ref":"#/$defs/a","$defs":{"a":true},"type":"string"}`, `1`},
		{`{` + old + `"$ref":"#/definitions/a","definitions":{"a":true},"type":"string"}`, `1`},
		{`{` + old + `"prefixItems":[{"type":"string"}]}`, `[1]`},
		{`{` + old + `"prefixItems":[true],"items":{"type":"string"}}`, `[1]`},
		{`{` + oldest + `"const":1}`, `2`},
		{`{` + oldest + `"properties":{"a":false}}`, `{"a":1}`},
		{`{` + oldest + `"not":{"type":"integer"}}`, `1.0`},
		{`{` + oldest + `"oneOf":[{"type":["string","integer"]},{"type":"number"}]}`, `1e0`},
		{`{"$schema":"http://json-schema.org/draft-03/schema#","type":"any"}`, `2`},
		{`{"$schema":"https://example.com/my-own","type":"string"}`, `2`},
		{`{"$schema":7,"type":"string"}`, `2`},
		{`{"$defs":{"a":{"$schema":"https://example.com/my-own"}},"type":"string"}`, `2`},
		// References start elsewhere.
		{`{"items":{"$id":"https://example.com/i","$ref":"#/$defs/a","$defs":{"a":true}},"$defs":{"a":{"type":"string"}}}`, `[1]`},
		{`{"definitions":{"x":{"id":"#x"}},"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"type":"string"}}}`, `[1]`},
		// Numbers that readers may take for another.
		{`{"const":9007199254740993}`, `9007199254740992`},
		{`{"const":0.1}`, `0.1000000000000000000001`},
		{`{"enum":[0]}`, `1e-999999999`},
		{`{"const":0}`, `1e-400`},
		{`{"type":"integer"}`, `1e-999999999`},
		{`{"type":"integer"}`, `1e99999999999999999999`},
		{`{"type":"integer"}`, `0.99999999999999999999`},
		{`{"type":"integer"}`, `1.` + strings.Repeat("0", 100) + `1`},
		{`{"minimum":1e999999999}`, `1`},
		{`{"maximum":1}`, `1e999999999`},
		{`{"minLength":1e999999999}`, `""`},
		{`{"maxItems":0.5}`, `[1]`},
		// What a secret was taken out of.
		{`{"const":"[redacted]"}`, `"hunter2"`},
		// No one value, or none at all.
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":1,"a":"x"}`},
		{`{"type":"string","type":"integer"}`, `true`},
		{`{"type":"string"}`, `"\ud800"`},
		{`{"type":"string"}`, `{`},
		{`{"type":"string"}`, `1 2`},
		{`{"type":"string"}`, ``},
		{`{"type":`, `1`},
		// Beyond a bound.
		{`{"$ref":"#"}`, `1`},
		{`{"allOf":[{"$ref":"#"}],"type":"string"}`, `1`},
		{`{"oneOf":[true,true,{"$ref":"#"}]}`, `1`},
		{strings.Repeat(`{"not":`, 100) + `true` + strings.Repeat("}", 100), `1`},
		{`{"type":"string"}`, strings.Repeat("[", 100) + strings.Repeat("]", 100)},
		{`{"type":"string"}`, "[" + strings.Repeat("0,", maxNodes) + "0]"},
		{`{"type":"integer"}`, `"` + strings.Repeat("a", MaxValue) + `"`},
		{`{"type":"integer","description":"` + strings.Repeat("a", MaxSchema) + `"}`, `"a"`},
	} {
		s, fault := Compile([]byte(c.schema))
		if fault != nil {
			t.Errorf("%.200s: %+v", c.schema, fault)
			continue
		}
		if m := s.Misfit([]byte(c.value)); m != nil {
			t.Errorf("%.200s as %.200s: %+v", c.value, c.schema, m)
		}
	}
}

// TestDepthIsBounded long before the steps are spent: each takes a piece of the stack.
func TestDepthIsBounded(t *testing.T) {
	s, _ := Compile([]byte(`{"$ref":"#"}`))
	trial := trial{schema: s, left: maxSteps}
	if got, _ := trial.judge(s.root, &node{kind: 'n'}, 0); got != maybe || !trial.over || trial.left < maxSteps-10*maxDepth {
		t.Errorf("%v with %d steps left, over: %v", got, trial.left, trial.over)
	}
}

// TestHostile schemas and values end soon, and say nothing.
func TestHostile(t *testing.T) {
	var doubling strings.Builder // each leads to the next twice
	for i := range 60 {
		fmt.Fprintf(&doubling, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%[2]d"}]},`, i, i+1)
	}
	long := strings.Repeat("a", 30<<10)
	many := "[" + strings.TrimSuffix(strings.Repeat(`"`+long+`",`, 4), ",") + "]"
	for name, c := range map[string]struct{ schema, value string }{
		"doubling":     {`{"$ref":"#/$defs/d0","$defs":{` + doubling.String() + `"d60":{"type":"string"}}}`, `"x"`},
		"recursion":    {`{"anyOf":[{"$ref":"#"},{"$ref":"#"}],"type":"string"}`, `1`},
		"long consts":  {`{"items":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/c"},`, 1000), ",") + `]},"$defs":{"c":{"not":{"const":"` + long + `"}}}}`, many},
		"long names":   {`{"items":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#/$defs/c"},`, 1000), ",") + `]},"$defs":{"c":{"not":{"required":["` + long + `"]}}}}`, `[{"` + long + `":1}]`},
		"many members": {`{"additionalProperties":{"additionalProperties":{"type":"integer"}}}`, `{"a":{` + strings.Repeat(`"b":1,`, 1) + `"c":1}}`},
		"huge number":  {`{"type":"integer","minimum":1e999999999,"multipleOf":1e-999999999}`, `1e999999999`},
		"expression":   {`{"pattern":"(a+)+$"}`, `"` + strings.Repeat("a", 100) + `!"`},
		"a file":       {`{"$ref":"file:///etc/passwd"}`, `1`},
	} {
		began := time.Now()
		s, fault := Compile([]byte(c.schema))
		if fault != nil || s == nil {
			t.Errorf("%s: %v, %+v", name, s, fault)
			continue
		}
		if m := s.Misfit([]byte(c.value)); m != nil {
			t.Errorf("%s: %+v", name, m)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}
