package rpc

import (
	"encoding/json"
	"strings"
)

// Editor collects changes to a message; everything that is not named stays
// byte for byte. Its methods return the editor. The changes count in the order
// in which they are made. One goroutine uses an editor.
//
// A name that stands twice in an object, which below the top level only a
// server's message can have, is changed at every place, so that every reader
// sees the same.
type Editor struct {
	message *Message
	root    node
	// store has room for the nodes of the few changes that every call needs.
	store [8]node
	used  int
}

// node is what is to become of one member, or of the root object. Changes below
// it apply to what it has become.
type node struct {
	name string
	// value replaces what the message has; nil leaves that, or with removed takes
	// it out.
	value   json.RawMessage
	removed bool
	// object says that there must be an object here, since something is set in it.
	object bool
	// first and next are the children, in the order in which they were named.
	first, next *node
	prefixes    []string
}

// Edit starts an edited copy.
func (m *Message) Edit() *Editor { return &Editor{message: m} }

// SetID replaces the id; an empty one becomes null.
func (e *Editor) SetID(id ID) *Editor { return e.Set(json.RawMessage(id.literal()), "id") }

// Set replaces the value at path, or adds it as the last member of the object
// that the path's beginning names, making the objects that are missing; what
// stands there and is no object gives way to one. The value is valid JSON, which
// the editor keeps; nil is null. Setting the same path again replaces the first
// value. The path may lead deeper than Find's. With an empty path nothing happens.
func (e *Editor) Set(value json.RawMessage, path ...string) *Editor {
	if len(path) == 0 {
		return e
	}
	n := &e.root
	for _, name := range path {
		n = e.child(n, name)
		n.object = true
	}
	if value == nil {
		value = json.RawMessage("null")
	}
	n.become(unbroken(value))
	return e
}

// SetString is Set with a string as the value.
func (e *Editor) SetString(value string, path ...string) *Editor {
	return e.Set(appendQuoted(nil, value), path...)
}

// Remove takes out the member at path, with its comma; no such member is no error.
func (e *Editor) Remove(path ...string) *Editor {
	if len(path) == 0 {
		return e
	}
	e.at(path).become(nil)
	return e
}

// RemovePrefix takes out the members of the object at path whose name has the
// prefix, those set so far included.
func (e *Editor) RemovePrefix(prefix string, path ...string) *Editor {
	n := e.at(path)
	for c := n.first; c != nil; c = c.next {
		if strings.HasPrefix(c.name, prefix) {
			c.become(nil)
		}
	}
	n.prefixes = append(n.prefixes, prefix)
	return e
}

// become makes the node a value, or with nil one that is taken out, whatever
// was changed in it before.
func (n *node) become(value json.RawMessage) {
	*n = node{name: n.name, value: value, removed: value == nil, next: n.next}
}

// at returns the node at a path without asking for an object there.
func (e *Editor) at(path []string) *node {
	n := &e.root
	for _, name := range path {
		n = e.child(n, name)
	}
	return n
}

func (n *node) find(name string) *node {
	for c := n.first; c != nil; c = c.next {
		if c.name == name {
			return c
		}
	}
	return nil
}

// child returns the node of a member of n, made if need be. One that was taken
// out by its prefix before begins as removed.
func (e *Editor) child(n *node, name string) *node {
	end := &n.first
	for ; *end != nil; end = &(*end).next {
		if (*end).name == name {
			return *end
		}
	}
	if e.used == len(e.store) {
		*end = new(node)
	} else {
		*end = &e.store[e.used]
		e.used++
	}
	**end = node{name: name, removed: n.hides(name)}
	return *end
}

// hides says whether a prefix takes the member out.
func (n *node) hides(name string) bool {
	for _, p := range n.prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// deep says that there are changes below the node.
func (n *node) deep() bool { return n.first != nil || len(n.prefixes) > 0 }

// Payload returns the edited message, which reads from the message's file if it
// has one. What goes wrong with that is told when the payload is written.
func (e *Editor) Payload() Payload {
	if !e.root.deep() {
		return e.message.Payload()
	}
	return spliced(text{body: e.message.body, message: e.message}, &e.root)
}
