package broker

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/host/journal"
)

// maxToolName bounds a name that led nowhere, as it is written down: a caller may
// make it as long as a request.
const maxToolName = 256

// record writes down how a call ended, before the caller hears of it. It is the
// one place that does. What cannot be written changes nothing of what happened, so
// the answer stays.
func (x *crossing) record(ctx context.Context, reply *Reply) {
	reply.ID = x.entry.ID
	if x.entry.Digest == "" {
		x.entry.Digest = reply.Digest
	}
	end := journal.End{
		Dispatched: reply.Dispatched, Outcome: string(reply.Outcome), Reason: reply.Reason, Duration: time.Since(x.arrived),
	}
	end.ResultBytes, end.Artifacts = reply.size, reply.artifacts
	if reply.Message != nil && end.ResultBytes == 0 { // of a repeat
		end.ResultBytes = reply.Message.Size()
	}
	known := end
	if x.audit != "" {
		end.Reason = x.audit
	}
	var err error
	if x.begun {
		err = x.opts.Journal.End(&x.entry, end)
	} else {
		switch reply.Outcome {
		case Denied, Stale:
			x.entry.Fence = end.Reason
		case OK, ToolError, RPCError, Unavailable, Cancelled, Unknown:
		}
		if x.entry.Tool == "" {
			x.entry.Tool = clipText(x.opts.Cleaner.text(clipText(x.exposed, 16*maxToolName)), maxToolName)
		}
		err = x.opts.Journal.Refuse(&x.entry, end)
	}
	if err != nil { // the journal itself tells that it cannot be written, once, and makes up for it
		x.opts.Logger.Debug("how a call ended could not be written down", "call", x.entry.ID, "outcome", reply.Outcome, "error", err)
	}
	if reply.Outcome == Unknown && reply.Dispatched {
		x.opts.Logger.Warn("a call gave no usable answer and may have had its effect", "call", x.entry.ID,
			"provider", x.entry.Provider, "tool", x.entry.Tool, "instance", x.entry.Instance, "reason", reply.Reason)
	}
	// After the journal: a host that dies in between leaves an id that is not free, and
	// not one that is free while the journal has a call of it without an end.
	x.unclaim(ctx, reply, known)
}

// reasonHostFault is of a call that ended with a fault in the host itself.
const reasonHostFault = "host_fault"

// fault writes down that a call was begun and that nobody knows how it ended, for the
// host has a fault. The panic goes on, and whoever serves the request tells the caller.
func (x *crossing) fault(ctx context.Context) {
	if !x.begun {
		return
	}
	x.record(ctx, &Reply{Outcome: Unknown, Reason: reasonHostFault, Dispatched: true})
}

// clipText is the beginning of a text, whole characters alone.
func clipText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
