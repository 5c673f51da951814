package rpc

import (
	"errors"
	"strings"
	"testing"
)

// refusal is what a refused text is answered with.
type refusal struct {
	code int
	id   ID
}

func parseBoth(t *testing.T, origin Origin, text string) (*Message, *Error) {
	t.Helper()
	m, err := Parse(origin, []byte(text))
	a := NewAssembler(origin, t.TempDir(), 0)
	for i := 0; i < len(text); i += 7 {
		if _, err := a.Write([]byte(text[i:min(i+7, len(text))])); err != nil {
			break
		}
	}
	_, other := a.Finish()
	if (err == nil) != (other == nil) || err != nil && err.Error() != other.Error() {
		t.Fatalf("%.200s: Parse says %v, the assembler %v", text, err, other)
	}
	if err == nil {
		return m, nil
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%.200s: %T is no *Error", text, err)
	}
	return nil, e
}

func wantRefused(t *testing.T, origin Origin, text string, want refusal) {
	t.Helper()
	m, err := parseBoth(t, origin, text)
	if err == nil {
		t.Errorf("%.200s: accepted as %v", text, m.Kind)
		return
	}
	if err.Code != want.code || err.ID != want.id {
		t.Errorf("%.200s: %d under id %q (%s), want %d under %q", text, err.Code, err.ID, err.Message, want.code, want.id)
	}
}

// TestEnvelopeTricks: each of these ran, or could run, something else on a
// server than the host had checked.
func TestEnvelopeTricks(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"allowed","Name":"forbidden"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"allowed","name":"forbidden"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"allowed","n\u0061me":"forbidden"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"allowed","N\u0041ME":"forbidden"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"ping","METHOD":"tools/call"}`,
		`{"jsonrpc":"2.0","id":5,"method":"ping","method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"allowed"},"paramſ":{"name":"forbidden"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"allowed"},"param\u017f":{"name":"forbidden"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","Params":{"name":"forbidden"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","taſkId":"x"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","tas` + "\u212a" + `":{}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","_META":{}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1,"progresstoken":2}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","_meta":{"x":1,"x":2}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","_meta":{"Drawbridge/digest":"x"}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","_meta":{"drawbridge/DIGEST":"x"}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","_meta":{"IO.modelcontextprotocol/anything":"x"}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","_meta":{"io.modelcontextprotocol/ProtocolVersion":"x"}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"a":1,"a":2}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","x":1,"x":2}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","result":{}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","_meta":[]}}`,
		`{"jsonrpc":"2.0","jsonRPC":"1.0","id":5,"method":"tools/call"}`,
	} {
		wantRefused(t, FromClient, text, refusal{CodeInvalidRequest, "5"})
	}
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":5,"id":6,"method":"ping"}`,
		`{"jsonrpc":"2.0","ID":6,"method":"ping"}`,
	} {
		wantRefused(t, FromClient, text, refusal{CodeInvalidRequest, ""})
	}
}

