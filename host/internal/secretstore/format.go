package secretstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// magic is the first line of a file.
const magic = "drawbridge secret 1"

// maxFile bounds a file: a value, and a head of four short lines.
const maxFile = MaxValue + 1<<10

// entry is what a file holds.
type entry struct {
	name  string
	set   time.Time
	value []byte
}

// text is the file: four lines, an empty one, and the value's bytes. The second
// line is the SHA-256 of all that follows it.
func (e entry) text() []byte {
	rest := fmt.Appendf(nil, "name %s\nset %s\n\n", e.name, e.set.UTC().Format(time.RFC3339))
	rest = append(rest, e.value...)
	sum := sha256.Sum256(rest)
	return append(fmt.Appendf(nil, "%s\nsha256 %x\n", magic, sum), rest...)
}

// parse reads a file. Its errors hold nothing of it but a name.
func parse(text []byte) (entry, error) {
	if len(text) > maxFile {
		return entry{}, errors.New("it is too large")
	}
	first, rest, ok := bytes.Cut(text, []byte("\n"))
	if !ok || string(first) != magic {
		return entry{}, errors.New("it does not begin as one")
	}
	sum, rest, ok := line(rest, "sha256 ")
	want, err := hex.DecodeString(string(sum))
	if got := sha256.Sum256(rest); !ok || err != nil || !bytes.Equal(want, got[:]) {
		return entry{}, errors.New("its checksum does not fit")
	}
	name, rest, ok := line(rest, "name ")
	if !ok {
		return entry{}, errors.New("it has no name")
	}
	set, rest, ok := line(rest, "set ")
	at, err := time.Parse(time.RFC3339, string(set))
	if !ok || err != nil {
		return entry{}, errors.New("it has no date")
	}
	value, ok := bytes.CutPrefix(rest, []byte("\n"))
	if !ok || len(value) == 0 {
		return entry{}, errors.New("it has no value")
	}
	return entry{name: string(name), set: at, value: value}, nil
}

// line takes a line that begins with a word, and returns what follows the word.
func line(text []byte, word string) (value, rest []byte, ok bool) {
	first, rest, ok := bytes.Cut(text, []byte("\n"))
	if !ok {
		return nil, nil, false
	}
	value, ok = bytes.CutPrefix(first, []byte(word))
	return value, rest, ok
}
