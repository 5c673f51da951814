package fakeserver

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strconv"
	"time"
)

// logText {text, to, level, parts, gap_ms}: writes the text to "stderr" (the
// default), to "stdout" as a line of its own, or as notifications/message
// ("message"). In parts writes to stderr, gap_ms apart.
func (c *call) logText() {
	a := struct {
		Text  string `json:"text"`
		To    string `json:"to"`
		Level string `json:"level"`
		Parts int    `json:"parts"`
		Gap   int    `json:"gap_ms"`
	}{Level: "info", Parts: 1}
	c.arg(&a)
	switch a.To {
	case "message":
		c.message(a.Level, a.Text)
	case "stdout":
		if stdio.out != nil {
			stdio.out.raw([]byte(a.Text + "\n"))
		}
	default:
		text := a.Text + "\n"
		for part := max(a.Parts, 1); part > 0; part-- {
			n := len(text) / part
			_, _ = os.Stderr.WriteString(text[:n])
			text = text[n:]
			time.Sleep(time.Duration(a.Gap) * time.Millisecond)
		}
	}
	c.text("logged")
}

// askClient {method, params}: sends a request (elicitation/create) to the
// client and returns its whole answer as text.
func (c *call) askClient() {
	a := struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}{
		Method: "elicitation/create",
		Params: json.RawMessage(`{"message":"what?","requestedSchema":{"type":"object","properties":{"answer":{"type":"string"}}}}`),
	}
	c.arg(&a)
	m, err := c.ask(c.ctx, c.write, a.Method, string(a.Params))
	if err != nil {
		return
	}
	text, _ := json.Marshal(m)
	c.text(string(text))
}

// sendProgress sends progress if the call carries a token; value is raw.
func (c *call) sendProgress(value string) {
	if c.token != nil {
		c.notify("notifications/progress", `{"progressToken":`+string(c.token)+`,"progress":`+value+`,"total":100}`)
	}
}

// progress {n, gap_ms, repeat, after, token}: n progress messages, the second value
// twice if repeat, one more after the answer if after, under another token
// if token is given (raw JSON).
func (c *call) progress() {
	a := struct {
		N      int             `json:"n"`
		Gap    int             `json:"gap_ms"`
		Repeat bool            `json:"repeat"`
		After  bool            `json:"after"`
		Token  json.RawMessage `json:"token"`
	}{N: 3}
	c.arg(&a)
	if a.Token != nil {
		c.token = a.Token
	}
	for i := 1; i <= a.N; i++ {
		if !c.sleep(a.Gap) {
			return
		}
		c.sendProgress(strconv.Itoa(i))
		if a.Repeat && i == 2 {
			c.sendProgress(strconv.Itoa(i))
		}
	}
	c.text("done")
	if a.After {
		c.sendProgress(strconv.Itoa(a.N + 1))
	}
}

// sequence sends a message, progress and an unrelated request before its
// answer. The client's reply to the request is logged as a note.
func (c *call) sequence() {
	c.notify("notifications/message", `{"level":"info","data":"before the answer"}`)
	c.sendProgress("1")
	reply := c.send(c.write, "ping", "")
	c.text("the answer")
	go func() {
		text, _ := json.Marshal(<-reply)
		c.srv.log.add(DirNote, "reply "+string(text))
	}()
}

// malformed {kind}: an answer that is wrong.
//
//	duplicate  the result twice, as two members of one object
//	folded     a member "Result" beside "result"
//	not_json   the answer without its last brace
//	no_version without jsonrpc
//	both       with result and error
//	empty      with neither
//	twice      the answer, two times
//	other_id   under an id that nobody asked with, then rightly
//	batch      as an array of one
//	newline    with an escaped and a real newline inside the text
func (c *call) malformed() {
	var a struct {
		Kind string `json:"kind"`
	}
	c.arg(&a)
	head, result := `{"jsonrpc":"2.0","id":`+string(c.id), `"result":{"content":[{"type":"text","text":"one"}]}`
	switch a.Kind {
	case "duplicate":
		c.answer(head + `,` + result + `,"result":{"content":[{"type":"text","text":"two"}]}}`)
	case "folded":
		c.answer(head + `,` + result + `,"Result":{"content":[{"type":"text","text":"two"}]}}`)
	case "not_json":
		c.answer(head + `,` + result)
	case "no_version":
		c.answer(`{"id":` + string(c.id) + `,` + result + `}`)
	case "both":
		c.answer(head + `,` + result + `,"error":{"code":-1,"message":"x"}}`)
	case "empty":
		c.answer(head + `}`)
	case "twice":
		c.answer(head + `,` + result + `}`)
		c.answer(head + `,` + result + `}`)
	case "other_id":
		c.answer(`{"jsonrpc":"2.0","id":"nobody's",` + result + `}`)
		c.answer(head + `,` + result + `}`)
	case "batch":
		c.answer("[" + head + `,` + result + `}]`)
	case "newline":
		c.answer(head + `,"result":{"content":[{"type":"text","text":"a\n` + "\n" + `b"}]}}`)
	default:
		c.fail(-32602, "unknown kind", "")
	}
}

// addTool {name, after_ms}: adds a tool (new) and says so, after_ms later.
func (c *call) addTool() {
	a := struct {
		Name  string `json:"name"`
		After int    `json:"after_ms"`
	}{Name: "new"}
	c.arg(&a)
	c.srv.addTool(a.Name)
	c.later(a.After, func() { c.srv.broadcast("notifications/tools/list_changed") })
	c.text("added")
}

// notifyAs {method, params, after_ms}: sends a notification (tools/list_changed)
// that belongs to no call; with params, it goes on the call's own stream.
func (c *call) notifyAs() {
	a := struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		After  int             `json:"after_ms"`
	}{Method: "notifications/tools/list_changed"}
	c.arg(&a)
	c.later(a.After, func() {
		if a.Params != nil {
			c.notify(a.Method, string(a.Params))
			return
		}
		c.srv.broadcast(a.Method)
	})
	c.text("notified")
}

func (c *call) later(ms int, do func()) {
	if ms <= 0 {
		do()
		return
	}
	time.AfterFunc(time.Duration(ms)*time.Millisecond, do)
}

// emit {b64, to, answer}: writes raw bytes to stdout or "stderr", then answers
// unless answer is false.
func (c *call) emit() {
	a := struct {
		B64    string `json:"b64"`
		To     string `json:"to"`
		Answer bool   `json:"answer"`
	}{Answer: true}
	c.arg(&a)
	text, err := base64.StdEncoding.DecodeString(a.B64)
	switch {
	case err != nil:
		c.fail(-32602, err.Error(), "")
		return
	case a.To == "stderr":
		_, _ = os.Stderr.Write(text)
	case stdio.out != nil:
		stdio.out.raw(text)
	}
	if a.Answer {
		c.text("written")
	}
}
