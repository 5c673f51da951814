package fakeserver

import (
	"encoding/json"
	"os"
	"strings"
	"time"
)

const (
	modernVersion = "2026-07-28"
	newestLegacy  = "2025-11-25"
	serverInfo    = `{"name":"fake","version":"1.0.0"}`

	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaLogLevel     = "io.modelcontextprotocol/logLevel"
)

var legacyVersions = []string{newestLegacy, "2025-06-18", "2025-03-26", "2024-11-05"}

// era checks that the request fits the revision the server speaks, and answers
// it if not (MCP 2026-07-28, basic: required _meta).
func (c *call) era() bool {
	o := c.srv.opt
	var version string
	_ = json.Unmarshal(c.meta[metaVersion], &version)
	c.modern = version >= modernVersion && (o.modern || o.dual)
	if !o.modern || c.method == "initialize" {
		return true
	}
	switch {
	case version == "" || c.meta[metaCapabilities] == nil:
		c.fail(-32602, "missing required _meta", "")
		return false
	case version != modernVersion:
		c.fail(-32022, "unsupported protocol version", `{"supported":`+versionList(o)+`,"requested":`+quote(version)+`}`)
		return false
	}
	return true
}

func versionList(o options) string {
	list := []string{modernVersion}
	if o.dual {
		list = append(list, legacyVersions...)
	}
	if o.supported != "" {
		list = strings.Split(o.supported, ",")
	}
	text, _ := json.Marshal(list)
	return string(text)
}

func (c *call) initialize() {
	o := c.srv.opt
	c.mu.Lock()
	discovered := c.discovered
	c.mu.Unlock()
	switch {
	case o.modern:
		c.fail(-32601, "initialize is no method of "+modernVersion, "")
		return
	case o.dual && discovered:
		c.fail(-32600, "duplicate initialize", "")
		return
	}
	time.Sleep(o.initDelay)
	if o.initError != 0 {
		c.fail(o.initError, "initialize refused", "")
		return
	}
	var p struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(c.params, &p)
	version := newestLegacy
	for _, known := range legacyVersions {
		if p.ProtocolVersion == known {
			version = known
		}
	}
	if o.version != "" {
		version = o.version
	}
	c.result(`{"protocolVersion":` + quote(version) + `,"capabilities":` + c.srv.capabilities() +
		`,"serverInfo":` + serverInfo + c.srv.instructions() + `}`)
}

func (s *server) capabilities() string {
	o := s.opt
	if o.capabilities != "" {
		return o.capabilities
	}
	text := `{"tools":{},"logging":{}`
	if o.listChanged {
		text = `{"tools":{"listChanged":true},"logging":{}`
	}
	if o.resources != "" {
		text += `,"resources":{}`
	}
	if o.prompts != "" {
		text += `,"prompts":{}`
	}
	return text + "}"
}

func (s *server) instructions() string {
	if s.opt.instructions == "" {
		return ""
	}
	return `,"instructions":` + quote(s.opt.instructions)
}

func (c *call) discover() {
	o := c.srv.opt
	switch {
	case o.silentProbe:
		_, _ = os.Stderr.WriteString(strings.Repeat(strings.Repeat("?", 63)+"\n", 96))
		return
	case !o.modern && !o.dual:
		c.fail(o.discoverError, "unknown method server/discover", "")
		return
	}
	time.Sleep(o.modernSlow)
	c.mu.Lock()
	c.discovered = true
	c.mu.Unlock()
	c.modern = true
	c.result(`{"supportedVersions":` + versionList(o) + `,"capabilities":` + c.srv.capabilities() +
		c.srv.instructions() + `,"ttlMs":0,"cacheScope":"private"}`)
}

func (c *call) setLevel() {
	var p struct {
		Level string `json:"level"`
	}
	_ = json.Unmarshal(c.params, &p)
	c.mu.Lock()
	c.level = p.Level
	c.mu.Unlock()
	c.result(`{}`)
}

// listen holds a subscription open (MCP 2026-07-28, subscriptions/listen).
func (c *call) listen() {
	if !c.modern {
		c.fail(-32601, "unknown method subscriptions/listen", "")
		return
	}
	tag := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(c.id) + `}`
	c.notify("notifications/subscriptions/acknowledged", `{"notifications":{"toolsListChanged":true},`+tag+`}`)
	c.mu.Lock()
	c.listens[string(c.id)] = c.write
	c.mu.Unlock()
	<-c.ctx.Done()
	c.mu.Lock()
	delete(c.listens, string(c.id))
	c.mu.Unlock()
}

// levels are those of RFC 5424, as MCP names them.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// message sends notifications/message if the client wants that level.
func (c *call) message(level, text string) {
	c.mu.Lock()
	wanted := c.level
	c.mu.Unlock()
	if c.modern {
		// Without the key a modern server must not send any.
		if wanted = ""; json.Unmarshal(c.meta[metaLogLevel], &wanted) != nil || wanted == "" {
			return
		}
	}
	if rank(level) >= rank(wanted) {
		c.notify("notifications/message", `{"level":`+quote(level)+`,"logger":"fake","data":`+quote(text)+`}`)
	}
}

func rank(level string) int {
	for i, one := range levels {
		if one == level {
			return i
		}
	}
	return 0
}
