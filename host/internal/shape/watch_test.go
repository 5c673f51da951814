package shape

import (
	"bytes"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const typed = `{"type":"object","properties":{"a":{"type":"integer"}}}`

// watched is a Watch and what it logs.
func watched() (*Watch, *bytes.Buffer) {
	var log bytes.Buffer // a handler writes one line at a time
	return NewWatch(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))), &log
}

// settled is what was logged when all that waited was looked at.
func settled(w *Watch, log *bytes.Buffer) string {
	w.ended.Wait()
	return log.String()
}

// TestWatchWarnsOnce of a definition, whoever sees how often what is wrong with it,
// and of another definition anew.
func TestWatchWarnsOnce(t *testing.T) {
	w, log := watched()
	answer := func(provider, digest, value string) {
		w.Answered(provider, "tool", digest, []byte(typed), []byte(value))
		w.ended.Wait()
	}
	for range 10 {
		w.Listed("p", "tool", "d1", []byte(typed))
		answer("p", "d1", `{"a":1}`)
		answer("p", "d1", `{}`)
	}
	if got := settled(w, log); got != "" {
		t.Errorf("of what fits it is said\n%s", got)
	}
	for range 10 {
		answer("p", "d1", `{"a":"secret"}`)
		answer("p", "d2", `{"a":null}`)
		answer("q", "d1", `[]`)
		w.Listed("p", "broken", "d3", []byte(`{"type":"x"}`))
		w.Answered("p", "broken", "d3", []byte(`{"type":"x"}`), []byte(`{"a":"secret"}`))
	}
	const misfit = `level=WARN msg="a result does not fit the tool's outputSchema; it was passed on as it is" `
	want := misfit + "provider=p tool=tool at=/a expected=integer found=string rule=/properties/a/type\n" +
		misfit + "provider=p tool=tool at=/a expected=integer found=null rule=/properties/a/type\n" +
		misfit + "provider=q tool=tool at=\"\" expected=object found=array rule=/type\n" +
		`level=WARN msg="a tool's outputSchema is no JSON Schema; its results are passed on as they are" ` +
		"provider=p tool=broken at=/type problem=\"is or holds a name that is no type: there are array, boolean, integer, null, number, object, string\"\n"
	if got := settled(w, log); got != want {
		t.Errorf("it is said\n%s\nwant\n%s", got, want)
	}
}

// TestWatchIsBounded: a provider that never lists the same is told of so often and no
// more, and takes nothing from another.
func TestWatchIsBounded(t *testing.T) {
	w, log := watched()
	for i := range mostTold + 50 {
		w.Listed("p", "tool", fmt.Sprint(i), []byte(`{"type":"x"}`))
		w.Answered("p", "tool", fmt.Sprint("d", i), []byte(typed), []byte(`[]`))
		w.ended.Wait()
	}
	w.Answered("q", "tool", "d", []byte(typed), []byte(`[]`))
	got := settled(w, log)
	if n := strings.Count(got, "provider=p tool="); n != mostTold {
		t.Errorf("%d warnings, want %d", n, mostTold)
	}
	if n := strings.Count(got, "too many of a provider's definitions"); n != 1 || !strings.Contains(got, "provider=q tool=tool") {
		t.Errorf("the end is told of %d times:\n%s", n, got[len(got)-300:])
	}
	if len(w.told["p"]) != mostTold {
		t.Errorf("%d definitions are remembered", len(w.told["p"]))
	}
	for i := range 3 * mostCompiled / 8 {
		w.Answered("r", "tool", fmt.Sprint(i), []byte(typed), []byte(`{}`))
		w.ended.Wait()
		if w.size > mostCompiled || len(w.compiled) > mostCompiled {
			t.Fatalf("%d schemas that cost %d are kept", len(w.compiled), w.size)
		}
	}
}

