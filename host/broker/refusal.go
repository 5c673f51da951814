package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
)

const (
	// maxDefinition is the longest definition that a refusal shows whole, in bytes.
	// Of a longer one it shows the fields that differ, as far as they fit.
	maxDefinition = 8 << 10
	// maxValue is how much of one field's value is shown.
	maxValue = 2 << 10
	// splitOver is the size from which a member is looked into.
	splitOver = 1 << 10
	// maxFields and maxFieldDepth bound what is remembered of a large definition.
	maxFields     = 256
	maxFieldDepth = 3
)

// stale is the ending of a call that the fence refuses, in words that tell a model
// what changed. tool is nil where it is gone.
func stale(reason string, was *item, tool *catalog.Tool, revision string) ending {
	e := ending{outcome: Stale, reason: reason, retry: RetryYes, revision: revision}
	if tool != nil {
		e.provider, e.tool, e.digest, e.annotations = tool.Provider, tool.Name, tool.Digest, tool.Annotations
	} else {
		e.provider, e.tool = was.Provider, was.Name
	}
	const nothingSent = "Nothing was sent, so it had no effect. "
	const again = " If the call is still what you want, call the tool again with arguments that fit this definition."
	switch reason {
	case reasonToolGone:
		e.cause = "it is gone: its server no longer offers it"
		e.advice = nothingSent + "Do not call it again; list the tools and use one of those."
	case reasonDefinitionChanged:
		e.cause = "its definition is no longer the one that you were shown"
		if was != nil && was.Gone {
			e.cause = "it had been gone and is there again"
		}
		e.advice = nothingSent + described(was, tool) + again
	case reasonProviderChanged:
		e.cause = "the provider stands for another server now than when you were shown it"
		e.advice = nothingSent + described(was, tool) + again
	case reasonNotDiscovered:
		e.cause = "you have not been shown its definition"
		e.advice = nothingSent + described(nil, tool) + again
	}
	return e
}

// replaced is the ending of a call whose caller relies on another process.
func replaced(tool *catalog.Tool, before, now, revision string) ending {
	cause := "the server process that you used before (" + before + ") is gone, and another one (" + now + ") has taken its place"
	return ending{
		outcome: Stale, reason: reasonInstanceReplaced, retry: RetryYes, revision: revision,
		provider: tool.Provider, tool: tool.Name, digest: tool.Digest, instance: now, annotations: tool.Annotations,
		cause:  cause,
		advice: "Nothing was sent, so it had no effect. " + stateLost + " Then call again.",
	}
}

// stateLost tells what it means that a process of a stateful provider was replaced.
const stateLost = "What the old process held, such as open pages, sessions or unsaved work, is lost; set up again what you need."

// described is the new definition as a refusal shows it.
func described(was *item, tool *catalog.Tool) string {
	if len(tool.Listed) <= maxDefinition {
		return "This is what it is now: " + string(tool.Listed) + "."
	}
	return different(was, tool)
}

// different names the fields of a large definition that differ, with their values
// as far as they fit.
func different(was *item, tool *catalog.Tool) string {
	now := split(tool.Listed)
	before := map[string]string{}
	known := was != nil && len(was.Fields) > 0
	if known {
		before = was.Fields
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Its definition has %d bytes now. ", len(tool.Listed))
	if known {
		b.WriteString("These fields of it differ from what you were shown:")
	} else {
		b.WriteString("These are its fields:")
	}
	paths := slices.Collect(maps.Keys(now))
	for path := range before {
		if _, there := now[path]; !there {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	left := maxDefinition
	for i, path := range paths {
		value, there := now[path]
		if there && before[path] == short(value) {
			continue
		}
		var line string
		switch {
		case !there:
			line = "\n- " + path + " was taken out"
		case len(value) <= maxValue:
			line = "\n- " + path + ": " + string(value)
		default:
			line = "\n- " + path + ": " + strings.ToValidUTF8(string(value[:maxValue]), "") + " (the first of its " + fmt.Sprint(len(value)) + " bytes)"
		}
		if left -= len(line); left < 0 {
			fmt.Fprintf(&b, "\n- and %d more; list the tools to see all of it", len(paths)-i)
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

// fieldsOf are short digests of the parts of a definition that is too large to be
// shown whole when it changes; nil for others. They decide nothing.
func fieldsOf(t *catalog.Tool) map[string]string {
	if len(t.Listed) <= maxDefinition {
		return nil
	}
	parts := split(t.Listed)
	out := make(map[string]string, len(parts))
	for path, value := range parts {
		out[path] = short(value)
	}
	return out
}

// short is a short digest of a value; white space that changes nothing else counts,
// for it decides nothing.
func short(value json.RawMessage) string { return checksum(value)[:12] }

// split takes a definition apart, by paths such as inputSchema.properties.to. What
// is small or no object stays whole.
func split(raw json.RawMessage) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	var walk func(path string, raw json.RawMessage, depth int)
	walk = func(path string, raw json.RawMessage, depth int) {
		var members map[string]json.RawMessage
		raw = bytes.TrimSpace(raw)
		if depth > 0 && (path == "" || len(raw) > splitOver) && json.Unmarshal(raw, &members) == nil && len(out)+len(members) <= maxFields {
			// In order: which of them are looked into must be the same every time.
			for _, name := range slices.Sorted(maps.Keys(members)) {
				walk(strings.TrimPrefix(path+"."+name, "."), members[name], depth-1)
			}
			return
		}
		out[path] = raw
	}
	walk("", raw, maxFieldDepth)
	return out
}
