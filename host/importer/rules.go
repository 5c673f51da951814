package importer

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// switches find every spelling of off. What is unclear about being off means off.
func (b *builder) switches() {
	for name, offWhen := range map[string]string{"disabled": "true", "enabled": "false", "isActive": "false"} {
		n := b.n.get(name)
		if n == nil {
			continue
		}
		b.used[name] = true
		at := step(b.path, name)
		switch {
		case n.kind == boolean && n.text == offWhen:
			b.off(at + " = " + n.text)
		case n.kind != boolean:
			b.note(at, "it is %s, where true or false was expected; what is unclear about being off means off", n.kind)
			b.off(at + ": it is neither true nor false")
		}
	}
	slices.Sort(b.e.Off)
	b.lists()
}

// lists are those in which a file names the entries that it wants, or does not.
func (b *builder) lists() {
	name := lastName(b.path, b.e.Source)
	for _, l := range []struct {
		path  []string
		allow bool
	}{
		{[]string{"mcp", "excluded"}, false}, {[]string{"mcp", "allowed"}, true},
		{[]string{"disabledMcpServers"}, false}, {[]string{"disabledMcpjsonServers"}, false},
	} {
		at := strings.Join(l.path, ".")
		lists := []*node{b.root.at(l.path...)}
		if b.e.Workspace != "" {
			lists = append(lists, b.root.get("projects").get(b.e.Workspace).at(l.path...))
		}
		for _, n := range lists {
			if n == nil || n.kind == null || b.client == OpenCode {
				continue
			}
			named, clear := names(n)
			switch {
			case !clear:
				b.note(at, "it is no list of names; what is unclear about being off means off")
				b.off(at + " is no list of names")
			case !l.allow && slices.Contains(named, name):
				b.note(b.path, "it is imported disabled: %s names it", at)
				b.off(at + " names it")
			case l.allow && !slices.Contains(named, name):
				b.note(b.path, "it is imported disabled: %s does not name it", at)
				b.off(at + " does not name it")
			}
		}
	}
}

// lastName is the name that an entry has in the file, whatever it is called now.
func lastName(path, source string) string {
	if i := strings.LastIndexByte(path, '.'); i >= 0 && plainKey.MatchString(path[i+1:]) {
		return path[i+1:]
	}
	return source
}

func names(n *node) (list_ []string, clear bool) {
	if n.kind != list {
		return nil, false
	}
	for _, item := range n.items {
		if item.kind != text {
			return nil, false
		}
		list_ = append(list_, item.text)
	}
	return list_, true
}

// filters read which tools an entry lets be used, and what it lets pass unasked, which
// never becomes a permission.
func (b *builder) filters() {
	s := b.e.Server
	allow := []string{"includeTools", "enabled_tools", "enabledTools", "allowedTools", "includedTools"}
	if tools := b.n.get("tools"); tools != nil && tools.kind == list {
		allow = append(allow, "tools")
	}
	if n, path := b.field(allow[0], allow[1:]...); n != nil {
		if s.ToolsAllow = b.names(n, path); len(s.ToolsAllow) == 0 && b.e.Error == "" {
			s.ToolsAllow = []string{}
			b.note(path, "it is an empty list: no tool is exposed")
		}
	}
	if n, path := b.field("excludeTools", "disabled_tools", "disabledTools", "excludedTools"); n != nil {
		s.ToolsDeny = b.names(n, path)
	}
	for _, tool := range s.ToolsDeny {
		if slices.Contains(s.ToolsAllow, tool) {
			left := slices.DeleteFunc(slices.Clone(s.ToolsAllow), func(t string) bool { return slices.Contains(s.ToolsDeny, t) })
			b.note(b.path, "the tool `%s` is both enabled and disabled; deny wins, so what is left is [%s]", tool, strings.Join(left, ", "))
		}
	}
	for _, name := range []string{"autoApprove", "alwaysAllow", "trust", "trusted", "autoApproveTools"} {
		n := b.n.get(name)
		if n == nil {
			continue
		}
		b.used[name] = true
		what := ""
		if tools, clear := names(n); clear && len(tools) > 0 {
			what = " (" + strings.Join(tools, ", ") + ")"
		} else if n.empty() || n.text == "false" {
			continue
		}
		b.note(step(b.path, name), "what it lets pass unasked%s was NOT turned into a permission", what)
	}
	b.approvals()
}

// approvals tell of rules that ask before a tool is used: there are none here, and a
// tool that had one is to be no less guarded.
func (b *builder) approvals() {
	if n := b.n.get("default_tools_approval_mode"); n != nil {
		b.used["default_tools_approval_mode"] = true
		b.note(step(b.path, "default_tools_approval_mode"), "rules of approval are not imported; let your client ask, or grant only tools that need no asking")
	}
	tools := b.n.get("tools")
	if tools == nil || tools.kind != table {
		return
	}
	b.used["tools"] = true
	for _, m := range tools.members {
		at := step(step(b.path, "tools"), m.key)
		for _, rule := range m.value.members {
			b.note(step(at, rule.key), "rules of approval are not imported; where the tool has to be guarded, add except = [%q] to the provider or to the grants", m.key)
		}
	}
}

