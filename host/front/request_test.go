package front

import (
	"fmt"
	"strings"
	"testing"
)

func TestC030_IdsKeepTypeAndTextAndOwner(t *testing.T) {
	b := newFakeBroker("echo", "hold")
	s := newServer(t, b)
	c := connect(t, s)
	for _, id := range []string{`0`, `"1"`, `1`, `""`, `-5`, `9007199254740993`, `"\u0061/"`} {
		if m := c.ask(call(id, "echo", `{"me":`+id+`}`, "")); string(m.ID) != id || !strings.Contains(string(m.Result), `{"me":`+id+`}`) {
			t.Errorf("id %s came back as %s with %s", id, m.ID, m.Result)
		}
	}
	// While one is in flight its id is taken; other spellings are other ids.
	c.send(call("1", "hold", "", ""))
	<-b.held
	if m := c.ask(call("1", "echo", "{}", "")); m.code() != -32600 || string(m.ID) != "1" {
		t.Errorf("second request under id 1: %s", m.text)
	}
	if m := c.ask(call(`"1"`, "echo", "{}", "")); m.Result == nil || string(m.ID) != `"1"` {
		t.Errorf(`id "1" beside id 1: %s`, m.text)
	}
	close(b.releases)
	if m := c.next(); string(m.ID) != "1" || m.Result == nil {
		t.Errorf("the first request: %s", m.text)
	}
	if m := c.ask(call("1", "echo", "{}", "")); m.Result == nil {
		t.Errorf("id 1 after its answer: %s", m.text)
	}
}

func TestC049_NumbersKeepTheirDigits(t *testing.T) {
	b := newFakeBroker("echo")
	s := newServer(t, b)
	c := connect(t, s)
	args := `{"id":9007199254740993,"max":9223372036854775807,"u":18446744073709551615,"f":1.0,"e":1e2}`
	m := c.ask(call("1", "echo", args, ""))
	if want := `{"content":[],"structuredContent":` + args + `}`; !strings.HasPrefix(string(m.Result), want) {
		t.Errorf("result %s, want %s", m.Result, want)
	}
	if got := string(b.received()[0].Request.Get("params", "arguments")); got != args {
		t.Errorf("arguments %s, want %s", got, args)
	}
}

func TestC053_AbsentEmptyAndNullArgumentsDiffer(t *testing.T) {
	b := newFakeBroker(`{"name":"q","inputSchema":{"type":"object","required":["q"]}}`)
	s := newServer(t, b)
	c := connect(t, s)
	m := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)
	if want := `{"tools":[{"name":"q","inputSchema":{"type":"object","required":["q"]}}],`; !strings.HasPrefix(string(m.Result), want) {
		t.Errorf("list %s, want %s", m.Result, want)
	}
	for i, args := range []string{"", "{}", `{"q":null}`} {
		c.ask(call(fmt.Sprint(i+2), "echo", args, ""))
		if got := string(b.received()[i].Request.Get("params", "arguments")); got != args {
			t.Errorf("arguments arrived as %q, want %q", got, args)
		}
	}
}

const serverProgress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"up-9","progress":%s,"x":1.0}}`

func TestC061_NotificationsAreNotTheAnswer(t *testing.T) {
	b := newFakeBroker("say")
	s := newServer(t, b)
	c := connect(t, s)
	log := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"n":1.50}}}`
	c.send(call("5", "say", `{"say":[`+log+`,`+fmt.Sprintf(serverProgress, "1")+`]}`, `"progressToken":"p1"`))
	if m := c.next(); m.text != log+"\n" {
		t.Errorf("first %s, want the log message as it came", m.text)
	}
	if m := c.next(); m.Method != "notifications/progress" || string(m.Params) != `{"progressToken":"p1","progress":1,"x":1.0}` {
		t.Errorf("second %s", m.text)
	}
	if m := c.next(); string(m.ID) != "5" || m.Result == nil {
		t.Errorf("third %s, want the answer", m.text)
	}
}

func TestC062_ProgressTokensAreTheClientsOwn(t *testing.T) {
	b := newFakeBroker("say")
	s := newServer(t, b)
	var say []string
	values := []string{"1", "2.50", "2.50"} // one repeats
	for _, v := range values {
		say = append(say, fmt.Sprintf(serverProgress, v))
	}
	args := `{"say":[` + strings.Join(say, ",") + `]}`
	for name, given := range map[string]string{
		"string": `"p1"`, "number": `1`, "big": `18446744073709551615`, "escaped": `"\u00e4"`, "none": "",
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, s)
			meta := ""
			if given != "" {
				meta = `"progressToken":` + given
			}
			c.send(call("1", "say", args, meta))
			if given != "" {
				for _, v := range values {
					want := `{"progressToken":` + given + `,"progress":` + v + `,"x":1.0}`
					if m := c.next(); string(m.Params) != want {
						t.Errorf("progress %s, want %s", m.Params, want)
					}
				}
			}
			if m := c.next(); string(m.ID) != "1" || m.Result == nil {
				t.Errorf("got %s, want the answer", m.text)
			}
			if m := c.ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); string(m.ID) != "2" {
				t.Errorf("after the answer: %s", m.text)
			}
		})
	}
}

func TestAFaultInAHandlerIsAnswered(t *testing.T) {
	s := newServer(t, newFakeBroker("panic", "echo"))
	c := connect(t, s)
	if m := c.ask(call("1", "panic", "", "")); m.code() != -32603 || string(m.ID) != "1" {
		t.Errorf("got %s", m.text)
	}
	if m := c.ask(call("1", "echo", "{}", "")); m.Result == nil {
		t.Errorf("afterwards: %s", m.text)
	}
}
