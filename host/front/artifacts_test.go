package front

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/artifact"
)

// newStore is a store of artifacts whose clock the test moves.
func newStore(t *testing.T) (*artifact.Store, *time.Time) {
	t.Helper()
	now := time.Now()
	s, err := artifact.Open(artifact.Options{Dir: filepath.Join(t.TempDir(), "artifacts"), Quota: 1 << 20, TTL: time.Hour, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return s, &now
}

func keep(t *testing.T, s *artifact.Store, o artifact.Origin, content string) artifact.Record {
	t.Helper()
	w, err := s.Create(o, "text/plain", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	r, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// download asks for an artifact over plain HTTP.
func (s *site) download(id string) (*http.Response, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := s.request(ctx, http.MethodGet, "")
	req.URL.Path = artifactsPath + id
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(body)
}

// TestDownloadsAreBounded: to read an artifact takes a place among the requests in
// flight, and gives it back.
func TestDownloadsAreBounded(t *testing.T) {
	store, _ := newStore(t)
	front := newServer(t, newFakeBroker(), func(o *Options) { o.Artifacts = store })
	front.room = make(chan struct{}, 1)
	s := newSite(t, front)
	id := keep(t, store, artifact.Origin{Principal: "local"}, "all of it").ID
	front.room <- struct{}{}
	if res, body := s.download(id); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "in flight") {
		t.Errorf("while all places are taken: %s %q", res.Status, body)
	}
	<-front.room
	for range 3 {
		if res, body := s.download(id); res.StatusCode != http.StatusOK || body != "all of it" {
			t.Errorf("with a place: %s %q", res.Status, body)
		}
	}
}

// TestADownloadTakesAGrant: who has nothing any more in the project that an artifact
// comes from is told that there is none.
func TestADownloadTakesAGrant(t *testing.T) {
	store, _ := newStore(t)
	gate := newFakeGate()
	gate.projects["local"] = []string{"site"}
	s := newSite(t, newServer(t, newFakeBroker(), func(o *Options) { o.Artifacts = store }), func(o *HTTPOptions) { o.Gate = gate })
	id := keep(t, store, artifact.Origin{Principal: "local", Project: "site"}, "all of it").ID
	if res, body := s.download(id); res.StatusCode != http.StatusOK || body != "all of it" {
		t.Errorf("granted: %s %q", res.Status, body)
	}
	gate.set(func() { gate.projects["local"] = []string{"other"} })
	res, body := s.download(id)
	if none, text := s.download(strings.Repeat("a", len(id))); res.StatusCode != http.StatusNotFound || none.StatusCode != res.StatusCode || text != body || res.Header.Get("ETag") != "" {
		t.Errorf("granted no more: %s %q %v; one that never was: %s %q", res.Status, body, res.Header, none.Status, text)
	}
}

// TestPagesOfArtifacts: they are listed in pages of page_size, the newest first, each
// once, also where some come and go meanwhile; a cursor is its principal's.
func TestPagesOfArtifacts(t *testing.T) {
	store, now := newStore(t)
	s := newSite(t, newServer(t, newFakeBroker(), func(o *Options) { o.Artifacts, o.PageSize = store, 3 }))
	var want []string
	var ids []string
	add := func(principal string) {
		r := keep(t, store, artifact.Origin{Principal: principal, Tool: "report"}, "x")
		if principal == "local" {
			want = slices.Insert(want, 0, r.URI())
			ids = slices.Insert(ids, 0, r.ID)
		}
	}
	for n := range 8 {
		add("local")
		add("another")
		if n%2 == 0 { // some are of one moment
			*now = now.Add(time.Second)
		}
	}
	list := func(cursor string, headers ...string) (uris []string, next string, code int) {
		t.Helper()
		params := modernMeta
		if cursor != "" {
			params += fmt.Sprintf(`,"cursor":%q`, cursor)
		}
		r := s.post(`{"jsonrpc":"2.0","id":1,"method":"resources/list","params":{`+params+`}}`,
			append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "resources/list"}, headers...)...)
		m := r.last(t)
		if m.Error != nil {
			return nil, "", m.code()
		}
		var result struct {
			Resources  []struct{ URI string }
			NextCursor string
		}
		if err := json.Unmarshal(m.Result, &result); err != nil {
			t.Fatal(err)
		}
		for _, r := range result.Resources {
			uris = append(uris, r.URI)
		}
		return uris, result.NextCursor, 0
	}
	var got []string
	first, cursor, code := list("")
	got = append(got, first...)
	if len(first) != 3 || cursor == "" {
		t.Fatalf("the first page has %d of %d and the cursor %q (%d)", len(first), len(want), cursor, code)
	}
	// One that was shown goes, one that was not goes, and a new one comes.
	for _, at := range []int{2, 6} {
		if err := store.Remove(ids[at]); err != nil {
			t.Fatal(err)
		}
	}
	for next := cursor; next != ""; {
		var page []string
		page, next, _ = list(next)
		if len(page) > 3 || len(page) == 0 {
			t.Fatalf("a page has %d", len(page))
		}
		got = append(got, page...)
		add("local")
	}
	slices.Sort(got)
	rest := slices.Delete(slices.Clone(want[len(want)-8:]), 6, 7)
	slices.Sort(rest)
	if !slices.Equal(got, rest) {
		t.Errorf("the pages have\n%q, want\n%q", got, rest)
	}
	if _, _, code := list(cursor, "Authorization", "Bearer other"); code != -32602 {
		t.Errorf("the cursor of another: %d", code)
	}
	if _, _, code := list("bm9uZQ"); code != -32602 {
		t.Errorf("no cursor of ours: %d", code)
	}
}

// TestTheHostsOwnToolIsListedOnce, at the end of the last page, to whoever may have large
// results; to others it is as one that is not there, and so are the methods.
func TestTheHostsOwnToolIsListedOnce(t *testing.T) {
	store, _ := newStore(t)
	record := keep(t, store, artifact.Origin{Principal: "local"}, "all of it")
	for _, size := range []int{1, 2, 3, 4} {
		b := newFakeBroker("a", "b", "c")
		s := newSite(t, newServer(t, b, func(o *Options) { o.Artifacts, o.PageSize = store, size }))
		session := s.open()
		var pages []string
		for params := "{}"; ; {
			m := s.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+params+`}`, "Mcp-Session-Id", session).last(t)
			var page struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
			if err := json.Unmarshal(m.Result, &page); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range page.Tools {
				names = append(names, tool.Name)
			}
			pages = append(pages, strings.Join(names, " "))
			if page.NextCursor == "" {
				break
			}
			params = fmt.Sprintf(`{"cursor":%q}`, page.NextCursor)
		}
		if all := strings.Join(pages, " "); all != "a b c "+ReadArtifact {
			t.Errorf("pages of %d have %q", size, pages)
		}
	}
	for _, none := range []bool{false, true} {
		b := newFakeBroker("a")
		b.noResults = none
		s := newSite(t, newServer(t, b, func(o *Options) { o.Artifacts = store }))
		session := s.open()
		ask := func(method, params string) message {
			return s.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, "Mcp-Session-Id", session).last(t)
		}
		uri := `{"uri":"` + record.URI() + `"}`
		list, read := ask("tools/list", "{}"), ask("resources/read", uri)
		called := ask("tools/call", `{"name":"`+ReadArtifact+`","arguments":`+uri+`}`)
		if strings.Contains(list.text, ReadArtifact) == none || strings.Contains(called.text, "all of it") == none || strings.Contains(read.text, "all of it") == none {
			t.Errorf("without large results is %v: it is listed %s, called %s, read %s", none, list.text, called.text, read.text)
		}
		if none && (called.code() != -31001 || read.code() != -32601) {
			t.Errorf("called: %s; read: %s", called.text, read.text)
		}
	}
}