// clock is a member that holds a time.
type clock struct {
	n    *node
	path string
	unit unit
	// start says that it bounds the start, not a call.
	start bool
}

// timeouts read times; each client has its unit.
func (b *builder) timeouts() {
	var clocks []clock
	add := func(name string, u unit, start bool) {
		if n := b.n.get(name); n != nil && n.kind != null {
			b.used[name] = true
			clocks = append(clocks, clock{n, step(b.path, name), u, start})
		}
	}
	add("timeout", b.d.timeout, false)
	add("tool_timeout_sec", seconds, false)
	add("startup_timeout_sec", seconds, true)
	add("startup_timeout_ms", milliseconds, true)
	initUnit := unknownUnit
	if b.client == LibreChat {
		initUnit = milliseconds
	}
	add("initTimeout", initUnit, true)
	if b.client == Continue {
		add("connectionTimeout", milliseconds, true)
	}
	if options := b.n.get("requestOptions"); options != nil {
		if n := options.get("timeout"); n != nil && n.kind != null {
			clocks = append(clocks, clock{n, step(step(b.path, "requestOptions"), "timeout"), milliseconds, false})
		}
	}
	for _, c := range clocks {
		b.time(c)
	}
}

// time reads one time.
func (b *builder) time(c clock) {
	value, err := strconv.ParseFloat(c.n.text, 64)
	switch {
	case !c.n.scalar() || err != nil || !(value > 0) || value > 1e12:
		b.note(c.path, "it is no time that can be used; the default holds")
		return
	case c.unit == unknownUnit:
		b.note(c.path, "whether it is %ss or %sms is not known for this client; it was not taken over: set it in the limits block", c.n.text, c.n.text)
		return
	case c.unit == milliseconds:
		value /= 1000
	}
	of, low, high := &b.e.Server.CallTimeout, 0.01, 24*3600.0
	if c.start {
		of, low, high = &b.e.Server.StartTimeout, 0.1, 3600.0
	}
	if value < low || value > high {
		b.note(c.path, "it is outside of what is possible, %gs to %gs; the nearer of these is taken", low, high)
		value = min(max(value, low), high)
	}
	*of = strconv.FormatFloat(value, 'f', -1, 64) + "s"
}

// rest tells of what was not understood.
func (b *builder) rest() {
	for _, m := range b.n.members {
		at := step(b.path, m.key)
		switch {
		case b.used[m.key]:
		case m.key == "description" && m.value.kind == text:
			b.e.Description = m.value.text
			if len(credentials(m.value.text, "password")) > 0 {
				b.e.Description = ""
				b.note(at, "it holds a literal credential, which was not copied anywhere")
			}
		case m.key == "source" && (m.value.text == "custom" || b.client == Zed):
		case m.key == "requestOptions" || m.key == "requestInit":
			for _, o := range m.value.members {
				if o.key != "headers" && (o.key != "timeout" || m.key != "requestOptions") {
					b.note(step(at, o.key), "it is not known to the importer; ignored")
				}
			}
		default:
			b.note(at, "it is not known to the importer; ignored")
			b.forsaken(b.path, &node{kind: table, members: []member{m}})
		}
	}
}

var unpinned = regexp.MustCompile(`@latest$|:latest$`)

// windowsPath is what only Windows understands.
var windowsPath = regexp.MustCompile(`^[A-Za-z]:\\|^\\\\`)

// advise tells of what will not be as it was, or will not run.
func (b *builder) advise() {
	s := b.e.Server
	if s.Transport != Stdio || b.e.Error != "" {
		return
	}
	command, _ := s.Command.literal()
	var words []string
	for _, arg := range s.Args {
		word, _ := arg.literal()
		words = append(words, word)
	}
	if b.loop(command, words) {
		b.fail("it starts this gateway (loop)")
		return
	}
	name := strings.TrimSuffix(strings.ToLower(command[strings.LastIndexAny(command, `/\`)+1:]), ".exe")
	if slices.Contains([]string{"docker", "podman", "nerdctl"}, name) && slices.Contains(words, "run") {
		b.note(b.path, "`%s run` starts a container outside of the process tree: with --rm and --init it ends with its client", name)
		b.bareVariables(words)
	}
	for _, word := range words {
		if unpinned.MatchString(word) {
			b.info(b.path, "its version is not pinned (%s)", unpinned.FindString(word))
			break
		}
	}
	if b.opts.goos() != "windows" {
		if name == "cmd" && len(words) > 0 && strings.EqualFold(words[0], "/c") {
			b.note(b.path, "`cmd /c` and Windows paths will not run on this system; in place of `cmd /c npx …` write `npx …`")
		} else if windowsPath.MatchString(command) || slices.ContainsFunc(words, windowsPath.MatchString) {
			b.note(b.path, "Windows paths will not run on this system")
		}
	}
}

// bareVariables tells of `-e NAME`, which passes a variable on that the host does not
// give its servers.
func (b *builder) bareVariables(words []string) {
	for i, word := range words[:max(len(words)-1, 0)] {
		name := words[i+1]
		if slices.Contains(envFlags, word) && variableName.MatchString(name) && !slices.Contains(ownNames(b.e.Server.Env), name) {
			b.note(step(b.path, "args"), "-e %s passes on a variable that the server does not have here: add it to env", name)
		}
	}
}
