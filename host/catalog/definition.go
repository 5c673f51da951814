package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Why a definition is of no use.
var (
	errNoObject    = errors.New("the definition is no JSON object")
	errNoName      = errors.New("the definition has no name")
	errNameKind    = errors.New("the definition's name is no string")
	errDoubledName = errors.New("the definition has two names")
)

// definition is what is read of a raw definition.
type definition struct {
	name string
	// nameStart and nameEnd are where the value of name stands, quotes included.
	nameStart, nameEnd int64
	annotations        json.RawMessage
	effectful          bool
	// structured says that it has an outputSchema, output is that; nil where it has
	// two, of which readers may take either.
	structured bool
	output     json.RawMessage
}

// lenient reads what a server sent as it is: a doubled member somewhere inside, or
// half a surrogate pair in a description, makes no definition unusable.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// readDefinition finds the members that decide something. Everything else is not
// looked at.
func readDefinition(raw json.RawMessage) (definition, error) {
	d := definition{effectful: true}
	names, annotations, outputs := 0, 0, 0
	err := eachMember(raw, func(name string, value jsontext.Value, start int64) error {
		switch name {
		case "name":
			if names++; names > 1 {
				return errDoubledName
			}
			if value.Kind() != jsontext.KindString {
				return errNameKind
			}
			text, err := jsontext.AppendUnquote(nil, value)
			if err != nil {
				return errNameKind
			}
			d.name, d.nameStart, d.nameEnd = string(text), start, start+int64(len(value))
		case "outputSchema":
			outputs++
			d.structured, d.output = value.Kind() != jsontext.KindNull, nil
			if d.structured && outputs == 1 {
				d.output = raw[start : start+int64(len(value))]
			}
		case "annotations":
			annotations++
			d.annotations = raw[start : start+int64(len(value))]
			d.effectful = !readOnly(value)
		}
		return nil
	})
	switch {
	case err != nil:
		return definition{}, err
	case names == 0:
		return definition{}, errNoName
	case annotations > 1: // which of them counts is anyone's guess
		d.annotations, d.effectful = nil, true
	}
	return d, nil
}

// readOnly says whether annotations hold readOnlyHint true, once.
func readOnly(annotations jsontext.Value) bool {
	hints, yes := 0, false
	err := eachMember(json.RawMessage(annotations), func(name string, value jsontext.Value, _ int64) error {
		if name == "readOnlyHint" {
			hints++
			yes = value.Kind() == jsontext.KindTrue
		}
		return nil
	})
	return err == nil && hints == 1 && yes
}

// eachMember calls f with the members of an object, names unescaped, and where
// each value starts.
func eachMember(raw json.RawMessage, f func(name string, value jsontext.Value, start int64) error) error {
	dec := jsontext.NewDecoder(bytes.NewReader(raw), lenient...)
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != jsontext.KindBeginObject {
		return errNoObject
	}
	for dec.PeekKind() != jsontext.KindEndObject {
		tok, err := dec.ReadToken()
		if err != nil {
			return errNoObject
		}
		name := tok.String()
		value, err := dec.ReadValue()
		if err != nil {
			return errNoObject
		}
		if err := f(name, value, dec.InputOffset()-int64(len(value))); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return errNoObject
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return errNoObject
	}
	return nil
}

// renamed returns raw with another value of name, and every other byte as it was.
func (d definition) renamed(raw json.RawMessage, exposed string) json.RawMessage {
	if exposed == d.name {
		return raw
	}
	out := make(json.RawMessage, 0, len(raw)+len(exposed)+2)
	out = append(out, raw[:d.nameStart]...)
	out, _ = jsontext.AppendQuote(out, exposed) // fails for invalid UTF-8 only
	return append(out, raw[d.nameEnd:]...)
}

// KindTool is the kind of a tool's definition.
const KindTool = "tool"

// DigestTool is Digest of a tool's definition.
func DigestTool(raw json.RawMessage) string { return Digest(KindTool, raw) }

// Digest returns the digest of a definition: the SHA-256, in hex, of its kind, a
// line break and its canonical form, which is RFC 8785 for objects and strings with
// every number as the literal it came in. A definition that is not I-JSON
// (RFC 7493), a doubled member or half a surrogate pair in it, has no canonical
// form; its digest is that of its bytes, prefixed "raw:".
func Digest(kind string, raw json.RawMessage) string {
	prefix, canonical := Canonical(raw)
	sum := sha256.New()
	_, _ = sum.Write([]byte(kind + "\n")) // a hash takes everything
	_, _ = sum.Write(canonical)
	return prefix + hex.EncodeToString(sum.Sum(nil))
}

// Canonical is the canonical form of a value, as Digest has it, with no prefix, or the
// value as it is with the prefix "raw:" where it has none.
func Canonical(raw json.RawMessage) (prefix string, form []byte) {
	canonical := jsontext.Value(bytes.Clone(raw))
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return "raw:", raw
	}
	return "", canonical
}