// TestKeptTextIsBounded: a schema of few values may be long.
func TestKeptTextIsBounded(t *testing.T) {
	w, _ := watched()
	defer w.Close()
	const length = MaxSchema / 2
	schema := []byte(`{"description":"` + strings.Repeat("a", length) + `"}`)
	for i := range 3 * mostCompiled * stepBytes / length {
		w.Answered("p", "tool", fmt.Sprint(i), schema, []byte(`{}`))
		w.ended.Wait()
		if kept := len(w.compiled) * length; kept > mostCompiled*stepBytes {
			t.Fatalf("%d schemas of %d bytes are kept", len(w.compiled), kept)
		}
	}
	if len(w.compiled) == 0 {
		t.Error("none is kept")
	}
}

// TestWatchQueuesAreBounded: what waits is so much and no more, whoever comes.
func TestWatchQueuesAreBounded(t *testing.T) {
	w, log := watched()
	w.looking = true // nobody looks
	large := []byte(`{"type":"object","description":"` + strings.Repeat("a", MaxSchema/2) + `"}`)
	most := mostListed / (job{tool: "tool", digest: "10", schema: large}).size()
	for i := range most + 10 {
		w.Listed("p", "tool", fmt.Sprint(i), large)
	}
	value := []byte(`{"a":"first"}`)
	for i := range mostAnswers + 10 {
		w.Answered("p", "tool", fmt.Sprint(i), []byte(typed), value)
	}
	w.Answered("p", "tool", "large", []byte(typed), make([]byte, MaxValue+1))
	w.Listed("p", "tool", "large", make([]byte, MaxSchema+1))
	w.waiting -= mostListed / 2
	w.Listed("p", strings.Repeat("a", mostName+1), "name", []byte(typed))
	w.waiting += mostListed / 2
	if len(w.listed) != most || len(w.answers) != mostAnswers {
		t.Errorf("%d definitions and %d answers wait", len(w.listed), len(w.answers))
	}
	copy(value, `{"a":7      }`) // the caller's own again
	copy(large, `{"type":"integre"}`)
	w.look()
	if got := settled(w, log); strings.Count(got, "found=string") != mostAnswers || strings.Contains(got, "no JSON Schema") {
		t.Errorf("it is said\n%.1000s", got)
	}
	if w.listed != nil || w.answers != nil || w.looking || w.waiting != 0 {
		t.Error("something is left")
	}
}

// TestWatchCloses with what waits, while others go on.
func TestWatchCloses(t *testing.T) {
	w, log := watched()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 200 {
				w.Listed("p", "tool", fmt.Sprint(i, j), []byte(typed))
				w.Answered("p", "tool", fmt.Sprint(i, j), []byte(typed), []byte(`[]`))
			}
		})
	}
	w.Close()
	after := log.String()
	all.Wait()
	w.Close()
	w.Answered("p", "tool", "late", []byte(typed), []byte(`[]`))
	if got := settled(w, log); got != after {
		t.Errorf("after the end it is said\n%s", got[len(after):])
	}
}

// slow is a log whose reader takes his time.
type slow struct {
	writing, resume chan struct{}
	written         atomic.Bool
}

func (s *slow) Write(p []byte) (int, error) {
	close(s.writing)
	<-s.resume
	s.written.Store(true)
	return len(p), nil
}

// TestCloseWaits for what is looked at.
func TestCloseWaits(t *testing.T) {
	log := &slow{writing: make(chan struct{}), resume: make(chan struct{})}
	w := NewWatch(slog.New(slog.NewTextHandler(log, nil)))
	w.Answered("p", "tool", "d", []byte(typed), []byte(`[]`))
	<-log.writing
	go func() {
		for closed := false; !closed; runtime.Gosched() {
			w.mu.Lock()
			closed = w.closed
			w.mu.Unlock()
		}
		close(log.resume)
	}()
	w.Close()
	if !log.written.Load() {
		t.Error("something is still looked at")
	}
}
