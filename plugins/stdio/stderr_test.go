package stdio

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTailKeepsTheLastLines(t *testing.T) {
	for name, c := range map[string]struct {
		writes []string
		want   string
	}{
		"nothing":          {nil, ""},
		"lines":            {[]string{"a\nb\n"}, "a\nb"},
		"an unfinished":    {[]string{"a\nb"}, "a\nb"},
		"in pieces":        {[]string{"a", "b\r", "\nc\r\n", "d"}, "ab\nc\nd"},
		"empty lines":      {[]string{"\n\na\n"}, "\n\na"},
		"an endless line":  {[]string{strings.Repeat("x", 8<<10), "THE END"}, strings.Repeat("x", headKept) + " …(4103 bytes)… " + strings.Repeat("x", endKept-7) + "THE END"},
		"a line just kept": {[]string{strings.Repeat("y", headKept+endKept)}, strings.Repeat("y", headKept+endKept)},
	} {
		l := newStderrLog(nil)
		for _, w := range c.writes {
			if n, err := l.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%s: wrote %d, %v", name, n, err)
			}
		}
		if got := l.tail(); got != c.want {
			t.Errorf("%s: got %.80q (%d), want %.80q (%d)", name, got, len(got), c.want, len(c.want))
		}
		l.close(soonEnough)
		if got := l.tail(); got != c.want {
			t.Errorf("%s, closed: got %.80q, want %.80q", name, got, c.want)
		}
	}
}

const soonEnough = 10 * time.Second

func TestTailIsBounded(t *testing.T) {
	l := newStderrLog(nil)
	for i := range 100_000 {
		_, _ = fmt.Fprintf(l, "line %d %s\n", i, strings.Repeat("z", i%300))
	}
	_, _ = l.Write(bytes.Repeat([]byte{'w'}, 10<<20))
	l.close(soonEnough)
	got := l.tail()
	if len(got) > maxTail || len(got) < maxTail/2 {
		t.Errorf("the tail has %d bytes", len(got))
	}
	if !strings.HasPrefix(got, "line ") || !strings.Contains(got, "\nline 99999 ") || !strings.HasSuffix(got, "www") {
		t.Errorf("the tail is %.60q … %q", got, got[len(got)-60:])
	}
}

// stuck is a writer that takes nothing until it is let go.
type stuck struct {
	let chan struct{}
	got bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.let
	return s.got.Write(p)
}

func TestForwardingDropsRatherThanWaits(t *testing.T) {
	const lines = 100_000
	to := &stuck{let: make(chan struct{})}
	l := newStderrLog(to)
	for i := range lines {
		_, _ = fmt.Fprintf(l, "line %d\n", i) // blocks for ever if it waits
	}
	if got := l.tail(); !strings.HasSuffix(got, "line 99999") {
		t.Errorf("the tail ends with %q", got[len(got)-20:])
	}
	l.close(0)
	close(to.let)
	<-l.flushed
	var passed, dropped int
	for line := range strings.Lines(to.got.String()) {
		var n int
		if _, err := fmt.Sscanf(line, "[%d lines", &n); err == nil {
			dropped += n
			continue
		}
		passed++
	}
	if passed+dropped != lines || passed < maxQueue || dropped < lines/2 {
		t.Errorf("of %d lines %d were passed on and %d counted as dropped", lines, passed, dropped)
	}
}

func FuzzStderrLog(f *testing.F) {
	f.Add([]byte("a\nb\r\n"), uint8(3))
	f.Add(bytes.Repeat([]byte("x"), 6000), uint8(255))
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		l := &stderrLog{queue: make(chan []byte, maxQueue)} // nobody forwards: what happens is the same each time
		for rest := text; len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			_, _ = l.Write(rest[:n])
			rest = rest[n:]
		}
		got := l.tail()
		if len(got) > maxTail+headKept+endKept+50 {
			t.Fatalf("%d bytes", len(got))
		}
		if len(text) < headKept {
			var want []string
			for line := range strings.Lines(string(text)) {
				want = append(want, strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"))
			}
			if whole := strings.TrimRight(strings.Join(want, "\n"), "\n"); got != whole {
				t.Fatalf("got %q, want %q", got, whole)
			}
		}
	})
}
