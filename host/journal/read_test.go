package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// sample is a file with a header and some calls.
func sample(t *testing.T, calls int) []byte {
	t.Helper()
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	for range calls {
		e := entry(j)
		if err := j.Begin(e); err != nil {
			t.Fatal(err)
		}
		if err := j.End(e, good); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, fileName(testHost, 1)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// found reads lines and gives their offsets, and how many bytes were damaged.
func found(t *testing.T, text []byte) (at map[int64]bool, damaged, rest int64) {
	t.Helper()
	at = map[int64]bool{}
	next, rest, err := readLines(bytes.NewReader(text), 0, seen{
		line:   func(offset int64, _ record) error { at[offset] = true; return nil },
		damage: func(d damage) error { damaged += d.size; return nil },
	})
	if err != nil || next+rest != int64(len(text)) {
		t.Fatalf("read to %d, and %d behind it, of %d: %v", next, rest, len(text), err)
	}
	return at, damaged, rest
}

// starts are the offsets of the lines of a text that is whole.
func starts(text []byte) []int64 {
	var at []int64
	var n int64
	for l := range bytes.Lines(text) {
		at = append(at, n)
		n += int64(len(l))
	}
	return at
}

// TestDamageAnywhere changes each byte of a file in turn: what is lost is the line
// that it is in, and none where it is the end of one.
func TestDamageAnywhere(t *testing.T) {
	text := sample(t, 3)
	lines := starts(text)
	for i := range text {
		for _, to := range []byte{text[i] ^ 0x01, 0, '\n'} {
			if to == text[i] {
				continue
			}
			bad := bytes.Clone(text)
			bad[i] = to
			at, damaged, rest := found(t, bad)
			for n, start := range lines {
				end := int64(len(text))
				if n+1 < len(lines) {
					end = lines[n+1]
				}
				if within := int64(i) >= start && int64(i) < end-1; at[start] == within {
					t.Fatalf("byte %d became %q: the line at %d was found: %v", i, to, start, at[start])
				}
			}
			if text[i] != '\n' && damaged+rest == 0 {
				t.Fatalf("byte %d became %q, and nobody says so", i, to)
			}
		}
	}
}

// TestCutAnywhere cuts a file at each byte: what stands before the cut is found, and
// where it goes on with another line that is found, too.
func TestCutAnywhere(t *testing.T) {
	text := sample(t, 2)
	lines := starts(text)
	whole := text[lines[1]:lines[2]]
	for i := range text {
		at, _, rest := found(t, text[:i])
		cut, last := 0, int64(0)
		for n, start := range lines {
			end := int64(len(text))
			if n+1 < len(lines) {
				end = lines[n+1]
			}
			last = end
			if int64(i) >= end-1 { // the end of the line may be missing
				cut++
			} else {
				last = start
				break
			}
		}
		if len(at) != cut {
			t.Fatalf("cut at %d: %d lines were found, want %d", i, len(at), cut)
		}
		if int64(i) > last && rest == 0 {
			t.Fatalf("cut at %d: nobody says that a line was cut", i)
		}
		for _, between := range []string{"", "\n"} {
			at, _, _ = found(t, append(append(bytes.Clone(text[:i]), between...), whole...))
			if want := int64(i + len(between)); !at[want] {
				t.Fatalf("cut at %d, and going on: the line at %d was not found", i, want)
			}
		}
	}
}

// TestForeignBytes: what is no line at all, and long, is passed by.
func TestForeignBytes(t *testing.T) {
	line := strings.Split(string(sample(t, 1)), "\n")[1] + "\n"
	for name, junk := range map[string]string{
		"zeros":      strings.Repeat("\x00", 5*maxLine),
		"zeros, few": strings.Repeat("\x00", 700),
		"braces":     strings.Repeat(`{"`, maxLine),
		"checksums":  strings.Repeat(crcHead, 3*maxLine/len(crcHead)),
		"lines":      strings.Repeat("\n\n", 1000),
		"text":       "not a journal\n",
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(line + junk + line + junk + line)
			at, damaged, rest := found(t, text)
			if len(at) != 3 {
				t.Errorf("%d lines were found, want 3", len(at))
			}
			if want := int64(2 * len(junk)); name != "lines" && (damaged > want || damaged < want-4) || rest != 0 {
				t.Errorf("%d bytes damaged, %d behind; want about %d and none", damaged, rest, want)
			}
		})
	}
}

// TestReadInPieces: how a file comes does not matter.
func TestReadInPieces(t *testing.T) {
	text := sample(t, 5)
	n := 0
	if _, _, err := readLines(iotest.OneByteReader(bytes.NewReader(text)), 0, seen{
		line:   func(int64, record) error { n++; return nil },
		damage: func(d damage) error { return fmt.Errorf("damage at %d", d.at) },
	}); err != nil || n != 11 {
		t.Errorf("%d lines, want 11 (%v)", n, err)
	}
	if _, _, err := readLines(iotest.ErrReader(os.ErrDeadlineExceeded), 0, seen{}); err == nil {
		t.Error("the reader's error is lost")
	}
}

func FuzzParseLine(f *testing.F) {
	j := &Journal{idHead: "a-"}
	for _, add := range []func(*line){
		func(l *line) { l.begin(entry(j)) },
		func(l *line) { l.end(entry(j), good) },
		func(l *line) { l.call(entry(j), good) },
		func(l *line) { l.header(header{Version: 1}) },
		func(l *line) { l.gap(gap{Refusals: 1}) },
		func(l *line) { l.settle(Settlement{ID: "a"}) },
	} {
		l := newLine()
		add(l)
		f.Add(bytes.TrimSuffix(bytes.Clone(l.bytes), []byte("\n")))
	}
	f.Add([]byte(`,"crc":"00000000"}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		r, err := parseLine(p)
		if err != nil && (r.Begin != nil && r.Begin.ID != "" || r.Settle != nil && r.Settle.ID != "") {
			t.Errorf("%q: %v, and a call all the same", p, err)
		}
		// What is sealed is read, whatever it is: then it is JSON, or an error of content.
		l := &line{bytes: bytes.Clone(p)}
		l.seal()
		_, _ = parseLine(bytes.TrimSuffix(l.bytes, []byte("\n")))
	})
}

// FuzzReadLines: whatever stands before and behind a line, the line is found, and
// every byte is accounted for.
func FuzzReadLines(f *testing.F) {
	l := newLine()
	l.begin(entry(&Journal{idHead: "a-"}))
	text := bytes.Clone(l.bytes)
	f.Add([]byte("x"), []byte("y"))
	f.Add(text[:len(text)-1], text[:20])
	f.Add([]byte(`{"begin":{"id":"a","crc":"00000000"}`), []byte("\n\n"))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		at, _, _ := found(t, bytes.Join([][]byte{before, text, after}, nil))
		if !at[int64(len(before))] {
			t.Errorf("the line between %q and %q was not found", before, after)
		}
	})
}
