//go:build linux

package crossing

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// journalFile is the one file of the journal of a place.
func journalFile(t testing.TB, p hosttest.Place) string {
	t.Helper()
	files, err := filepath.Glob(p.Path("state/journal/*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the journal's files: %v, %v", files, err)
	}
	return files[0]
}

// lineWith is where the line with a text begins and ends.
func lineWith(t testing.TB, text []byte, what string) (from, to int) {
	t.Helper()
	at := bytes.Index(text, []byte(what))
	if at < 0 {
		t.Fatalf("the journal has no %s:\n%s", what, text)
	}
	from = bytes.LastIndexByte(text[:at], '\n') + 1
	return from, at + bytes.IndexByte(text[at:], '\n') + 1
}

// TestADamagedJournalLosesNoOtherLine: with its index deleted, a line damaged in the
// middle of it and its last line cut, `calls` says what is lost, has all the rest, and
// makes no more of a call than is known; the next host of the state dir goes on.
func TestADamagedJournalLosesNoOtherLine(t *testing.T) {
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "fake"})
	c := setting{}.stdio(t, p, path)
	for range 5 {
		hosttest.CallTool(t, c, "fake_echo", "{}")
	}
	whole := rowsOf(t, p, path)
	if got := endings(t, p, path, ""); len(got) != 5 || slices.Contains(got, "") {
		t.Fatalf("the journal has %q", got)
	}
	leave(t, c)
	remove := func() {
		t.Helper()
		files, _ := filepath.Glob(p.Path("state/journal/index.db*"))
		if len(files) == 0 {
			t.Error("there is no index to delete")
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove()
	if got := rowsOf(t, p, path); fmt.Sprint(got) != fmt.Sprint(whole) {
		t.Errorf("without its index the journal has\n%+v\nand with it\n%+v", got, whole)
	}
	file := journalFile(t, p)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// The second call's end is damaged in its middle, the file cut in the middle of the last line.
	ends := bytes.Split(text, []byte("\n"))
	var endLines []string
	for _, line := range ends {
		if bytes.Contains(line, []byte(`"end"`)) {
			endLines = append(endLines, string(line))
		}
	}
	if len(endLines) != 5 {
		t.Fatalf("the journal has %d ends:\n%s", len(endLines), text)
	}
	from, to := lineWith(t, text, endLines[1])
	copy(text[(from+to)/2:], "#\x00#")
	last, end := lineWith(t, text, endLines[4])
	if err := os.WriteFile(file, text[:(last+end)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	remove()
	want := []string{"echo ok sent", "echo unknown journal_damaged sent", "echo ok sent", "echo ok sent", "echo unknown"}
	got := endings(t, p, path, "")
	for i := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("the damaged journal has %q, want %q", got, want)
		}
	}
	cmd := p.Command(t, "calls", "--config", path)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	says(t, "calls, on standard error", said.String(), filepath.Base(file))
	next := setting{}.stdio(t, p, path)
	hosttest.CallTool(t, next, "fake_echo", "{}")
	if got := endings(t, p, path, ""); len(got) != 6 || got[5] != "echo ok sent" || got[0] != "echo ok sent" {
		t.Errorf("after the next host's call the journal has %q", got)
	}
}

// TestCallIDsThatAreNone: an id that is too long, is no text, or was used for something
// else has a clear answer, is in the journal, and nothing of it is sent.
func TestCallIDsThatAreNone(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", args: []string{"--ledger", p.Path("ledger")}})
		c := open(path)
		pay := func(args, id string) hosttest.Reply {
			t.Helper()
			return c.Request(t, "tools/call", fmt.Sprintf(`{"name":"fake_pay","arguments":%s,"_meta":{"drawbridge/call_id":%s}}`, args, id))
		}
		if text := textOf(t, pay(`{"to":"ann"}`, `"a"`)); text != "paid" {
			t.Errorf("the first: %q", text)
		}
		for _, one := range []struct {
			what, args, id string
			code           int
			says           string
		}{
			{"10 KiB", `{"to":"ann"}`, encoded(strings.Repeat("x", 10<<10)), -32602, "256"},
			{"a number", `{"to":"ann"}`, "7", -32602, "must be a string"},
			{"nothing", `{"to":"ann"}`, `""`, -32602, "not empty"},
			{"other arguments", `{"to":"bob"}`, `"a"`, -31001, "for another call"},
		} {
			e := errorOf(t, pay(one.args, one.id))
			if e.Code != one.code || !strings.Contains(e.Message, one.says) || e.Data.Dispatched {
				t.Errorf("%s: %+v, want %d and %q", one.what, e, one.code, one.says)
			}
		}
		if text := textOf(t, pay(`{"to":"ann"}`, `"a"`)); text != "paid" {
			t.Errorf("the same again: %q", text)
		}
		if lines := strings.Count(ledger(t, p), "\n"); lines != 1 {
			t.Errorf("the ledger has %d lines:\n%s", lines, ledger(t, p))
		}
		want := []string{"pay ok sent", "fake_pay denied invalid_params", "fake_pay denied invalid_params", "fake_pay denied invalid_params", "pay denied call_id_reused", "pay ok repeated"}
		if got := endings(t, p, path, ""); !slices.Equal(got, want) {
			t.Errorf("the journal has %q, want %q", got, want)
		}
	})
}

