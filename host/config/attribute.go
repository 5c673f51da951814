package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// attribute is one line of the table: what an attribute is called, what it may
// be, what it is when absent, and where its value goes. The functions below make
// one for each kind of value and put the default in its place at once.
type attribute struct {
	name, kind, usage string
	// fallback is the default as it would be written; "" where there is none.
	fallback string
	required bool
	// value is what stands in its place.
	value func() any
	// set checks a value and puts it in its place. An error reads after the
	// attribute's name ("must be …") and never holds the value; several mistakes
	// in one list come joined.
	set func(cty.Value, place) error
}

// body is what a block may hold.
type body struct {
	attributes []attribute
	blocks     []blockType
	// foreign is set for a body that is kept as it stands.
	foreign bool
	// check runs once all of a block that stands in a file is decoded.
	check func(*decoder, *hclsyntax.Block)
}

// blockType is a kind of block. One that is not repeated may stand once.
type blockType struct {
	name, usage string
	// label says what the label is; "" for blocks without one.
	label    string
	repeated bool
	// open gives the body of one block, its defaults in their places. A single
	// block that is absent is opened too, for its defaults.
	open func() body
}

// place is where a file stands: what its relative paths are relative to, and
// what "~/" means.
type place struct{ base, home string }

// path makes a path absolute.
func (p place) path(s string) (string, error) {
	switch {
	case s == "":
		return "", errors.New("must not be empty")
	case strings.ContainsRune(s, 0):
		return "", errors.New("must not hold a NUL character")
	case s == "~" || strings.HasPrefix(s, "~/"):
		if p.home == "" {
			return "", errors.New("begins with ~, and this process has no home folder")
		}
		return filepath.Join(p.home, s[1:]), nil
	case strings.HasPrefix(s, "~"):
		return "", errors.New("may begin with ~/ for your own home folder, and with no other ~")
	case filepath.IsAbs(s):
		return filepath.Clean(s), nil
	}
	return filepath.Join(p.base, s), nil
}

// elementError is a mistake in one element of a list.
type elementError struct {
	index int
	err   error
}

func (e *elementError) Error() string { return e.err.Error() }

// valueOf reads what a pointer points to when it is asked.
func valueOf[T any](to *T) func() any { return func() any { return *to } }

// must is set on an attribute that has no default and has to be there.
func (a attribute) must() attribute {
	a.required = true
	return a
}

// withoutDefault is for an attribute that means nothing when absent.
func withoutDefault(a attribute) attribute {
	a.fallback = ""
	return a
}

// text is a string that check, where there is one, accepts.
func text(to *string, name, fallback, usage string, check func(string) error) attribute {
	*to = fallback
	a := attribute{name: name, kind: "string", usage: usage, value: valueOf(to)}
	if fallback != "" {
		a.fallback = quote(fallback)
	}
	a.set = func(v cty.Value, _ place) error {
		s, err := stringOf(v)
		if err == nil && check != nil {
			err = check(s)
		}
		if err == nil {
			*to = s
		}
		return err
	}
	return a
}

// moment is a point in time; it is zero when absent.
func moment(to *time.Time, name, usage string) attribute {
	return attribute{name: name, kind: "time", usage: usage, value: valueOf(to), set: func(v cty.Value, _ place) error {
		s, err := stringOf(v)
		if err != nil {
			return err
		}
		t, err := parseTime(s)
		if err == nil {
			*to = t
		}
		return err
	}}
}

// oneOf is one of a few words; the first is the default. With an empty first
// word there is no default.
func oneOf(to *string, name, usage string, words ...string) attribute {
	fallback, choices := words[0], words
	if fallback == "" {
		choices = words[1:]
	}
	a := text(to, name, fallback, usage, func(s string) error { return among(s, choices) })
	a.kind = alternatives(choices)
	return a
}

func among(s string, words []string) error {
	if slices.Contains(words, s) {
		return nil
	}
	err := "must be " + alternatives(words)
	if word := nearest(s, words); word != "" {
		err += "; did you mean " + quote(word) + "?"
	}
	return errors.New(err)
}

// file is the path of a file or folder.
func file(to *string, name, usage string) attribute {
	a := attribute{name: name, kind: "path", usage: usage, value: valueOf(to)}
	a.set = func(v cty.Value, at place) error {
		s, err := stringOf(v)
		if err == nil {
			s, err = at.path(s)
		}
		if err == nil {
			*to = s
		}
		return err
	}
	return a
}

