package fakeserver

import (
	"encoding/json"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/shared/jsonscan"
)

// callParams are the params of a request as far as the server looks at them.
type callParams struct {
	Name string                     `json:"name"`
	Args json.RawMessage            `json:"arguments"`
	Meta map[string]json.RawMessage `json:"_meta"`
}

// fastOver is the length above which a message is not read with encoding/json:
// its 40 ms for 1 MiB would be most of what a benchmark measures. Below it, the
// server has the habits of encoding/json, which many servers share: of two members
// the last wins, and case does not matter.
const fastOver = 16 << 10

// readMessage parses a message and the parts of its params.
func readMessage(raw []byte) (m Message, p callParams, err error) {
	if len(raw) > fastOver {
		return readFast(raw)
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, p, err
	}
	_ = json.Unmarshal(m.Params, &p) // other params are of no interest
	return m, p, nil
}

func readFast(raw []byte) (m Message, p callParams, err error) {
	scan := jsonscan.New(jsonscan.Options{Into: func(depth int, name string) bool {
		return depth == 1 && name == "params" || depth == 2 && name == "_meta"
	}})
	if err := scan.Feed(raw); err != nil {
		return m, p, err
	}
	if err := scan.End(); err != nil {
		return m, p, err
	}
	p.Meta = map[string]json.RawMessage{}
	for _, member := range scan.Members() {
		value := raw[member.Value.Start:member.Value.End]
		switch {
		case member.Depth == 3:
			p.Meta[member.Name] = value
		case member.Depth == 2 && member.Name == "name":
			_ = json.Unmarshal(value, &p.Name)
		case member.Depth == 2 && member.Name == "arguments":
			p.Args = value
		case member.Depth > 1:
		case member.Name == "id":
			m.ID = value
		case member.Name == "method":
			_ = json.Unmarshal(value, &m.Method)
		case member.Name == "params":
			m.Params = value
		case member.Name == "result":
			m.Result = value
		case member.Name == "error":
			m.Error = value
		}
	}
	return m, p, nil
}

// echoArgs finds the text, as the JSON string it came as, and ms.
func echoArgs(args []byte) (text string, ms int) {
	scan := jsonscan.New(jsonscan.Options{Keep: func(_ int, name string) bool { return name == "text" || name == "ms" }})
	if scan.Feed(args) != nil || scan.End() != nil {
		return "", 0
	}
	for _, member := range scan.Members() {
		value := string(args[member.Value.Start:member.Value.End])
		switch {
		case member.Name == "text" && member.Kind == '"':
			text = value
		case member.Name == "ms":
			ms, _ = strconv.Atoi(value)
		}
	}
	return text, ms
}