// TestEnvelopePasses: what is the server's own business passes, and as it came.
func TestEnvelopePasses(t *testing.T) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","arguments":{"a":1,"a":2,"A":3,"name":1,"Name":2}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a","_meta":{"x":{"y":1,"y":2},"X":1}}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","foo":1,"FOO":2,"params":{"foo":1,"FOO":2}}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"_meta":{"drawbridge/later":1,"drawbridge/LATER":1}}}`,
		`{"json\u0072pc":"\u0032.0","id":5,"method":"tools\/call"}`,
	} {
		m, err := parseBoth(t, FromClient, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := textOf(t, m.Payload()); got != text || m.Method != "tools/call" || m.ID != "5" {
			t.Errorf("%s became %s, method %s, id %s", text, got, m.Method, m.ID)
		}
	}
	// Below its top level a server's message is not judged.
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":5,"result":{"content":[],"Content":[],"content":[]}}`,
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"x","LEVEL":"y","level":"z"}}`,
	} {
		if _, err := parseBoth(t, FromServer, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	wantRefused(t, FromServer, `{"jsonrpc":"2.0","id":5,"result":{},"Result":{}}`, refusal{CodeInvalidRequest, "5"})
	wantRefused(t, FromServer, `{"jsonrpc":"2.0","id":5,"result":{},"result":{}}`, refusal{CodeInvalidRequest, "5"})
}

func TestC082_MalformedFrames(t *testing.T) {
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for text, want := range map[string]refusal{
		``:                        {CodeParse, ""},
		` `:                       {CodeParse, ""},
		`{"jsonrpc":"2.0","id":5`: {CodeParse, ""},
		`{"jsonrpc":"2.0","id":5,"method":"ping"}}`:              {CodeParse, ""},
		`{"jsonrpc":"2.0","id":5,"method":"pi` + "\n" + `ng"}`:   {CodeParse, ""},
		`{"jsonrpc":"2.0","id":5,"method":"pi` + "\xff" + `ng"}`: {CodeParse, ""},
		deep: {CodeInvalidRequest, ""},
		`{"jsonrpc":"2.0","id":5,"method":"x","params":` + deep + `}`:       {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"method":"x","params":{"a":` + deep + `}}`: {CodeInvalidRequest, "5"},
		`[]`: {CodeInvalidRequest, ""},
		`[{"jsonrpc":"2.0","id":5,"method":"ping"}]`: {CodeInvalidRequest, ""},
		`"x"`:                      {CodeInvalidRequest, ""},
		`1`:                        {CodeInvalidRequest, ""},
		`{}`:                       {CodeInvalidRequest, ""},
		`{"id":5,"method":"ping"}`: {CodeInvalidRequest, "5"},
		`{"jsonrpc":"1.0","id":5,"method":"ping"}`:                                               {CodeInvalidRequest, "5"},
		`{"jsonrpc":2.0,"id":5,"method":"ping"}`:                                                 {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5}`:                                                               {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"params":{}}`:                                                   {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"method":7}`:                                                    {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"method":null}`:                                                 {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"method":"` + strings.Repeat("m", 2000) + `"}`:                  {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"method":"ping","params":[]}`:                                   {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"method":"ping","params":null}`:                                 {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"method":"ping","params":"x"}`:                                  {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"result":{},"error":{"code":1,"message":""}}`:                   {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"result":[]}`:                                                   {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"result":null}`:                                                 {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"error":"x"}`:                                                   {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"error":{"code":1}}`:                                            {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"error":{"code":1.5,"message":""}}`:                             {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","id":5,"error":{"code":"1","message":""}}`:                             {CodeInvalidRequest, "5"},
		`{"jsonrpc":"2.0","result":{}}`:                                                          {CodeInvalidRequest, ""},
		`{"jsonrpc":"2.0","id":null,"result":{}}`:                                                {CodeInvalidRequest, ""},
		`{"jsonrpc":"2.0","id":5,"method":"x","params":{"` + strings.Repeat("n", 2000) + `":1}}`: {CodeInvalidRequest, "5"},
	} {
		wantRefused(t, FromClient, text, want)
	}
}

func TestC082_MalformedIDs(t *testing.T) {
	for _, id := range []string{
		`1.5`, `1e400`, `-1e400`, `1.0`, `1e2`, `{}`, `[]`, `[1]`, `true`, `false`, `null`,
		`"` + strings.Repeat("x", 10<<10) + `"`, strings.Repeat("1", 2000),
	} {
		wantRefused(t, FromClient, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`, refusal{CodeInvalidRequest, ""})
		if id != "null" {
			wantRefused(t, FromClient, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":1,"message":""}}`, refusal{CodeInvalidRequest, ""})
		}
	}
	// Ids nobody issued are ids all the same; who has no call for them drops them.
	for _, id := range []string{`-1`, `"never"`, `99999999999999999999`} {
		m, err := parseBoth(t, FromClient, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
		if err != nil || m.Kind != Result || m.ID != ID(id) {
			t.Errorf("id %s: %v, %+v", id, err, m)
		}
	}
}

