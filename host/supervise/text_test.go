package supervise

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

func TestFailureIsOneSentence(t *testing.T) {
	exit := &provider.ExitStatus{Code: 3, StderrTail: "loading\nError: API_KEY is not set\n\n"}
	for want, f := range map[string]*Failure{
		`provider "files" (providers.hcl:12): initialize: the server exited with code 3: Error: API_KEY is not set`: {
			Provider: "files", Where: "providers.hcl:12", Phase: PhaseInitialize, Exit: exit,
		},
		`provider "My Files" (a.hcl:1): initialize: no answer after 1s: Error: API_KEY is not set`: {
			Provider: "my-files", Label: "My Files", Where: "a.hcl:1", Phase: PhaseInitialize, Cause: "no answer after 1s", Exit: exit,
		},
		`provider "x": start: two lines, a bell�`: {Provider: "x", Phase: PhaseStart, Cause: "two\nlines,\ta bell\a"},
		`provider "x": tools/list: timed out`:     {Provider: "x", Phase: PhaseList, Cause: "timed out"},
		`provider "x": running: the server was killed by signal 9 (killed)`: {
			Provider: "x", Phase: PhaseRunning, Exit: &provider.ExitStatus{Code: -1, Signal: 9},
		},
		`provider "x": start: it said Error: API_KEY is not set`: {
			Provider: "x", Phase: PhaseStart, Cause: "it said Error: API_KEY is not set", Exit: exit,
		},
	} {
		if got := f.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestLastLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		" \n\r\n\t":                "",
		"one\n\x00\n\x1b\n":        "one",
		"correct\thorse battery":   "correct  horse battery",
		"one":                      "one",
		"one\ntwo\r\n\n \n":        "two",
		"progress 1%\rprogress 2%": "progress 2%",
		"Error: no such folder\nnpm notice\nnpm notice New version of npm\nnpm notice": "Error: no such folder",
		"npm notice New version of npm\nnpm notice":                                    "npm notice",
		"a\x1b[31mred\x1b[0m\x00 \xff":                                                 "a\uFFFD[31mred\uFFFD[0m\uFFFD \uFFFD",
	} {
		if got := LastLine(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := LastLine(strings.Repeat("é", 1000)); len(got) > maxLastLine+len("…") || !strings.HasSuffix(got, "é…") {
		t.Errorf("%d bytes: %q", len(got), got[len(got)-8:])
	}
}

func TestEachLine(t *testing.T) {
	long := strings.Repeat("x", 3*maxLine)
	type line struct {
		text string
		cut  bool
	}
	var got []line
	eachLine(strings.NewReader("a\r\n\n"+long+"\nb"), func(l []byte, cut bool) { got = append(got, line{string(l), cut}) })
	want := []line{{"a", false}, {"", false}, {long[:maxLine], true}, {"b", false}}
	if len(got) != len(want) {
		t.Fatalf("%d lines", len(got))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d: %d bytes, cut %v", i, len(got[i].text), got[i].cut)
		}
	}
}

// A secret that the cut goes through is not recognised; it must not show.
func TestCutLineShowsNoHalfSecret(t *testing.T) {
	const secret = "s3cret-of-some-length"
	line := append(bytes.Repeat([]byte("x"), maxLine-5), secret[:5]...)
	got := redactLine(line, true, func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") }, nil)
	if strings.Contains(got, secret[:5]) || len(got) < maxLine-2*margin {
		t.Errorf("%d bytes, ends %q", len(got), got[len(got)-40:])
	}
}

// What stands between the characters of a secret keeps it from being found. It must not
// be taken out afterwards.
func TestNothingPutsASecretTogetherAgain(t *testing.T) {
	const secret = "s3cret-of-some-length"
	redact := func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") }
	for _, between := range []string{"\x00", "\x1b", "\u200b", "\xff", "\u202e", "\x7f"} {
		apart := secret[:5] + between + secret[5:]
		f := &Failure{Provider: "x", Cause: redact("it said " + apart), Exit: &provider.ExitStatus{StderrTail: redact(apart)}}
		long := redactLine([]byte(apart+strings.Repeat(" ", 2*margin)), true, redact, redact)
		var tl tail
		tl.add(redact(apart + strings.Repeat("x", tailBytes)))
		for where, text := range map[string]string{"a failure": f.Error(), "a last line": LastLine(redact(apart)), "a long line": long, "a tail": tl.String()} {
			if strings.Contains(text, secret) {
				t.Errorf("%q in %s became %.100q", apart, where, text)
			}
		}
	}
}

// TestCutPiecesOfAPlugin: what is kept of a server's last lines may begin in the
// middle of one, and a line of noise may end there.
func TestCutPiecesOfAPlugin(t *testing.T) {
	const secret = "s3cret-of-some-length"
	redact := func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") }
	p := newProcess(Spec{}, "m", redact)
	p.head = func(s string) string { return strings.TrimSuffix(redact(s), secret[:8]) }
	tail := secret[8:] + "\n" + strings.Repeat("x", provider.MaxStderrTail-len(secret[8:])-1)
	if got := p.redactTail(tail); strings.Contains(got, secret[8:]) || !strings.HasPrefix(got, "xxx") {
		t.Errorf("the tail begins %.60q", got)
	}
	if got := p.redactTail("one\n" + secret); got != "one\n[redacted]" {
		t.Errorf("a short tail is %q", got)
	}
	noise := strings.Repeat("x", provider.MaxNoise-8) + secret[:8]
	conn := &watchedConn{HostConn: oneEvent{provider.Noise{Line: []byte(noise)}}, r: &watchedRemote{p: p}}
	e, err := conn.Recv()
	if line := string(e.(provider.Noise).Line); err != nil || strings.Contains(line, secret[:8]) || !strings.HasPrefix(line, "xxx") {
		t.Errorf("the noise ends %q, %v", line[max(0, len(line)-60):], err)
	}
}

// oneEvent is a plugin's stream with one event.
type oneEvent struct{ event provider.Event }

func (oneEvent) Send(provider.Frame) error       { return nil }
func (o oneEvent) Recv() (provider.Event, error) { return o.event, nil }

func TestTailIsBounded(t *testing.T) {
	var tl tail
	for i := range 10 * tailLines {
		tl.add(fmt.Sprintf("line %d", i))
	}
	if lines := strings.Split(tl.String(), "\n"); len(lines) != tailLines || lines[len(lines)-1] != "line 999" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	for range 10 {
		tl.add(strings.Repeat("x", tailBytes))
	}
	if n := len(tl.String()); n > tailBytes+16 || n == 0 {
		t.Errorf("%d bytes", n)
	}
}

func TestLineWriter(t *testing.T) {
	var got []string
	w := &lineWriter{line: func(l []byte, cut bool) { got = append(got, fmt.Sprintf("%d %v", len(l), cut)) }}
	for _, s := range []string{"ab", "c\nd\n", strings.Repeat("x", 2*maxLine), "y", "\nz\r\n"} {
		if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	want := []string{"3 false", "1 false", fmt.Sprintf("%d true", maxLine), "1 false"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestLogRotates(t *testing.T) {
	dir := t.TempDir()
	var ls logs
	folder := filepath.Join(dir, "logs")
	f, err := ls.acquire(folder, "files")
	if err != nil {
		t.Fatal(err)
	}
	second, err := ls.acquire(folder, "files")
	if err != nil || second != f {
		t.Fatalf("two files for one log: %v", err)
	}
	f.most = 100
	at := time.Date(2026, 11, 29, 1, 2, 3, 4e6, time.UTC)
	for i := range 20 {
		f.line(at, 7, fmt.Sprintf("line %02d", i)) // 36 bytes: two a file
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := "2026-11-29T01:02:03.004Z #7 line 18\n2026-11-29T01:02:03.004Z #7 line 19\n"
	if got := read("files.log"); got != want {
		t.Errorf("current %q", got)
	}
	if got := read("files.log.4"); !strings.Contains(got, "line 10") || !strings.Contains(got, "line 11") {
		t.Errorf("oldest %q", got)
	}
	if all, err := filepath.Glob(filepath.Join(folder, "files.log*")); err != nil || len(all) != logFiles {
		t.Errorf("%d files, %v", len(all), err)
	}
	// Another host rotates: the full file is not ours any more and nothing is moved twice.
	if err := os.Rename(filepath.Join(folder, "files.log"), filepath.Join(folder, "other")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "files.log"), []byte("of another host\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.line(at, 7, "after")
	if got := read("files.log"); got != "of another host\n2026-11-29T01:02:03.004Z #7 after\n" {
		t.Errorf("after another's rotation %q", got)
	}
	ls.release("files")
	f.line(at, 7, "still open")
	if !strings.Contains(read("files.log"), "still open") {
		t.Error("closed while one uses it")
	}
	ls.release("files")
	if len(ls.open) != 0 || f.f != nil {
		t.Error("open while none uses it")
	}
}

// Two hosts fill one log at once: no file is moved before it is full, and so none
// moves a full one out sooner than it should.
func TestHostsThatRotateAtOnce(t *testing.T) {
	const lines, most = 400, 2000 // 36 bytes a line: at most 56 a file, and 5 files
	dir := t.TempDir()
	at := time.Date(2026, 11, 29, 1, 2, 3, 4e6, time.UTC)
	var hosts sync.WaitGroup
	for host := range uint64(2) {
		hosts.Go(func() {
			f := &logFile{path: filepath.Join(dir, "files.log"), most: most}
			defer f.close()
			for i := range lines {
				f.line(at, host, fmt.Sprintf("line %02d", i%100))
			}
		})
	}
	hosts.Wait()
	for i := range logFiles {
		info, err := os.Stat(numbered(filepath.Join(dir, "files.log"), i))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && info.Size() < most-40 {
			t.Errorf("file %d has %d bytes", i, info.Size())
		}
	}
}

// A rotation under way elsewhere holds up nobody.
func TestRotationDoesNotWait(t *testing.T) {
	dir := t.TempDir()
	held := flock.New(filepath.Join(dir, rotationLock))
	if err := held.Lock(); err != nil {
		t.Fatal(err)
	}
	f := &logFile{path: filepath.Join(dir, "files.log"), most: 50}
	defer f.close()
	for range 10 {
		f.line(time.Now(), 1, "x")
	}
	if info, err := os.Stat(f.path); err != nil || info.Size() < 10*30 {
		t.Errorf("%v, %v", info, err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	f.line(time.Now(), 1, "x")
	if info, err := os.Stat(f.path); err != nil || info.Size() > 50 {
		t.Errorf("not rotated afterwards: %v, %v", info, err)
	}
}

func TestHandshakeLine(t *testing.T) {
	for line, says := range map[string]string{
		"1|1|unix|/x/y|grpc|":        "",
		"1|1|unix|/x/y|grpc":         "",
		"  1|1|tcp|127.0.0.1:1|grpc": "",
		"":                           `printed "" on`,
		"hello":                      `printed "hello" on`,
		"a|b|c|d|e":                  `printed "a|b|c|d|e" on`,
		"1|x|unix|/x|grpc":           `printed`,
		"1|1|unix":                   `printed`,
		"2|1|unix|/x|grpc":           "version 2 of go-plugin's core protocol, this host version 1",
		"1|0|unix|/x|grpc":           "version 0 of the provider contract, this host version 1",
		"1|1|unix|/x":                `speaks "netrpc"`,
	} {
		err := checkHandshake("/p", line)
		if (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", line, err)
		}
	}
}
