package rpc

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

var fuzzSeeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":1,"a":2},"_meta":{"progressToken":7}}}`,
	`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","N\u0061me":"y"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"drawbridge/digest":1,"drawbridge/diGest":2}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"x","paramſ":{}}`,
	"{\"jsonrpc\":\"2.0\",\r\n\"id\":1.0,\n\"result\":{\n\"_meta\":{\"a\":1,\"a\":2}}}\n",
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32000.0,"message":"x"}}`,
	`{"jsonrpc":"2.0","id":1e400,"error":{"code":-32000,"message":"x","data":{}}}`,
	`{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}`, `[{}]`, `{}`, `{"jsonrpc":"2.0","method":"x","params":[]}`,
	`{"json\u0072pc":"\u0032.0","method":"\ud83d","params":{"a":"\ud83d"}}`,
	`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"b":2,"c":3},"x":[1,{"y":null}]}`,
}

// fields are the members of an object in the model, by name; ok is false if one
// occurs twice or imitates one of the names.
func fields(o *object, names []string, prefixes ...string) (map[string]any, bool) {
	fields, ok := map[string]any{}, true
	for _, m := range o.members {
		_, twice := fields[m.name]
		ok = ok && !twice
		fields[m.name] = m.value
		for _, name := range names {
			ok = ok && (m.name == name || !strings.EqualFold(m.name, name))
		}
		for _, p := range prefixes {
			// A character that folds to an ASCII letter may be longer than it.
			for i := range m.name + " " {
				if strings.EqualFold(m.name[:i], p) && m.name[:i] != p {
					ok = false
				}
			}
		}
	}
	return fields, ok
}

func definedNames(n names) []string {
	var list []string
	for _, name := range n.folded {
		list = append(list, name)
	}
	return list
}

func isID(v any, origin Origin) bool {
	s, _ := v.(string)
	switch {
	case len(s) > maxID || s == "":
		return false
	case s[0] == '"':
		return true
	case s[0] != '-' && (s[0] < '0' || s[0] > '9'):
		return false
	case !strings.ContainsAny(s, ".eE"):
		return true
	}
	f, err := strconv.ParseFloat(s, 64)
	return origin == FromServer && err == nil && f == float64(int64(f)) && f >= -1<<53 && f <= 1<<53
}

// oracle says, by another way, whether a valid text is a message, and its kind.
func oracle(t *testing.T, origin Origin, text []byte) (Kind, bool) {
	top, ok := modelOf(t, text).(*object)
	if !ok {
		return 0, false
	}
	m, ok := fields(top, definedNames(topNames))
	version, _ := m["jsonrpc"].(string)
	if !ok || version == "" || version[0] != '"' || string(mustUnquote(version)) != "2.0" {
		return 0, false
	}
	has := func(name string) bool { _, there := m[name]; return there }
	if has("method") {
		method, _ := m["method"].(string)
		ok := method != "" && method[0] == '"' && len(method) <= maxMethod && !has("result") && !has("error")
		ok = ok && (!has("id") || isID(m["id"], origin))
		params, isObject := m["params"].(*object)
		ok = ok && (!has("params") || isObject || origin == FromServer && m["params"] == "null")
		if isObject && origin == FromClient {
			p, distinct := fields(params, definedNames(paramNames))
			meta, there := p["_meta"]
			ok = ok && distinct
			if there {
				metaObject, isObject := meta.(*object)
				ok = ok && isObject
				if isObject {
					_, distinct := fields(metaObject, definedNames(metaNames), "io.modelcontextprotocol/", "drawbridge/")
					ok = ok && distinct
				}
			}
		}
		if has("id") {
			return Request, ok
		}
		return Notification, ok
	}
	if has("result") == has("error") {
		return 0, false
	}
	if origin == FromClient {
		if params, isObject := m["params"].(*object); isObject {
			if _, ok := fields(params, definedNames(paramNames)); !ok {
				return 0, false
			}
			if meta, isObject := paramMeta(params); isObject {
				if _, ok := fields(meta, definedNames(metaNames), "io.modelcontextprotocol/", "drawbridge/"); !ok {
					return 0, false
				}
			}
		}
	}
	noID := !has("id") || m["id"] == "null"
	if has("result") {
		_, isObject := m["result"].(*object)
		return Result, isObject && !noID && isID(m["id"], origin)
	}
	failure, isObject := m["error"].(*object)
	ok = isObject && (noID || isID(m["id"], origin))
	if ok && origin == FromClient {
		ok = clientErrorOK(failure)
	}
	return Failure, ok
}

func paramMeta(params *object) (*object, bool) {
	for _, m := range params.members {
		if m.name == "_meta" {
			meta, ok := m.value.(*object)
			return meta, ok
		}
	}
	return nil, false
}

func clientErrorOK(o *object) bool {
	f, _ := fields(o, nil) // the last of two
	code, _ := f["code"].(string)
	message, _ := f["message"].(string)
	return code != "" && len(code) <= 20 && (code[0] == '-' || code[0] >= '0' && code[0] <= '9') &&
		!strings.ContainsAny(code, ".eE") && message != "" && message[0] == '"'
}

func mustUnquote(s string) []byte {
	b, _ := jsontext.AppendUnquote(nil, s)
	return b
}

func withoutBreaks(text []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\n"), nil), []byte("\r"), nil)
}

func fuzzParse(f *testing.F, origin Origin) {
	for _, s := range fuzzSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse(origin, bytes.Clone(text))
		valid := utf8.Valid(text) && jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%q: %T", text, err)
		}
		if !valid {
			if err == nil {
				t.Fatalf("%q: accepted", text)
			}
			return
		}
		if e != nil && e.Code == CodeParse && !strings.Contains(e.Message, "surrogate") {
			t.Fatalf("%q: %v, but jsontext takes it", text, err)
		}
		if e != nil && e.cause != nil {
			return // over a limit of the scan, or a name that cannot be told from others
		}
		if bytes.Contains(text, []byte(`\ud`)) || bytes.Contains(text, []byte(`\uD`)) {
			return // the oracle cannot read half a pair
		}
		kind, want := oracle(t, origin, text)
		if want != (err == nil) || err == nil && m.Kind != kind {
			t.Fatalf("%q: %v, the oracle says %v %v", text, err, want, kind)
		}
		if err == nil {
			checkMessage(t, m, text)
		}
	})
}

func checkMessage(t *testing.T, m *Message, text []byte) {
	clean := withoutBreaks(text)
	if got := textOf(t, m.Payload()); got != string(clean) {
		t.Fatalf("%q became %q", text, got)
	}
	for _, name := range m.Names() {
		at, ok := m.Find(name)
		if !ok || !jsontext.Value(clean[at.Start:at.End]).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			t.Fatalf("%q: %s is at %v", text, name, at)
		}
	}
	again, err := Parse(FromServer, clean)
	if err != nil || again.Kind != m.Kind || again.ID != m.ID || again.Method != m.Method {
		t.Fatalf("%q parsed again: %v", text, err)
	}
}

func FuzzParseClient(f *testing.F) { fuzzParse(f, FromClient) }

func FuzzParseServer(f *testing.F) { fuzzParse(f, FromServer) }

// FuzzAssembler holds any way of cutting a message into chunks against Parse.
func FuzzAssembler(f *testing.F) {
	for i, s := range fuzzSeeds {
		f.Add([]byte(s), uint64(i))
	}
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		origin := FromClient + Origin(seed%2)
		want, wantErr := Parse(origin, text)
		a := NewAssembler(origin, "", 0)
		r := rand.New(rand.NewPCG(seed, 2))
		for range 2 { // the second message is not to see anything of the first
			for rest := text; len(rest) > 0; {
				n := min(len(rest), 1+r.IntN(1+r.IntN(40)))
				a.Write(bytes.Clone(rest[:n])) // Finish returns it too
				rest = rest[n:]
			}
			got, err := a.Finish()
			compareMessages(t, text, got, err, want, wantErr)
		}
	})
}

func compareMessages(t *testing.T, text []byte, got *Message, err error, want *Message, wantErr error) {
	t.Helper()
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: %v, Parse says %v", text, err, wantErr)
	}
	if err != nil {
		var a, b *Error
		if !errors.As(err, &a) || !errors.As(wantErr, &b) || a.Code != b.Code || a.Message != b.Message || a.ID != b.ID || a.Response != b.Response {
			t.Fatalf("%q: %+v, Parse says %+v", text, a, b)
		}
		return
	}
	if got.Kind != want.Kind || got.ID != want.ID || got.Method != want.Method || textOf(t, got.Payload()) != textOf(t, want.Payload()) {
		t.Fatalf("%q: %+v, Parse says %+v", text, got, want)
	}
	if len(got.members) != len(want.members) {
		t.Fatalf("%q: %d members, Parse says %d", text, len(got.members), len(want.members))
	}
	for i := range got.members {
		if got.members[i] != want.members[i] {
			t.Fatalf("%q: %+v, Parse says %+v", text, got.members[i], want.members[i])
		}
	}
}

// FuzzEdit changes foreign messages: what comes out is valid, has what was set,
// has no more what was removed, and is the same for a body in memory and in a file.
func FuzzEdit(f *testing.F) {
	for i, s := range fuzzSeeds {
		f.Add([]byte(s), "params", "name", uint16(i*37))
	}
	f.Fuzz(func(t *testing.T, text []byte, a, b string, plan uint16) {
		m, err := Parse(FromServer, text)
		if err != nil || !utf8.ValidString(a) || !utf8.ValidString(b) || len(a)+len(b) > 100 {
			return
		}
		edit := func(m *Message) *Editor {
			e := m.Edit()
			if plan&1 != 0 {
				e.SetID("7")
			}
			if plan&2 != 0 {
				e.Remove(a, b)
			}
			if plan&4 != 0 {
				e.RemovePrefix(b, a)
			}
			if plan&8 != 0 {
				e.Set(raw(`{"x":1}`), a)
			}
			if plan&16 != 0 {
				e.Set(raw("2"), "params", "_meta", a)
			}
			if plan&32 != 0 {
				e.Remove("params", "_meta", b)
			}
			return e.Set(raw(`"set"`), a, b)
		}
		got := textOf(t, edit(m).Payload())
		again, err := Parse(FromServer, []byte(got))
		if err != nil && a != "jsonrpc" && a != "id" && a != "method" && a != "params" && a != "result" && a != "error" &&
			topNames.imitated(a) == "" {
			t.Fatalf("%q became %q: %v", text, got, err)
		}
		if err == nil && (a == "params" || a == "result" || a == "error") {
			if s, _ := again.GetString(a, b); s != "set" {
				t.Fatalf("%q became %q, and %q in %q is %q", text, got, b, a, s)
			}
		}
		if !jsontext.Value(got).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) || strings.ContainsAny(got, "\r\n") {
			t.Fatalf("%q became %q", text, got)
		}
		file, err := unlinked("")
		if err != nil {
			t.Fatal(err)
		}
		spooled := *m
		spooled.body = body{file: file, size: m.body.size}
		defer spooled.Close() // a test's
		if _, err := file.Write(m.body.mem); err != nil {
			t.Fatal(err)
		}
		if other := textOf(t, edit(&spooled).Payload()); other != got {
			t.Fatalf("%q became %q in memory and %q in a file", text, got, other)
		}
	})
}
