package fakeserver

import (
	"encoding/json"
	"os"
	"time"
)

// tool is one of the built-in tools. Its arguments are described where it is
// implemented; all are optional.
type tool struct {
	name, description string
	// schema is the raw inputSchema, hints the raw annotations.
	schema, hints string
	run           func(*call)
}

const (
	anyObject = `{"type":"object"}`
	readOnly  = `{"readOnlyHint":true}`
	destroys  = `{"readOnlyHint":false,"destructiveHint":true}`
)

func (t tool) definition() string {
	text := `{"name":` + quote(t.name) + `,"description":` + quote(t.description) + `,"inputSchema":` + t.schema
	if t.hints != "" {
		text += `,"annotations":` + t.hints
	}
	return text + "}"
}

// tools are the built-in tools in the order they are listed.
var tools []tool

func init() {
	tools = []tool{
		{name: "echo", description: "Returns its arguments", schema: anyObject, hints: readOnly, run: (*call).echo},
		{name: "echo_raw", description: "Logs and returns the raw params", schema: anyObject, hints: readOnly, run: (*call).echoRaw},
		{name: "answer", description: "Answers what it is told", schema: anyObject, run: (*call).answerAs},
		{name: "slow", description: "Answers late", schema: anyObject, hints: readOnly, run: (*call).slow},
		{name: "inc", description: "Adds one to a counter", schema: anyObject, run: (*call).inc},
		{name: "get", description: "Reads the counter", schema: anyObject, hints: readOnly, run: (*call).get},
		{name: "pay", description: "Writes a line to the ledger",
			schema: `{"type":"object","properties":{"to":{"type":"string"}}}`, hints: destroys, run: (*call).pay},
		{name: "env", description: "Returns the environment", schema: anyObject, hints: readOnly, run: (*call).env},
		{name: "whoami", description: "Says which process this is", schema: anyObject, hints: readOnly, run: (*call).whoami},
		{name: "log", description: "Writes a text to a log", schema: anyObject, run: (*call).logText},
		{name: "ask", description: "Asks the client", schema: anyObject, run: (*call).askClient},
		{name: "big", description: "Returns a text of a given size", schema: anyObject, hints: readOnly, run: (*call).big},
		{name: "progress", description: "Sends progress", schema: anyObject, hints: readOnly, run: (*call).progress},
		{name: "blocks", description: "Returns every kind of content", schema: anyObject, hints: readOnly, run: (*call).blocks},
		{name: "sequence", description: "Sends other messages before its answer", schema: anyObject, run: (*call).sequence},
		{name: "error_rpc", description: "Answers with a JSON-RPC error", schema: anyObject, run: (*call).errorRPC},
		{name: "tool_error", description: "Answers with isError", schema: anyObject, run: (*call).toolError},
		{name: "malformed", description: "Answers wrongly", schema: anyObject, run: (*call).malformed},
		{name: "add_tool", description: "Adds the tool new", schema: anyObject, run: (*call).addTool},
		{name: "notify", description: "Sends a notification", schema: anyObject, run: (*call).notifyAs},
		{name: "emit", description: "Writes raw bytes", schema: anyObject, run: (*call).emit},
		{name: "exit", description: "Ends the process", schema: anyObject, run: (*call).exit},
		{name: "close_stdout", description: "Closes stdout and stays", schema: anyObject, run: (*call).closeStdout},
		{name: "close_stdin", description: "Closes stdin and stays", schema: anyObject, run: (*call).closeStdin},
		{name: "stop_reading", description: "Reads stdin no more", schema: anyObject, run: (*call).stopReading},
		{name: "spawn", description: "Starts a child process", schema: anyObject, run: (*call).spawn},
		{name: "run", description: "Runs a program", schema: anyObject, run: (*call).run},
	}
}

// callTool runs a tool. A name that is no built-in tool's is one of
// --tool-count or --tools-file, or was added: those behave like echo, or like answer if the
// arguments say so.
func (c *call) callTool() {
	o := c.srv.opt
	run := c.listed(c.name)
	if run == nil {
		c.fail(-32602, "unknown tool "+c.name, "")
		return
	}
	run(c)
	if n := c.srv.calls.Add(1); o.exitAfterCalls > 0 && n >= int64(o.exitAfterCalls) {
		os.Exit(0)
	}
}

// listed finds what runs under a name. Only what is listed may be called.
func (c *call) listed(name string) func(*call) {
	o := c.srv.opt
	for _, t := range tools {
		if t.name == name && (o.tools == "" || has(o.tools, name)) {
			return t.run
		}
	}
	list, err := c.srv.extra()
	if err != nil {
		return nil
	}
	for _, one := range list {
		var d struct {
			Name string `json:"name"`
		}
		if json.Unmarshal([]byte(one), &d) == nil && d.Name == name {
			if o.stamp {
				return func(c *call) { c.text(one) }
			}
			return builtin(name)
		}
	}
	return nil
}

// builtin is what a tool of --tools-file does: as the built-in one of its name,
// else as answer.
func builtin(name string) func(*call) {
	for _, t := range tools {
		if t.name == name {
			return t.run
		}
	}
	return (*call).answerAs
}

// arg reads the call's arguments into a struct; what does not fit stays zero.
func (c *call) arg(into any) { _ = json.Unmarshal(c.args, into) }

// text answers with one text block.
func (c *call) text(text string) {
	c.result(`{"content":[{"type":"text","text":` + quote(text) + `}]}`)
}

// both answers with a text block and structured content, raw.
func (c *call) both(text, structured string) {
	c.result(`{"content":[{"type":"text","text":` + quote(text) + `}],"structuredContent":` + structured + `}`)
}

// sleep waits; false if the call was cancelled meanwhile.
func (c *call) sleep(ms int) bool {
	if ms <= 0 {
		return c.ctx.Err() == nil
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}
