package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func mustParse(t testing.TB, origin Origin, text string) *Message {
	t.Helper()
	m, err := Parse(origin, []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func textOf(t testing.TB, p Payload) string {
	t.Helper()
	b, err := p.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != p.Len() {
		t.Fatalf("Len is %d, text is %d bytes", p.Len(), len(b))
	}
	return string(b)
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func TestEdit(t *testing.T) {
	const call = `{"jsonrpc":"2.0", "id":"a" ,"method":"tools/call","params":{"name":"x","arguments":{"n":9007199254740993}}}`
	tests := []struct {
		name, in string
		edit     func(*Editor)
		want     string
	}{
		{"nothing", call, func(*Editor) {}, call},
		{"id", call, func(e *Editor) { e.SetID("7") },
			`{"jsonrpc":"2.0", "id":7 ,"method":"tools/call","params":{"name":"x","arguments":{"n":9007199254740993}}}`},
		{"no id", call, func(e *Editor) { e.SetID("") },
			`{"jsonrpc":"2.0", "id":null ,"method":"tools/call","params":{"name":"x","arguments":{"n":9007199254740993}}}`},
		{"name, id and token at once", call, func(e *Editor) {
			e.SetID("7").SetString("y", "params", "name").Set(raw("7"), "params", "_meta", "progressToken").Set(raw("true"), "params", "_meta", "k/x")
		}, `{"jsonrpc":"2.0", "id":7 ,"method":"tools/call","params":{"name":"y","arguments":{"n":9007199254740993},"_meta":{"progressToken":7,"k/x":true}}}`},
		{"params missing", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, func(e *Editor) { e.Set(raw("1"), "params", "_meta", "progressToken") },
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":1}}}`},
		{"params empty", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{ } }`, func(e *Editor) { e.Set(raw("1"), "params", "_meta", "progressToken") },
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":1} } }`},
		{"twice", call, func(e *Editor) { e.Set(raw("1"), "id").Set(raw("2"), "id") },
			`{"jsonrpc":"2.0", "id":2 ,"method":"tools/call","params":{"name":"x","arguments":{"n":9007199254740993}}}`},
		{"remove first", `{"jsonrpc":"2.0", "id":1 , "method":"ping"}`, func(e *Editor) { e.Remove("jsonrpc") }, `{"id":1 , "method":"ping"}`},
		{"remove middle", `{"jsonrpc":"2.0", "id":1 , "method":"ping"}`, func(e *Editor) { e.Remove("id") }, `{"jsonrpc":"2.0" , "method":"ping"}`},
		{"remove last", `{"jsonrpc":"2.0", "id":1 , "method":"ping" }`, func(e *Editor) { e.Remove("method") }, `{"jsonrpc":"2.0", "id":1 }`},
		{"remove neighbours", `{"jsonrpc":"2.0", "id":1 , "method":"ping" }`, func(e *Editor) { e.Remove("jsonrpc").Remove("id") }, `{"method":"ping" }`},
		{"remove all", `{ "jsonrpc":"2.0", "id":1 , "method":"ping" }`, func(e *Editor) { e.Remove("jsonrpc").Remove("method").Remove("id") }, `{  }`},
		{"remove all and add", `{ "jsonrpc":"2.0", "id":1 , "method":"ping" }`, func(e *Editor) {
			e.Remove("jsonrpc").Remove("method").Remove("id").Set(raw("[]"), "x")
		}, `{ "x":[] }`},
		{"remove last and add", `{"jsonrpc":"2.0", "id":1 , "method":"ping" }`, func(e *Editor) { e.Remove("method").Set(raw("1"), "x") },
			`{"jsonrpc":"2.0", "id":1,"x":1 }`},
		{"remove absent", call, func(e *Editor) {
			e.Remove("params", "_meta", "x").Remove("nothing", "x").RemovePrefix("drawbridge/", "params", "_meta")
		}, call},
		{"remove prefix", `{"jsonrpc":"2.0","method":"x","params":{"_meta":{"drawbridge/a":1,"b":2,"drawbridge/c":3,"drawbridge/d":4}}}`,
			func(e *Editor) { e.RemovePrefix("drawbridge/", "params", "_meta") },
			`{"jsonrpc":"2.0","method":"x","params":{"_meta":{"b":2}}}`},
		{"remove prefix, then set", `{"jsonrpc":"2.0","method":"x","params":{"_meta":{"d/a":{"o":1},"b":2,"d/c":3}}}`,
			func(e *Editor) {
				e.Set(raw("0"), "params", "_meta", "d/z").RemovePrefix("d/", "params", "_meta").Set(raw("1"), "params", "_meta", "d/a", "n").Set(raw("9"), "params", "_meta", "d/e")
			},
			`{"jsonrpc":"2.0","method":"x","params":{"_meta":{"d/a":{"n":1},"b":2,"d/e":9}}}`},
		{"escaped names", `{"jsonrpc":"2.0","method":"x","params":{"n\u0061me":"a","_met\u0061":{"drawbridge\/x":1}}}`,
			func(e *Editor) { e.SetString("b", "params", "name").RemovePrefix("drawbridge/", "params", "_meta") },
			`{"jsonrpc":"2.0","method":"x","params":{"n\u0061me":"b","_met\u0061":{}}}`},
		{"within a set value", call, func(e *Editor) { e.Set(raw(` {"a":1} `), "params").Set(raw("2"), "params", "b").Remove("params", "a") },
			`{"jsonrpc":"2.0", "id":"a" ,"method":"tools/call","params": {"b":2} }`},
		{"deeper than recorded", call, func(e *Editor) { e.Set(raw("2"), "params", "arguments", "o", "p").Remove("params", "arguments", "n") },
			`{"jsonrpc":"2.0", "id":"a" ,"method":"tools/call","params":{"name":"x","arguments":{"o":{"p":2}}}}`},
		{"no object in the way", `{"jsonrpc":"2.0","id":1,"result":{"_meta":null,"x":[1]}}`,
			func(e *Editor) { e.Set(raw("1"), "result", "_meta", "k").Remove("result", "x", "y") },
			`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"k":1},"x":[1]}}`},
		{"doubled in a server's result", `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"d/x":1},"_meta":{"d/x":1,"y":2}}}`,
			func(e *Editor) { e.RemovePrefix("d/", "result", "_meta") },
			`{"jsonrpc":"2.0","id":1,"result":{"_meta":{},"_meta":{"y":2}}}`},
		{"breaks in a set value", call, func(e *Editor) { e.Set(raw("{\r\n\"a\":\n1}"), "params") },
			`{"jsonrpc":"2.0", "id":"a" ,"method":"tools/call","params":{"a":1}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := mustParse(t, FromServer, test.in).Edit()
			test.edit(e)
			for range 2 {
				if got := textOf(t, e.Payload()); got != test.want {
					t.Fatalf("\n got %s\nwant %s", got, test.want)
				}
			}
		})
	}
}

// object is the model that edits are held against: members in order, and
// everything that is no object as its text.
type object struct{ members []*entry }

type entry struct {
	name  string
	value any // *object or string
}

func modelOf(t interface{ Fatalf(string, ...any) }, text []byte) any {
	text = bytes.Trim(text, " \t\r\n")
	if text[0] != '{' {
		return string(text)
	}
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	o := &object{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		s := name.String()
		v, err := d.ReadValue()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		o.members = append(o.members, &entry{s, modelOf(t, v.Clone())})
	}
	return o
}

func (o *object) set(value any, path []string) {
	there := false
	for _, m := range o.members {
		if m.name != path[0] {
			continue
		}
		there = true
		if len(path) == 1 {
			m.value = value
			continue
		}
		if _, ok := m.value.(*object); !ok {
			m.value = &object{}
		}
		m.value.(*object).set(value, path[1:]) // just made
	}
	if !there {
		o.members = append(o.members, &entry{path[0], &object{}})
		o.set(value, path)
	}
}

func (o *object) each(path []string, f func(*object)) {
	if len(path) == 0 {
		f(o)
		return
	}
	for _, m := range o.members {
		if sub, ok := m.value.(*object); ok && m.name == path[0] {
			sub.each(path[1:], f)
		}
	}
}

func (o *object) drop(match func(string) bool) {
	var left []*entry
	for _, m := range o.members {
		if !match(m.name) {
			left = append(left, m)
		}
	}
	o.members = left
}

// same compares by name: a member that was taken out and set again may stand
// where it stood, and as often.
func same(a, b any) bool {
	oa, ok := a.(*object)
	if !ok {
		return reflect.DeepEqual(a, b)
	}
	ob, ok := b.(*object)
	if !ok {
		return false
	}
	va, vb := oa.byName(), ob.byName()
	if len(va) != len(vb) {
		return false
	}
	for name, want := range vb {
		got := va[name]
		if len(want) == 1 {
			for len(want) < len(got) {
				want = append(want, want[0])
			}
		}
		if len(got) != len(want) {
			return false
		}
		for i := range got {
			if !same(got[i], want[i]) {
				return false
			}
		}
	}
	return true
}

func (o *object) byName() map[string][]any {
	values := map[string][]any{}
	for _, m := range o.members {
		values[m.name] = append(values[m.name], m.value)
	}
	return values
}

var editNames = []string{"params", "result", "_meta", "name", "d/a", "d/b", "é", "x"}

func genName(t *rapid.T) string {
	name := rapid.SampledFrom(editNames).Draw(t, "name")
	quoted, _ := jsontext.AppendQuote(nil, name)
	if rapid.IntRange(0, 4).Draw(t, "escape") == 0 {
		var b strings.Builder
		b.WriteByte('"')
		for _, r := range name {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		b.WriteByte('"')
		return b.String()
	}
	return string(quoted)
}

func genSpace(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "", "", " ", "\t ", "\n", "\r\n  "}).Draw(t, "space")
}

func genValue(t *rapid.T, depth int) string {
	if depth > 0 && rapid.IntRange(0, 2).Draw(t, "object") > 0 {
		var members []string
		for range rapid.IntRange(0, 4).Draw(t, "members") {
			members = append(members, genSpace(t)+genName(t)+genSpace(t)+":"+genSpace(t)+genValue(t, depth-1)+genSpace(t))
		}
		if members == nil {
			return "{" + genSpace(t) + "}"
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	return rapid.SampledFrom([]string{`1`, `-1.50e+3`, `null`, `true`, `"s"`, `"a\"}\\"`, `[]`, `[ 1, {"x":[{}]} ]`, `9007199254740993`, `"é😀"`}).Draw(t, "value")
}

// TestEditModel applies random changes to random messages, and to the model.
func TestEditModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := `{"jsonrpc":"2.0",` + genSpace(t) + `"method":"m"`
		for _, top := range []string{"params", "other"} {
			if rapid.Bool().Draw(t, top) {
				v := genValue(t, 3)
				if top == "params" && v[0] != '{' {
					v = "{" + genSpace(t) + "}"
				}
				in += genSpace(t) + `,"` + top + `":` + v
			}
		}
		in += genSpace(t) + "}"
		m, err := Parse(FromServer, []byte(in))
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		clean := textOfRapid(t, m.Payload())
		model, _ := modelOf(t, []byte(clean)).(*object)
		e := m.Edit()
		var log []string
		for range rapid.IntRange(0, 6).Draw(t, "edits") {
			log = append(log, genEdit(t, e, model))
		}
		got := textOfRapid(t, e.Payload())
		if strings.ContainsAny(got, "\r\n") {
			t.Fatalf("breaks in %q", got)
		}
		if !jsontext.Value(got).IsValid(jsontext.AllowDuplicateNames(true)) {
			t.Fatalf("%s\n%v\ngives invalid %s", in, log, got)
		}
		if !same(modelOf(t, []byte(got)), model) {
			t.Fatalf("%s\n%v\ngives %s", in, log, got)
		}
		if len(log) == 0 && got != clean {
			t.Fatalf("no edit, but\n%s became\n%s", clean, got)
		}
	})
}

func textOfRapid(t *rapid.T, p Payload) string {
	b, err := p.Append(nil)
	if err != nil || int64(len(b)) != p.Len() {
		t.Fatalf("%v, %d bytes of %d", err, len(b), p.Len())
	}
	return string(b)
}

func genEdit(t *rapid.T, e *Editor, model *object) string {
	var path []string
	if rapid.IntRange(0, 3).Draw(t, "in params") > 0 {
		path = append(path, "params")
	}
	for range rapid.IntRange(0, 3).Draw(t, "path") {
		path = append(path, rapid.SampledFrom(editNames).Draw(t, "step"))
	}
	kind := rapid.SampledFrom([]string{"set", "set", "remove", "prefix"}).Draw(t, "edit")
	if len(path) == 0 && kind != "prefix" {
		path = []string{"x"}
	}
	switch kind {
	case "set":
		value := string(unbroken([]byte(genValue(t, 2))))
		e.Set(raw(value), path...)
		model.set(modelOf(t, []byte(value)), path)
		return fmt.Sprint("set ", path, value)
	case "remove":
		last := len(path) - 1
		e.Remove(path...)
		model.each(path[:last], func(o *object) { o.drop(func(name string) bool { return name == path[last] }) })
	default:
		e.RemovePrefix("d/", path...)
		model.each(path, func(o *object) { o.drop(func(name string) bool { return strings.HasPrefix(name, "d/") }) })
	}
	return fmt.Sprint(kind, " ", path)
}