// TestTheJournalHoldsNoContents: of a call's arguments and result nothing is in the
// journal, in its index or in what it says, whatever becomes of the call; the table of
// call ids has no arguments, and results only as long as they are held.
func TestTheJournalHoldsNoContents(t *testing.T) {
	p := hosttest.NewPlace(t)
	path := config(t, p, "", provider{name: "fake", body: quick + limits("max_message = \"64KiB\"\n    inline_result = \"32KiB\"")})
	c := setting{}.stdio(t, p, path)
	const given, got = "in-the-arguments", "in-the-result"
	arguments := func(result string) string { return `{"secret":"` + given + `","result":` + result + `}` }
	content := `{"content":[{"type":"text","text":"` + got + `"}]}`
	for _, one := range []struct{ name, args, more string }{
		{"fake_answer", arguments(content), ""},
		{"fake_answer", arguments(content), `,"_meta":{"drawbridge/call_id":"a"}`},
		{"fake_answer", `{"secret":"` + given + `","error":{"code":-32000,"message":"` + got + `"}}`, ""},
		{"fake_answer", `{"secret":"` + given + `","error":{"code":-31003,"message":"` + got + `"}}`, ""},
		{"fake_exit", `{"secret":"` + given + `"}`, ""},
		{"fake_echo", `{"secret":"` + given + strings.Repeat("x", 70<<10) + `"}`, ""},
		{"fake_none", `{"secret":"` + given + `"}`, ""},
		{"fake_echo", `{"secret":"` + given + `"}`, `,"_meta":{"drawbridge/digest":"another"}`},
	} {
		c.Request(t, "tools/call", `{"name":"`+one.name+`","arguments":`+one.args+one.more+`}`)
	}
	said, err := hosttest.Output(t, p.Command(t, "calls", "--config", path, "--json"))
	if err != nil || strings.Count(said, "\n") != 8 {
		t.Fatalf("%v: %s", err, said)
	}
	texts := map[string]string{"calls --json": said}
	for _, pattern := range []string{"state/journal/*", "state/call_ids.db*"} {
		files, err := filepath.Glob(p.Path(pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.Base(file)] = string(text)
		}
	}
	held := false
	for name, text := range texts {
		if strings.Contains(text, given) {
			t.Errorf("%s has something of the arguments", name)
		}
		if ids := strings.HasPrefix(name, "call_ids.db"); strings.Contains(text, got) {
			held = held || ids
			if !ids {
				t.Errorf("%s has something of a result", name)
			}
		}
	}
	if !held {
		t.Error("the answer that is held was not found: nothing is shown by its absence elsewhere")
	}
}
