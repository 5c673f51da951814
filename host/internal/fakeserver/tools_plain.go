package fakeserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// echo {text, ms}: after ms, args.text (or the raw arguments) as text, and the
// raw bytes of the arguments as structuredContent. Arguments that are absent
// give the text "absent" and no structuredContent.
func (c *call) echo() {
	text, ms := echoArgs(c.args)
	if !c.sleep(ms) {
		return
	}
	if c.args == nil {
		c.text("absent")
		return
	}
	if text == "" {
		text = quote(string(c.args))
	}
	c.result(`{"content":[{"type":"text","text":` + text + `}],"structuredContent":` + string(c.args) + `}`)
}

// echoRaw logs the raw params as a note and returns them as text.
func (c *call) echoRaw() {
	c.srv.log.add(DirNote, "params "+string(c.params))
	c.text(string(c.params))
}

// answerAs {result} or {error}: the result or the error object, verbatim.
// {raw}: that line as it is. Else it is echo.
func (c *call) answerAs() {
	var a struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
		Raw    string          `json:"raw"`
	}
	c.arg(&a)
	switch {
	case a.Result != nil:
		c.answer(`{"jsonrpc":"2.0","id":` + string(c.id) + `,"result":` + string(a.Result) + `}`)
	case a.Error != nil:
		c.answer(`{"jsonrpc":"2.0","id":` + string(c.id) + `,"error":` + string(a.Error) + `}`)
	case a.Raw != "":
		c.answer(a.Raw)
	default:
		c.echo()
	}
}

// slow {ms, until, progress_ms, stubborn}: answers after ms, or once there is a file
// named until, sending progress every progress_ms if the call has a token. A cancel
// ends it without an answer, unless it is stubborn. ms 0 or less and no file: never
// answers.
func (c *call) slow() {
	var a struct {
		MS       int    `json:"ms"`
		Until    string `json:"until"`
		Progress int    `json:"progress_ms"`
		Stubborn bool   `json:"stubborn"`
	}
	c.arg(&a)
	ctx := c.ctx.Done()
	if a.Stubborn {
		ctx = nil
	}
	var end, look, tick <-chan time.Time
	if a.MS > 0 {
		end = time.After(time.Duration(a.MS) * time.Millisecond)
	}
	if a.Until != "" {
		looks := time.NewTicker(10 * time.Millisecond)
		defer looks.Stop()
		look = looks.C
	}
	if a.Progress > 0 {
		ticker := time.NewTicker(time.Duration(a.Progress) * time.Millisecond)
		defer ticker.Stop()
		tick = ticker.C
	}
	for n := 1; ; {
		select {
		case <-ctx:
			c.srv.log.add(DirNote, "cancelled "+string(c.id))
			return
		case <-end:
			c.text("slept")
			return
		case <-look:
			if _, err := os.Stat(a.Until); err == nil {
				c.text("slept")
				return
			}
		case <-tick:
			c.sendProgress(strconv.Itoa(n))
			n++
		}
	}
}

func (c *call) inc() {
	c.mu.Lock()
	c.counter++
	n := c.counter
	c.mu.Unlock()
	c.both(strconv.FormatInt(n, 10), fmt.Sprintf(`{"value":%d}`, n))
}

func (c *call) get() {
	c.mu.Lock()
	n := c.counter
	c.mu.Unlock()
	c.both(strconv.FormatInt(n, 10), fmt.Sprintf(`{"value":%d}`, n))
}

// pay {then, ms}: appends the raw arguments as a line to --ledger, waits ms, then
// answers. then: "exit" (1), "kill" (SIGKILL) or "hang" instead of answering;
// "close" ends the connection (HTTP).
func (c *call) pay() {
	var a struct {
		Then string `json:"then"`
		MS   int    `json:"ms"`
	}
	c.arg(&a)
	if path := c.srv.opt.ledger; path != "" {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(file, "%s\n", c.args)
			_ = file.Sync()
			_ = file.Close()
		}
		if err != nil {
			c.fail(-32603, err.Error(), "")
			return
		}
	}
	if a.MS > 0 {
		time.Sleep(time.Duration(a.MS) * time.Millisecond)
	}
	switch a.Then {
	case "exit":
		os.Exit(1)
	case "kill":
		die()
	case "hang":
		<-c.ctx.Done()
	case "close":
		if c.drop != nil {
			c.drop()
		}
	default:
		c.text("paid")
	}
}

// env returns the environment, sorted, as text and as an object.
func (c *call) env() {
	list := os.Environ()
	slices.Sort(list)
	values := map[string]string{}
	for _, one := range list {
		name, value, _ := strings.Cut(one, "=")
		values[name] = value
	}
	object, _ := json.Marshal(values)
	c.both(strings.Join(list, "\n"), string(object))
}

// whoami says {pid, start, nonce, cwd, args}.
func (c *call) whoami() {
	cwd, _ := os.Getwd()
	args, _ := json.Marshal(os.Args[1:])
	l := c.srv.log
	c.both(l.nonce, fmt.Sprintf(`{"pid":%d,"start":%s,"nonce":%s,"cwd":%s,"args":%s}`,
		l.pid, quote(l.start), quote(l.nonce), quote(cwd), args))
}

// big {bytes} returns BigText(bytes). {frame}: a text that makes the answer's
// line exactly that many bytes long, without its newline; for legacy sessions.
func (c *call) big() {
	var a struct {
		Bytes int `json:"bytes"`
		Frame int `json:"frame"`
	}
	c.arg(&a)
	if a.Frame > 0 {
		empty := `{"jsonrpc":"2.0","id":` + string(c.id) + `,"result":{"content":[{"type":"text","text":""}]}}`
		a.Bytes = a.Frame - len(empty)
	}
	c.text(BigText(max(a.Bytes, 0)))
}

// blocks returns seven content blocks of every kind, one of them unknown.
func blocks() []string {
	image := base64.StdEncoding.EncodeToString([]byte(BigText(150 * 1024)))
	sound := base64.StdEncoding.EncodeToString([]byte(BigText(1000)))
	meta := `"annotations":{"audience":["user"],"priority":0.5,"x":1.0},"_meta":{"fake/n":9007199254740993}`
	return []string{
		`{"type":"text","text":"one",` + meta + `}`,
		`{"type":"image","data":"` + image + `","mimeType":"image/png",` + meta + `}`,
		`{"type":"audio","data":"` + sound + `","mimeType":"audio/wav",` + meta + `}`,
		`{"type":"resource","resource":{"uri":"fake://r/1","mimeType":"text/plain","text":"two"},` + meta + `}`,
		`{"type":"resource","resource":{"uri":"fake://r/2","mimeType":"image/png","blob":"` + sound + `"},` + meta + `}`,
		`{"type":"resource_link","uri":"fake://r/3","name":"three","icons":[{"src":"data:,"}],` + meta + `}`,
		`{"type":"x-new","payload":{"b":1e2,"a":[]},` + meta + `}`,
	}
}

func (c *call) blocks() { c.result(`{"content":[` + strings.Join(blocks(), ",") + `]}`) }

// errorRPC {code, message, data}: a JSON-RPC error, data verbatim.
func (c *call) errorRPC() {
	a := struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}{Code: -32602, Message: "invalid arguments"}
	c.arg(&a)
	c.fail(a.Code, a.Message, string(a.Data))
}

// toolError {text}: isError with two blocks.
func (c *call) toolError() {
	a := struct {
		Text string `json:"text"`
	}{Text: "it did not work"}
	c.arg(&a)
	c.result(`{"content":[{"type":"text","text":` + quote(a.Text) + `},{"type":"text","text":"second"}],"isError":true}`)
}
