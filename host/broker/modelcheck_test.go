package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// version is all that a caller may be refused for, of one tool: what is there, and what
// was last listed, for a tool may go and come again before the host has heard of it.
func (m *model) version(s *modelServer, tool string) string {
	return fmt.Sprint(s.identity, s.digest(tool), s.listed[tool], s.marks, s.up, m.granted[s.slug+"/"+tool])
}

// call is a caller that calls, and what must be true of it.
func (m *model) call(c *modelCaller, s *modelServer, tool string, naming string, lost bool) {
	exposed := s.slug + "_" + tool
	known, knows := c.knows[exposed]
	meta, name := "", ""
	switch naming {
	case "what it knows":
		name = known.digest
	case "what is there":
		name = s.digest(tool)
	case "nonsense":
		name = strings.Repeat("0", 64)
	}
	if name != "" {
		meta = `,"_meta":{"drawbridge/digest":"` + name + `"}`
	}
	request, err := rpc.Parse(rpc.FromClient, []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"`+exposed+`"`+meta+`}}`))
	if err != nil {
		m.rt.Fatal(err)
	}
	before, unsaid, version := len(s.calls), s.unsaid, m.version(s, tool)
	disturbed := s.during != nil
	reply := m.broker.Call(context.Background(), Call{Caller: c.Caller, Request: request})
	delivered := reply.Deliver(func() error {
		if lost {
			return errGone
		}
		return nil
	}) == nil
	ran := s.calls[before:]
	switch reply.Outcome {
	case OK:
		if len(ran) != 1 || !m.may(c, s.slug, tool) {
			m.rt.Fatalf("%s ran %d times, granted %v", exposed, len(ran), m.may(c, s.slug, tool))
		}
		m.tally.ran++
		m.judge(c, s, exposed, known, knows, name, reply, ran[0], unsaid, disturbed, delivered)
	case Stale, Denied, Unavailable:
		if len(ran) != 0 {
			m.rt.Fatalf("%s was refused as %s and ran", exposed, reply.Reason)
		}
		m.refused(c, s, tool, reply, version, disturbed || naming == "nonsense", delivered)
	case ToolError, RPCError, Cancelled, Unknown:
		m.rt.Fatalf("%s ended as %s", exposed, reply.Outcome)
	}
	s.during = nil
}

// judge looks at a call that ran: what it ran under is what its caller was shown or
// named, but for the two windows.
func (m *model) judge(c *modelCaller, s *modelServer, exposed string, known modelTool, knows bool, name string, reply Reply, stamp string, unsaid, disturbed, delivered bool) {
	want := known.digest
	switch {
	case name != "":
		want = name
		m.tally.named++
	case !knows:
		if s.provider.Required {
			m.rt.Fatalf("%s ran without having been discovered", exposed)
		}
		want = reply.Digest
		m.tally.first++
		// To be bound is not to be shown: what another session of this client was shown
		// stays what the client knows.
		bound, kind := modelTool{s.identity, reply.Digest}, m.kinds[c.Principal+"/"+c.Client.Name]
		c.knows[exposed] = bound
		if _, shown := kind[exposed]; !shown {
			kind[exposed] = bound
		}
	}
	if knows && known.identity != s.identity && known.digest != "" {
		m.rt.Fatalf("%s ran on another server than was shown", exposed)
	}
	if last := c.met[s.slug]; s.provider.Stateful && last != "" && last != s.Mark() {
		m.rt.Fatalf("%s ran on %s; its caller knows %s", exposed, s.Mark(), last)
	} else if last != "" && last != s.Mark() && reply.Replaced != last {
		m.rt.Fatalf("%s ran on %s instead of %s, and its result says %q", exposed, s.Mark(), last, reply.Replaced)
	}
	if delivered || c.met[s.slug] == "" {
		c.met[s.slug] = s.Mark()
	}
	if want != reply.Digest {
		m.rt.Fatalf("%s ran as %.8s, its caller knows %.8s", exposed, reply.Digest, want)
	}
	if stamp == want {
		return
	}
	effect := !strings.HasSuffix(exposed, "_look")
	switch {
	case s.provider.BeforeCall && effect && disturbed:
		m.tally.between++
	case s.provider.BeforeCall && effect:
		m.rt.Fatalf("%s ran under %.8s, its caller knows %.8s, and nothing changed since the re-read", exposed, stamp, want)
	case unsaid, s.unsaid, !s.announces && (!effect || m.tally.steps-s.listedAt < 5 || disturbed):
		m.tally.unheard++
	default:
		m.rt.Fatalf("%s ran under %.8s, its caller knows %.8s, and the host had heard of the change", exposed, stamp, want)
	}
}

// refused looks at a call that did not run.
func (m *model) refused(c *modelCaller, s *modelServer, tool string, reply Reply, version string, odd, delivered bool) {
	exposed := s.slug + "_" + tool
	var d struct{ Reason, Digest, Revision string }
	if err := json.Unmarshal(reply.Err.Data, &d); err != nil {
		m.rt.Fatal(err)
	}
	if reply.Outcome == Denied {
		m.tally.denied++
		if want := unknownTool(exposed).Err; reply.Err.Message != want.Message || string(reply.Err.Data) != string(want.Data) {
			m.rt.Fatalf("a denied call tells more than one of no tool: %s", reply.Err.Message)
		}
		if m.may(c, s.slug, tool) && s.digest(tool) != "" && s.listed[tool] == s.defs[tool] {
			m.rt.Fatalf("%s is there and granted, and was denied", exposed)
		}
		return
	}
	if reply.Outcome == Unavailable {
		m.rt.Fatalf("%s is unavailable: %s", exposed, reply.Err.Message)
	}
	m.tally.stale++
	if !m.may(c, s.slug, tool) {
		m.rt.Fatalf("%s is not granted, and its caller is told %s", exposed, reply.Err.Message)
	}
	// The process and the definition are two things that change.
	of := exposed
	if d.Reason == reasonInstanceReplaced {
		of = "the process of " + exposed
	}
	if c.refused[of] == version && !odd {
		m.rt.Fatalf("%s was refused twice, and nothing had changed: %s", exposed, reply.Err.Message)
	}
	if !delivered {
		m.tally.lost++
		return
	}
	delete(c.refused, of)
	if !odd && d.Digest == s.digest(tool) { // else there is another change, of which it has not been told
		c.refused[of] = m.version(s, tool)
	}
	switch d.Reason {
	case reasonInstanceReplaced:
		if c.met[s.slug] == s.Mark() {
			m.rt.Fatalf("%s was refused for %s, which its caller has been told of", exposed, s.Mark())
		}
		c.met[s.slug] = s.Mark()
		return
	case reasonToolGone:
		m.learn(c, exposed, modelTool{identity: c.knows[exposed].identity})
		return
	}
	t, there := m.broker.View(c.Caller).Find(exposed)
	if !there || t.Digest != d.Digest || !strings.Contains(reply.Err.Message, string(t.Listed)) {
		m.rt.Fatalf("the refusal of %s does not show its definition: %s", exposed, reply.Err.Message)
	}
	if m.broker.View(c.Caller).Revisions()[s.slug] != d.Revision {
		m.rt.Fatalf("the refusal of %s carries revision %.8s", exposed, d.Revision)
	}
	if strings.Contains(reply.Err.Message, stateLost) {
		c.met[s.slug] = s.Mark()
	}
	m.learn(c, exposed, modelTool{s.identity, d.Digest})
}
