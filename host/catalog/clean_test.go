package catalog

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestADigestOutlivesASecret: what a server lists with one value of a secret and
// with another is the same definition, also where the disk still has the first.
func TestADigestOutlivesASecret(t *testing.T) {
	dir := t.TempDir()
	open := func(secret string) *Store {
		s := New(Options{Dir: dir, Clean: func(raw json.RawMessage) json.RawMessage {
			return bytes.ReplaceAll(raw, []byte(secret), []byte("[redacted]"))
		}}, []Provider{{Slug: "p", Tools: []string{"*"}}})
		s.Apply([]Provider{{Slug: "p", Tools: []string{"*"}, Identity: "id"}})
		return s
	}
	digest := func(s *Store) string {
		t.Helper()
		tools := s.Snapshot().Tools()
		if len(tools) != 1 || bytes.Contains(tools[0].Listed, []byte("s3cret")) || bytes.Contains(tools[0].Raw, []byte("s3cret")) {
			t.Fatalf("tools: %v", tools)
		}
		return tools[0].Digest
	}
	list := func(s *Store, secret string) string {
		t.Helper()
		s.Met("p", Server{Era: "legacy", Capabilities: json.RawMessage(`{"x":"` + secret + `"}`)})
		if err := s.Put("p", "p/1", []json.RawMessage{json.RawMessage(`{"name":"a","description":"logs in with ` + secret + `"}`)}); err != nil {
			t.Fatal(err)
		}
		return digest(s)
	}
	first := list(open("s3cret-1"), "s3cret-1")
	after := open("s3cret-2")
	if got := digest(after); got != first {
		t.Errorf("what the disk has is %s, want %s", got, first)
	}
	if got := list(after, "s3cret-2"); got != first {
		t.Errorf("after the rotation it is %s, want %s", got, first)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, file := range files {
		if text, _ := os.ReadFile(file); bytes.Contains(text, []byte("s3cret")) {
			t.Errorf("%s holds a secret: %s", file, text)
		}
	}
	// A value that was none when the list was kept, and is one now.
	if err := open("nothing").Put("p", "p/1", []json.RawMessage{json.RawMessage(`{"name":"a","description":"logs in with s3cret-3"}`)}); err != nil {
		t.Fatal(err)
	}
	if got := digest(open("s3cret-3")); got != first {
		t.Errorf("kept before it was a secret: %s, want %s", got, first)
	}
}
