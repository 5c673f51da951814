package provider

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestFramesInOrder(t *testing.T) {
	var f framing
	for _, in := range []Frame{
		{Seq: 1, Data: []byte("{}"), Last: true},
		{Seq: 2, Data: []byte("{")},
		{Seq: 2, Data: nil},
		{Seq: 2, Data: []byte("}"), Last: true},
		{Seq: 3, Data: bytes.Repeat([]byte("x"), MaxChunk)},
		{Seq: 3, Last: true},
		{Seq: 4, Data: []byte("{}"), Last: true},
	} {
		if err := f.frame(in); err != nil {
			t.Fatalf("seq %d: %v", in.Seq, err)
		}
	}
}

func TestBrokenFrames(t *testing.T) {
	whole := Frame{Seq: 1, Data: []byte("{}"), Last: true}
	begun := Frame{Seq: 1, Data: []byte("{")}
	for name, c := range map[string]struct {
		before []Frame
		broken Frame
		says   string
	}{
		"first is not 1":      {nil, Frame{Seq: 2, Data: []byte("{}"), Last: true}, "expected message 1"},
		"seq 0":               {nil, Frame{Data: []byte("{}"), Last: true}, "expected message 1"},
		"a number left out":   {[]Frame{whole}, Frame{Seq: 3, Data: []byte("{}"), Last: true}, "expected message 2"},
		"a number again":      {[]Frame{whole}, whole, "expected message 2"},
		"messages mixed":      {[]Frame{begun}, Frame{Seq: 2, Data: []byte("{}"), Last: true}, "message 1 is not whole"},
		"back to another":     {[]Frame{whole, {Seq: 2, Data: []byte("{")}}, whole, "message 2 is not whole"},
		"LF":                  {nil, Frame{Seq: 1, Data: []byte("{}\n{}"), Last: true}, "LF at byte 2"},
		"CR":                  {nil, Frame{Seq: 1, Data: []byte("{\r}"), Last: true}, "CR at byte 1"},
		"LF in a later chunk": {[]Frame{begun}, Frame{Seq: 1, Data: []byte("\n"), Last: true}, "LF at byte 0"},
		"chunk too long":      {nil, Frame{Seq: 1, Data: make([]byte, MaxChunk+1)}, "at most 1048576"},
		"empty":               {nil, Frame{Seq: 1, Last: true}, "empty message"},
		"empty in two":        {[]Frame{{Seq: 1}}, Frame{Seq: 1, Last: true}, "empty message"},
	} {
		var f framing
		for _, in := range c.before {
			if err := f.frame(in); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		err := f.frame(c.broken)
		if !errors.Is(err, ErrContract) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEventsFraming(t *testing.T) {
	var f framing
	for _, e := range []Event{
		Chunk{Data: []byte("{")},
		Noise{Line: []byte("{oops")}, // drops what was open
		Spoke{}, Undelivered{Seq: 1},
		Chunk{Data: []byte("{}"), Last: true},
		Chunk{Data: []byte("{")},
		TooLarge{Size: 1 << 30},
	} {
		if err := f.event(e); err != nil {
			t.Fatalf("%T: %v", e, err)
		}
	}
	// After a drop an empty last chunk is an empty message again.
	if err := f.event(Chunk{Last: true}); !errors.Is(err, ErrContract) {
		t.Errorf("empty message after a drop: %v", err)
	}
	for _, e := range []Event{
		Chunk{Data: []byte("a\nb")}, Chunk{Data: []byte("\r")}, Chunk{Data: make([]byte, MaxChunk+1), Last: true},
	} {
		if err := new(framing).event(e); !errors.Is(err, ErrContract) {
			t.Errorf("%+.20v: %v", e, err)
		}
	}
}
