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

// definitions returns the raw tool definitions of now.
func (s *server) definitions() ([]string, error) {
	var list []string
	for _, t := range tools {
		if s.opt.tools == "" || has(s.opt.tools, t.name) {
			list = append(list, t.definition())
		}
	}
	more, err := s.extra()
	return append(list, more...), err
}

// extra are the definitions of all but the built-in tools.
func (s *server) extra() ([]string, error) {
	o := s.opt
	var list []string
	for i := range o.toolCount {
		list = append(list, fmt.Sprintf(`{"name":"filler_%04d","description":%s,"inputSchema":{"type":"object"}}`,
			i+1, quote(BigText(o.toolBytes))))
	}
	if o.toolsFile != "" {
		text, err := os.ReadFile(o.toolsFile)
		if err != nil {
			return nil, err
		}
		var raw []json.RawMessage
		if err := json.Unmarshal(text, &raw); err != nil {
			return nil, err
		}
		for _, one := range raw {
			list = append(list, string(one))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.added {
		list = append(list, `{"name":`+quote(name)+`,"inputSchema":{"type":"object"}}`)
	}
	return list, nil
}

func (c *call) listTools() {
	o := c.srv.opt
	if o.listSilent {
		return
	}
	time.Sleep(o.listDelay)
	if time.Since(c.srv.started) < o.listFailFor {
		c.fail(-32603, "the list is not ready", "")
		return
	}
	list, err := c.srv.definitions()
	if err != nil {
		c.fail(-32603, err.Error(), "")
		return
	}
	c.page("tools", list)
}

// page answers a list request with the page that its cursor names.
func (c *call) page(member string, list []string) {
	o := c.srv.opt
	var p struct {
		Cursor *string `json:"cursor"`
	}
	_ = json.Unmarshal(c.params, &p)
	from := 0
	if p.Cursor != nil {
		text, err := base64.RawURLEncoding.DecodeString(*p.Cursor)
		rest, found := strings.CutPrefix(string(text), member+" page at ")
		from, _ = strconv.Atoi(rest)
		if err != nil || !found || from > len(list) {
			c.fail(-32602, "invalid cursor", "")
			return
		}
	}
	size, next := len(list), ""
	if o.pages > 0 {
		size = o.pages
		if o.pagesFailAt > 0 && from/size+1 == o.pagesFailAt {
			c.fail(-32603, "this page is broken", "")
			return
		}
		if from+size < len(list) || o.pagesLoop {
			at := from + size
			if at >= len(list) {
				at = 0
			}
			next = `,"nextCursor":"` + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s page at %d", member, at)) + `"`
		}
	}
	part := list[from:min(from+size, len(list))]
	extra := ""
	if c.modern {
		extra = `,"ttlMs":0,"cacheScope":"private"`
	}
	c.result(`{"` + member + `":[` + strings.Join(part, ",") + `]` + next + extra + `}`)
}

// numbered answers the list request of a feature that is declared as a number
// of items, "error", "silent" or not at all.
func (c *call) numbered(declared, member string, item func(i int) string) {
	switch n, err := strconv.Atoi(declared); {
	case declared == "silent":
	case err != nil:
		c.fail(-32601, "unknown method "+c.method, "")
	default:
		list := make([]string, n)
		for i := range list {
			list[i] = item(i + 1)
		}
		c.page(member, list)
	}
}

func (c *call) listResources() {
	c.numbered(c.srv.opt.resources, "resources", func(i int) string {
		return fmt.Sprintf(`{"uri":"fake://item/%d","name":"item %d","mimeType":"text/plain"}`, i, i)
	})
}

func (c *call) listTemplates() {
	c.numbered(c.srv.opt.resources, "resourceTemplates", func(i int) string {
		return fmt.Sprintf(`{"uriTemplate":"fake://template/%d/{x}","name":"template %d"}`, i, i)
	})
}

func (c *call) listPrompts() {
	c.numbered(c.srv.opt.prompts, "prompts", func(i int) string {
		return fmt.Sprintf(`{"name":"prompt_%d","arguments":[{"name":"who","required":false}]}`, i)
	})
}

// readResource: fake://missing is an error with data, fake://blob a blob,
// fake://empty an empty text.
func (c *call) readResource() {
	var p struct {
		URI string `json:"uri"`
	}
	_ = json.Unmarshal(c.params, &p)
	content := func(rest string) string {
		return `{"contents":[{"uri":` + quote(p.URI) + rest + `}]}`
	}
	switch p.URI {
	case "fake://missing":
		c.fail(-32002, "resource not found", `{"uri":`+quote(p.URI)+`,"n":9007199254740993}`)
	case "fake://blob":
		c.result(content(`,"mimeType":"image/x-fake","blob":"` + base64.StdEncoding.EncodeToString([]byte(BigText(3000))) + `"`))
	case "fake://empty":
		c.result(content(`,"mimeType":"text/plain","text":""`))
	default:
		c.result(content(`,"mimeType":"text/plain","text":` + quote("the text of "+p.URI)))
	}
}

// getPrompt: the prompt "missing" is an error, "blocks" holds every kind of content.
func (c *call) getPrompt() {
	var p struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(c.params, &p)
	switch {
	case p.Name == "blocks":
		var messages []string
		for _, block := range blocks() {
			messages = append(messages, `{"role":"user","content":`+block+`}`)
		}
		c.result(`{"messages":[` + strings.Join(messages, ",") + `]}`)
	case !strings.HasPrefix(p.Name, "prompt_"):
		c.fail(-32602, "no such prompt", `{"name":`+quote(p.Name)+`}`)
	default:
		c.result(`{"messages":[{"role":"user","content":{"type":"text","text":` + quote(p.Name) + `}}]}`)
	}
}

func (s *server) addTool(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.added, name) {
		s.added = append(s.added, name)
	}
}