// boolean is true or false. "true" in quotes is taken for it; "false" in quotes is not, so
// that no slip turns a protection off.
func boolean(to *bool, name string, fallback bool, usage string) attribute {
	*to = fallback
	return attribute{
		name: name, kind: "bool", usage: usage, fallback: fmt.Sprint(fallback), value: valueOf(to),
		set: func(v cty.Value, _ place) error {
			switch {
			case v.Type() == cty.Bool:
				*to = v.True()
			case v.Type() == cty.String && v.AsString() == "true":
				*to = true
			default:
				return errors.New("must be true or false, without quotes")
			}
			return nil
		},
	}
}

// number is a whole number between low and high.
func number(to *int, name string, fallback, low, high int, usage string) attribute {
	*to = fallback
	return attribute{
		name: name, kind: "number", usage: usage, fallback: fmt.Sprint(fallback), value: valueOf(to),
		set: func(v cty.Value, _ place) error {
			if v.Type() != cty.Number {
				return errors.New("must be a whole number, without quotes")
			}
			f := v.AsBigFloat()
			n, accuracy := f.Int64()
			if !f.IsInt() || accuracy != 0 || n < int64(low) || n > int64(high) {
				return fmt.Errorf("must be a whole number from %d to %d", low, high)
			}
			*to = int(n)
			return nil
		},
	}
}

// duration is a span of time between low and high; without a fallback it is zero
// when absent.
func duration(to *time.Duration, name, fallback, low, high, usage string) attribute {
	return measured(to, parseDuration, name, "duration", fallback, low, high, usage)
}

// size is a number of bytes between low and high.
func size(to *int64, name, fallback, low, high, usage string) attribute {
	return measured(to, parseSize, name, "size", fallback, low, high, usage)
}

func measured[T time.Duration | int64](to *T, parse func(string) (T, error), name, kind, fallback, low, high, usage string) attribute {
	a := attribute{name: name, kind: kind, usage: usage, value: valueOf(to)}
	*to = 0
	if fallback != "" {
		*to, a.fallback = constant(parse, fallback), quote(fallback)
	}
	least, most := constant(parse, low), constant(parse, high)
	a.set = func(v cty.Value, _ place) error {
		if v.Type() == cty.Number {
			return fmt.Errorf("must be a %s in quotes with a unit, such as %q", kind, cmp.Or(fallback, low))
		}
		s, err := stringOf(v)
		if err != nil {
			return err
		}
		n, err := parse(s)
		if err != nil {
			return err
		}
		if n < least || n > most {
			return fmt.Errorf("must be from %q to %q", low, high)
		}
		*to = n
		return nil
	}
	return a
}

// constant reads a value of the table itself.
func constant[T any](parse func(string) (T, error), s string) T {
	v, err := parse(s)
	if err != nil {
		panic(fmt.Sprintf("config: bad constant %q: %v", s, err))
	}
	return v
}

// texts is a list of strings that check accepts. A list that is given and empty
// stays empty: the default is for a list that is absent.
func texts(to *[]string, name string, fallback []string, usage string, check func(string) error) attribute {
	*to = fallback
	a := attribute{name: name, kind: "list of strings", usage: usage, value: valueOf(to)}
	if fallback != nil {
		quoted := make([]string, len(fallback))
		for i, s := range fallback {
			quoted[i] = quote(s)
		}
		a.fallback = "[" + strings.Join(quoted, ", ") + "]"
	}
	a.set = func(v cty.Value, at place) error {
		if ty := v.Type(); !ty.IsTupleType() && !ty.IsListType() {
			return errors.New("must be a list of strings, in square brackets")
		}
		var wrong []error
		list := make([]string, 0, v.LengthInt())
		for i, element := range v.AsValueSlice() {
			s, err := stringOf(element)
			if err == nil && check != nil {
				err = check(s)
			}
			if err != nil {
				wrong = append(wrong, &elementError{i, err})
			}
			list = append(list, s)
		}
		if wrong == nil {
			*to = list
		}
		return errors.Join(wrong...)
	}
	return a
}

// stringOf takes a string and nothing else: a number or bool without quotes is a
// mistake where a word is asked for.
func stringOf(v cty.Value) (string, error) {
	if v.IsNull() || v.Type() != cty.String {
		return "", errors.New("must be a string, in quotes")
	}
	return restore(v.AsString()), nil
}

func quote(s string) string { return `"` + s + `"` }

// alternatives joins words as people do: "a", "b" or "c".
func alternatives(words []string) string {
	var b strings.Builder
	for i, word := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(quote(word))
	}
	return b.String()
}

// home is the user's home folder, "" where there is none.
func home() string {
	dir, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return dir
}
