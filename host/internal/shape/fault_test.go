package shape

import "testing"

// TestFaults: what surely is no schema, and where.
func TestFaults(t *testing.T) {
	for schema, want := range map[string]string{
		`7`:                                 " is a number, and must be an object or a boolean",
		`["a"]`:                             " is an array, and must be an object or a boolean",
		`{"type":"integre"}`:                "/type is or holds a name that is no type: there are array, boolean, integer, null, number, object, string",
		`{"type":["string",null]}`:          "/type is or holds null, and must be the name of a type or an array of such names",
		`{"type":{"a":1}}`:                  "/type is or holds an object, and must be the name of a type or an array of such names",
		`{"properties":["a"]}`:              "/properties is an array, and must be an object",
		`{"properties":{"a":{"type":"x"}}}`: "/properties/a/type is or holds a name that is no type: there are array, boolean, integer, null, number, object, string",
		`{"properties":{"a/b":"string"}}`:   "/properties/a~1b is a string, and must be an object or a boolean",
		`{"required":true}`:                 "/required is a boolean, and must be an array",
		`{"required":["a",1]}`:              "/required holds a number, and must hold strings",
		`{"enum":"a"}`:                      "/enum is a string, and must be an array",
		`{"items":1}`:                       "/items is a number, and must be an object or a boolean",
		`{"additionalProperties":"no"}`:     "/additionalProperties is a string, and must be an object or a boolean",
		`{"allOf":{"type":"string"}}`:       "/allOf is an object, and must be an array",
		`{"anyOf":[true,null]}`:             "/anyOf/1 is null, and must be an object or a boolean",
		`{"minLength":"1"}`:                 "/minLength is a string, and must be a number",
		`{"pattern":1}`:                     "/pattern is a number, and must be a string",
		`{"$ref":1}`:                        "/$ref is a number, and must be a string",
		`{"$ref":"#/$defs/a"}`:              "/$ref leads to nothing in the schema",
		`{"$ref":"#/type","type":"string"}`: "/$ref is a string, and must be an object or a boolean",
		`{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"not":{"type":"x"}}}}`: "/items/$ref/not/type is or holds a name that is no type: there are array, boolean, integer, null, number, object, string",
	} {
		s, fault := Compile([]byte(schema))
		if fault == nil || s != nil {
			t.Errorf("%s: %v, %+v", schema, s, fault)
			continue
		}
		if got := fault.At + " " + fault.Problem; got != want {
			t.Errorf("%s:\n%s\nwant\n%s", schema, got, want)
		}
	}
}

// TestNoFalseFault: what some reader takes for a schema is none of our business.
func TestNoFalseFault(t *testing.T) {
	for _, schema := range []string{
		`true`, `false`, `{}`, `{"type":[]}`, `{"enum":[]}`, `{"anyOf":[]}`, `{"x":"y"}`,
		`{"items":[true]}`, `{"exclusiveMinimum":true}`, `{"pattern":"("}`, `{"if":1}`,
		`{"$defs":{"unused":{"type":"x"}}}`,
		`{"$ref":"#/definitions/a","type":"x","definitions":{"a":true}}`,
		`{"$ref":"other#/a"}`, `{"$ref":"#a"}`, `{"$ref":"#/%zz"}`, `{"$ref":"#/$defs/a%20b"}`, `{"$ref":"#/"}`,
		`{"items":{"$id":"x","$ref":"#/$defs/a"}}`,
		`{"enum":[{"type":"x","$ref":"#/nowhere"}],"default":{"type":"x"}}`,
		`{"properties":{"type":{"type":"string"},"$ref":{"type":"string"}}}`,
		`{"$schema":"http://json-schema.org/draft-03/schema#","type":"any","required":true}`,
		`{` + old + `"prefixItems":1}`,
		`{"type":"[redacted]"}`,
		`{"type":"x","type":"y"}`,
	} {
		if _, fault := Compile([]byte(schema)); fault != nil {
			t.Errorf("%s: %+v", schema, fault)
		}
	}
}
