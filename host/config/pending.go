package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// pending is what the table holds and the host does not do yet. Take a line out
// when it comes to life.
type pending struct {
	// path names a block or attribute, without labels.
	path string
	// value limits the line to one value; "" means any but an empty list, which asks
	// for nothing.
	value string
	// refused is set for what protects, or decides what is exposed: it is an
	// error, for to go on without it would leave a gate open. All else is
	// accepted, and named among the notices.
	refused bool
	// instead says what holds for now.
	instead string
}

const (
	refuse = true
	note   = false
)

// pendings are consulted in order; the first line that fits counts.
var pendings = []pending{
	{"host.surface", "search", refuse, `Every tool is shown under its own name. Remove it, or set "direct".`},
	{"project.surface", "search", refuse, `Every tool is shown under its own name. Remove it, or set "direct".`},
	{"provider.session.scope", "client", refuse, "There is one server process for each provider. Remove it."},
	{"provider.session.scope", "call", refuse, "There is one server process for each provider. Remove it."},

	{"host.watch", "true", note, "Start the host again to have a change in force."},
	{"provider.overlap", "true", note, "A reload replaces no server."},
	{"provider.session.idle_stop", "", note, "Server processes run until the host stops."},
	{"provider.session.max_instances", "", note, "There is one server process for each provider."},
	{"provider.limits.drain_timeout", "", note, "A reload replaces no server."},
	{"project.grant.resources", "", note, "Of what servers have, only tools pass."},
	{"project.grant.prompts", "", note, "Of what servers have, only tools pass."},
	{"project.grant.methods", "", note, "A method that the host does not know is refused."},
	{"project.grant.server_requests", "", note, "A server that asks something of a client is told that clients can do none of it."},
}

// pendingFor finds the line for a value at a path.
func pendingFor(path, value string) *pending {
	for i := range pendings {
		if p := &pendings[i]; p.path == path && (p.value == "" || p.value == value) {
			return p
		}
	}
	return nil
}

// pend reports a block or value that stands in a file and is not in force.
func (d *decoder) pend(path, value string, at hcl.Range) {
	p := pendingFor(path, value)
	switch {
	case p == nil:
	case p.refused:
		d.errorf(at, fmt.Sprintf("%s is not in force yet", p.subject()), "%s", p.instead)
	default:
		d.notices = append(d.notices, caution(at, fmt.Sprintf("%s is not in force yet", p.subject()), p.instead))
	}
}

func (p *pending) subject() string {
	if p.value == "" {
		return p.path
	}
	if p.value == "true" {
		return p.path + " = true"
	}
	return fmt.Sprintf("%s = %q", p.path, p.value)
}

// isEmptyList says whether a value is a list without elements.
func isEmptyList(v cty.Value) bool {
	return (v.Type().IsTupleType() || v.Type().IsListType()) && v.LengthInt() == 0
}

// valueText is a single value as pendings name it; "" for a list.
func valueText(v cty.Value) string {
	switch v.Type() {
	case cty.Bool:
		return fmt.Sprint(v.True())
	case cty.String:
		return v.AsString()
	}
	return ""
}
