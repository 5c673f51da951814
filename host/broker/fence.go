package broker

import (
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
)

// The fence says whether a tool is what its caller was shown. It decides on values
// alone: what was shown or named, against what is there. It sends nothing, starts
// nothing and remembers nothing.

// Fence says how a caller came to know the definition that its call runs under.
type Fence string

// The ways through the fence; a refusal has its reason instead.
const (
	// Shown: the definition is the one that the caller was last shown.
	Shown Fence = "shown"
	// Named: the caller names its digest.
	Named Fence = "named"
	// FirstUse: the caller was shown nothing of the tool, names nothing, and is
	// bound to this definition from now on.
	FirstUse Fence = "first_use"
)

// Why a call is stale.
const (
	// reasonToolGone: the tool is no longer there.
	reasonToolGone = "tool_gone"
	// reasonDefinitionChanged: its definition is another one, or it had been gone.
	reasonDefinitionChanged = "definition_changed"
	// reasonProviderChanged: it is of another server.
	reasonProviderChanged = "provider_changed"
	// reasonInstanceReplaced: another process of the same server has taken over.
	reasonInstanceReplaced = "instance_replaced"
	// reasonNotDiscovered: the caller was not shown the tool, and that is asked for.
	reasonNotDiscovered = "not_discovered"
)

// auditQuarantined is in the journal for a call of a tool whose definition is not
// approved; the caller hears that there is none, or, if it was shown the approved
// one, that it is gone.
const auditQuarantined = "quarantined"

// terms are what a call is fenced on.
type terms struct {
	// was is what the caller was shown under the name, nil for nothing; lossy says
	// that it may have been shown something that is no longer known.
	was   *item
	lossy bool
	// named is the digest that the call names, "" for none.
	named string
	// required says that the provider runs only what was discovered.
	required bool
}

// judge says how a call passes to a tool, or why it does not. One of the two is "".
func (t terms) judge(tool *catalog.Tool) (Fence, string) {
	switch was := t.was; {
	case was != nil && !was.Gone && (was.Provider != tool.Provider || was.Identity != tool.Identity):
		return "", reasonProviderChanged
	case t.named != "" && t.named != tool.Digest:
		return "", reasonDefinitionChanged
	case t.named != "":
		return Named, ""
	case was == nil && (t.required || t.lossy):
		return "", reasonNotDiscovered
	case was == nil:
		return FirstUse, ""
	case was.Gone || was.Digest != tool.Digest:
		return "", reasonDefinitionChanged
	}
	return Shown, ""
}

// process is what a call knows of the process that takes it.
type process struct {
	// last is the caller's last instance of the provider, "" for none; named is the
	// one that the call names.
	last, named string
	// stateful says that a process has a state that callers rely on.
	stateful bool
}

// judge says why a call does not pass to an instance, or "", and whether the
// result has to say that the instance is another one than before.
func (p process) judge(mark string) (reason string, replaced bool) {
	switch {
	case p.named == mark:
		return "", false
	case p.named != "":
		return reasonInstanceReplaced, false
	case p.last == "" || p.last == mark:
		return "", false
	case p.stateful:
		return reasonInstanceReplaced, false
	}
	return "", true
}

// judges is the reason of judge.
func (p process) judges(mark string) string {
	reason, _ := p.judge(mark)
	return reason
}
