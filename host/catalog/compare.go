package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Change is one place in which two definitions differ.
type Change struct {
	// Path is a JSON Pointer (RFC 6901); "" is the whole definition.
	Path string
	// Old and New are the values in canonical form; nil where there is none.
	Old, New json.RawMessage
}

// maxDepth bounds how deep Compare looks for what differs; below it the whole
// value is shown.
const maxDepth = 32

// Compare says where two definitions of one tool differ: member by member, and
// element by element in arrays of one length. Where one has no canonical form the
// whole is one change. Definitions of one digest give none. The changes are in the
// order of their paths.
func Compare(old, new json.RawMessage) []Change {
	before, okOld := canonical(old)
	after, okNew := canonical(new)
	if !okOld || !okNew {
		if bytes.Equal(old, new) {
			return nil
		}
		return []Change{{Old: old, New: new}}
	}
	return compare(nil, "", before, after, maxDepth)
}

func compare(found []Change, path string, old, new json.RawMessage, depth int) []Change {
	if bytes.Equal(old, new) {
		return found
	}
	if depth > 0 && old != nil && new != nil && old[0] == new[0] {
		switch old[0] {
		case '{':
			a, b := members(old), members(new)
			names := slices.Sorted(maps.Keys(a))
			for name := range b {
				if _, both := a[name]; !both {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			for _, name := range names {
				found = compare(found, path+"/"+escapePointer(name), a[name], b[name], depth-1)
			}
			return found
		case '[':
			a, b := elements(old), elements(new)
			if len(a) == len(b) {
				for i := range a {
					found = compare(found, path+"/"+strconv.Itoa(i), a[i], b[i], depth-1)
				}
				return found
			}
		}
	}
	return append(found, Change{Path: path, Old: old, New: new})
}

// FieldDigests are short digests of a definition's members by name: 16 hex digits
// of the SHA-256 of each one's canonical form. They say which members of a changed
// definition differ where the old one is not at hand, and decide nothing. A
// definition without a canonical form has none.
func FieldDigests(raw json.RawMessage) map[string]string {
	whole, ok := canonical(raw)
	if !ok || whole[0] != '{' {
		return nil
	}
	out := map[string]string{}
	for name, value := range members(whole) {
		sum := sha256.Sum256(value)
		out[name] = hex.EncodeToString(sum[:8])
	}
	return out
}

// canonical is the form that digests are of; false where there is none.
func canonical(raw json.RawMessage) (json.RawMessage, bool) {
	value := jsontext.Value(bytes.Clone(raw))
	if err := value.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return nil, false
	}
	return json.RawMessage(value), true
}

// members are those of an object in canonical form.
func members(object json.RawMessage) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	_ = eachMember(object, func(name string, value jsontext.Value, start int64) error {
		out[name] = object[start : start+int64(len(value))]
		return nil
	}) // canonical form is an object as it should be
	return out
}

// elements are those of an array in canonical form.
func elements(array json.RawMessage) []json.RawMessage {
	dec := jsontext.NewDecoder(bytes.NewReader(array))
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	var out []json.RawMessage
	for dec.PeekKind() != jsontext.KindEndArray {
		value, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		out = append(out, json.RawMessage(bytes.Clone(value)))
	}
	return out
}

// Pointer is the path of a member of the whole definition, as Compare gives it.
func Pointer(member string) string { return "/" + escapePointer(member) }

// escapePointer makes a member's name a reference token of a JSON Pointer.
func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
