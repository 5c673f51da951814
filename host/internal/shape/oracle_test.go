package shape

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"pgregory.net/rapid"
)

// FuzzShape: whatever a schema and a value are, they end in a verdict, and of what is
// called a fault, a misfit or a fit a library says the same.
func FuzzShape(f *testing.F) {
	for schema, value := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`: `{"a":"x"}`,
		`{"anyOf":[{"const":1},{"enum":["a",null,[1.5]]},{"not":{"type":["string","null"]}}]}`:                  `"b"`,
		`{"oneOf":[{"minimum":1,"maximum":2e1},{"minLength":1},{"maxItems":2}],"$defs":{"a":true}}`:             `15`,
		`{"prefixItems":[{"$ref":"#/$defs/a"}],"items":{"allOf":[{"type":"number"}]},"$defs":{"a":false}}`:      `[1,"a"]`,
		`{"patternProperties":{"^a":{"type":"null"}},"minProperties":1,"maxProperties":3}`:                      `{"ab":1}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[true],"$ref":"#/definitions/b"}`:         `null`,
		`{"type":"number","multipleOf":2,"format":"x","uniqueItems":true,"if":true,"then":false}`:               `1e5`,
		`{"not":{"not":{"required":["a"],"dependentRequired":{"a":["b"]}}}}`:                                    `{"a":{}}`,
		`{"properties":1,"required":["a",2],"minItems":"x","$ref":"#/no"}`:                                      `[]`,
	} {
		f.Add(schema, value)
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		if problem := compare(schema, value); problem != "" {
			t.Fatalf("%s as %s: %s", value, schema, problem)
		}
	})
}

// TestShape is FuzzShape with schemas and values that are mostly of use.
func TestShape(t *testing.T) {
	count := map[verdict]int{}
	check := func(t *rapid.T) {
		schema, value := encode(schemas(3).Draw(t, "schema")), encode(values(3).Draw(t, "value"))
		if problem := compare(schema, value); problem != "" {
			t.Fatalf("%s as %s: %s", value, schema, problem)
		}
		if s, _ := Compile([]byte(schema)); s != nil {
			got, _ := s.judge([]byte(value))
			count[got]++
		}
	}
	for range 20 { // of 100 each
		rapid.Check(t, check)
	}
	if count[no] == 0 || count[yes] == 0 || count[maybe] == 0 {
		t.Errorf("of no, maybe and yes there were %v", count)
	}
}

// compare says what the library finds otherwise, "" for nothing.
func compare(schema, value string) string {
	s, fault := Compile([]byte(schema))
	if fault != nil {
		// The library thinks of the name of a type when it sees a value, has null for
		// nothing said, and finds "not" in false.
		lax := strings.Contains(fault.Problem, "is no type") || strings.Contains(fault.Problem, "null") || strings.Contains(schema, "/not")
		if !lax && accepts(schema) {
			return "the library takes it for a schema: " + fault.At + " " + fault.Problem
		}
		return ""
	}
	got, c := s.judge([]byte(value))
	if (got == no) != (c != nil) {
		return "there is no reason, or one for nothing"
	}
	if got == maybe || !safe(s) {
		return ""
	}
	if fits, known := oracle(schema, value); known && fits != (got == yes) {
		return "the library says otherwise"
	}
	return ""
}

// oracle asks the library; known is false where it cannot say.
func oracle(schema, value string) (fits, known bool) {
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		return false, false
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return false, false
	}
	var v any
	if err := json.Unmarshal([]byte(value), &v); err != nil {
		return false, false
	}
	err = resolved.Validate(v)
	return err == nil, err == nil || !strings.Contains(err.Error(), "cannot validate version")
}

// accepts says whether the library takes a text for a schema.
func accepts(schema string) bool {
	var s jsonschema.Schema
	if json.Unmarshal([]byte(schema), &s) != nil {
		return false
	}
	_, err := s.Resolve(nil)
	return err == nil
}

// safe says whether the library may be asked: it follows references for ever, takes a
// name that differs from a keyword by case alone for it, and null for no keyword.
func safe(s *Schema) bool { return plain(s.root) && tame(s, s.root, 0, new(int)) }

// tame says whether following every reference comes to an end soon.
func tame(s *Schema, n *node, depth int, count *int) bool {
	if *count++; *count > 1000 || depth > 100 {
		return false
	}
	if n.has("$ref") || n.has("$dynamicRef") {
		if target := s.targets[n]; target == nil || !tame(s, target, depth+1, count) {
			return false
		}
	}
	return !slices.ContainsFunc(n.values, func(v *node) bool { return !tame(s, v, depth+1, count) })
}

// libraryKeywords are those that the library knows, in small letters.
var libraryKeywords = func() map[string]string {
	known := map[string]string{"type": "type", "const": "const", "items": "items"}
	for field := range reflect.TypeFor[jsonschema.Schema]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[strings.ToLower(name)] = name
	}
	return known
}()

func plain(n *node) bool {
	for i, name := range n.names {
		if known := libraryKeywords[strings.ToLower(name)]; known != "" && (known != name || n.values[i].kind == 'n' && name != "const") {
			return false
		}
	}
	return !slices.ContainsFunc(n.values, func(v *node) bool { return !plain(v) })
}

func encode(v any) string {
	b, _ := json.Marshal(v) // all that is drawn can be
	return string(b)
}

// values draws values that are alike, so that many are equal.
func values(depth int) *rapid.Generator[any] {
	leaf := rapid.SampledFrom([]any{nil, true, false, -1, 0, 1, 2, 1.5, json.Number("1.0"), json.Number("2e1"), json.Number("1e400"), json.Number("0.30000000000000004"), "", "a", "b", "ab", "é"})
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(values(depth-1), 0, 3), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), values(depth-1), 0, 3), func(m map[string]any) any { return m }),
	)
}

// schemas draws schemas of a few keywords.
func schemas(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if depth == 0 || rapid.IntRange(0, 9).Draw(t, "boolean") == 0 {
			return rapid.Bool().Draw(t, "schema")
		}
		s := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "keywords") {
			name := rapid.SampledFrom(drawn).Draw(t, "keyword")
			s[name] = says(t, name, depth-1)
		}
		if depth == 3 {
			s["$defs"] = map[string]any{"a": schemas(1).Draw(t, "a"), "b": schemas(2).Draw(t, "b")}
			if version := rapid.SampledFrom([]string{"", "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"}).Draw(t, "dialect"); version != "" {
				s["$schema"] = version
			}
		}
		return s
	})
}

var drawn = []string{"type", "type", "types", "enum", "const", "properties", "properties", "required", "additionalProperties",
	"patternProperties", "items", "prefixItems", "allOf", "anyOf", "oneOf", "not", "minimum", "maximum", "minLength", "maxLength",
	"minItems", "maxItems", "minProperties", "maxProperties", "pattern", "uniqueItems", "contains", "if", "then", "else",
	"unevaluatedProperties", "propertyNames", "multipleOf", "exclusiveMinimum", "$ref", "title"}

// says draws what a keyword of a schema says.
func says(t *rapid.T, name string, depth int) any {
	names := rapid.SampledFrom([]string{"a", "b", "c"})
	switch name {
	case "type":
		return rapid.SampledFrom(types).Draw(t, name)
	case "types":
		return "unknown keyword"
	case "enum":
		return rapid.SliceOfN(values(1), 1, 4).Draw(t, name)
	case "const":
		return values(1).Draw(t, name)
	case "properties", "patternProperties":
		return rapid.MapOfN(names, schemas(depth), 0, 3).Draw(t, name)
	case "required":
		return rapid.SliceOfN(names, 0, 2).Draw(t, name)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return rapid.SliceOfN(schemas(depth), 1, 3).Draw(t, name)
	case "minimum", "maximum", "exclusiveMinimum":
		return rapid.SampledFrom([]any{-1, 0, 1, 1.5, json.Number("2e0")}).Draw(t, name)
	case "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return rapid.IntRange(1, 3).Draw(t, name)
	case "pattern":
		return rapid.SampledFrom([]string{"^a", "b"}).Draw(t, name)
	case "uniqueItems":
		return rapid.Bool().Draw(t, name)
	case "$ref":
		return rapid.SampledFrom([]string{"#/$defs/a", "#/$defs/b", "#/$defs/a/not"}).Draw(t, name)
	case "title":
		return "a title"
	}
	return schemas(depth).Draw(t, name)
}