func TestC030_IDsKeepTheirType(t *testing.T) {
	seen := map[ID]bool{}
	for _, id := range []string{`0`, `"1"`, `1`, `""`} {
		text := `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`
		m := mustParse(t, FromClient, text)
		if string(m.ID) != id || m.Kind != Request {
			t.Errorf("id %s became %s, %v", id, m.ID, m.Kind)
		}
		seen[m.ID] = true
		if got := textOf(t, NewResult(m.ID, nil)); got != `{"jsonrpc":"2.0","id":`+id+`,"result":{}}` {
			t.Errorf("answer to id %s is %s", id, got)
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d different ids of 4", len(seen))
	}
}

func TestC061_KindsAreNotConfused(t *testing.T) {
	for text, want := range map[string]Kind{
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`: Notification,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}`:      Notification,
		`{"jsonrpc":"2.0","method":"notifications/initialized","params":null}`:                  Notification,
		`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`:                                        Request,
		`{"id":1,"result":{"method":"x"},"jsonrpc":"2.0"}`:                                      Result,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"x"}}`:                        Failure,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000.0,"message":"x"}}`:                      Failure,
		`{"jsonrpc":"2.0","id":1,"error":{"message":1}}`:                                        Failure,
		`{"jsonrpc":"2.0","id":1,"error":{}}`:                                                   Failure,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`:                     Failure,
		`{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}`:                               Failure,
	} {
		m, err := parseBoth(t, FromServer, text)
		if err != nil || m.Kind != want {
			t.Errorf("%s: %v, %v, want %v", text, m, err, want)
		}
	}
	m, err := parseBoth(t, FromServer, `{"jsonrpc":"2.0","id":7.0,"result":{}}`)
	if err != nil || m.ID != "7" {
		t.Errorf("a float server's answer: %v, %v", m, err)
	}
	for _, text := range []string{`{"jsonrpc":"2.0","id":7,"result":[]}`, `{"jsonrpc":"2.0","id":7,"result":{},"error":null}`} {
		_, err := parseBoth(t, FromServer, text)
		if err == nil || err.ID != "7" || !err.Response {
			t.Errorf("%s: %+v", text, err)
		}
	}
}

func TestC049_DigitsStay(t *testing.T) {
	const arguments = `{"id":9007199254740993,"max":9223372036854775807,"u":18446744073709551615,"f":1.0,"e":1e2}`
	m := mustParse(t, FromClient, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":`+arguments+`}}`)
	if got := string(m.Get("params", "arguments")); got != arguments {
		t.Errorf("arguments are %s", got)
	}
	got := textOf(t, m.Edit().SetID("2").SetString("x", "params", "name").Payload())
	if want := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","arguments":` + arguments + `}}`; got != want {
		t.Errorf("sent up: %s", got)
	}
}

func TestC053_AbsentEmptyAndNullArguments(t *testing.T) {
	for _, arguments := range []string{``, `,"arguments":{}`, `,"arguments":null`, `,"arguments":{"q":null}`} {
		m := mustParse(t, FromClient, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"`+arguments+`}}`)
		if _, there := m.Find("params", "arguments"); there != (arguments != "") {
			t.Errorf("%q: found %v", arguments, there)
		}
		got := textOf(t, m.Edit().SetID("2").Set(raw("2"), "params", "_meta", "progressToken").Payload())
		want := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"` + arguments + `,"_meta":{"progressToken":2}}}`
		if got != want {
			t.Errorf("%q: sent up %s", arguments, got)
		}
	}
}

func TestBreaksGoAndNothingElse(t *testing.T) {
	const in = "\r\n{\"jsonrpc\" :\t\"2.0\",\n  \"id\":\r\n1,\n\"method\": \"tools/call\",\"params\":{\"name\":\n\"a\\n\",\"arguments\":{\n \"x\":[1,\n2 ]}}}\n"
	const want = "{\"jsonrpc\" :\t\"2.0\",  \"id\":1,\"method\": \"tools/call\",\"params\":{\"name\":\"a\\n\",\"arguments\":{ \"x\":[1,2 ]}}}"
	m, err := parseBoth(t, FromClient, in)
	if err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, m.Payload()); got != want {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	if m.Size() != int64(len(want)) {
		t.Errorf("size %d, want %d", m.Size(), len(want))
	}
	if name, ok := m.GetString("params", "name"); name != "a\n" || !ok {
		t.Errorf("name is %q", name)
	}
	if got := string(m.Get("params", "arguments")); got != `{ "x":[1,2 ]}` {
		t.Errorf("arguments are %q", got)
	}
}
