package crossing

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/artifact"
	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// standing is the limits block of a provider whose results become artifacts where
// nothing is said: the tests' own default lets them pass.
var standing = limits(`max_message = "64MiB"`)

// kept is the link to an artifact in a result.
type kept struct {
	Type string `json:"type"`
	URI  string `json:"uri"`
	MIME string `json:"mimeType"`
	Size int64  `json:"size"`
	Desc string `json:"description"`
}

// linksOf are the links in a result that went well.
func linksOf(t testing.TB, r hosttest.Reply) []kept {
	t.Helper()
	if r.Error != nil {
		t.Fatalf("error: %s", r.Error)
	}
	var result struct{ Content []kept }
	if err := json.Unmarshal(r.Result, &result); err != nil {
		t.Fatal(err)
	}
	var links []kept
	for _, c := range result.Content {
		if c.Type == "resource_link" && strings.HasPrefix(c.URI, "drawbridge://artifacts/") {
			links = append(links, c)
		}
	}
	return links
}

// big makes an artifact of so many bytes.
func big(t testing.TB, c hosttest.Client, name string, bytes int) kept {
	t.Helper()
	r := tool(t, c, name, fmt.Sprintf(`{"bytes":%d}`, bytes))
	links := linksOf(t, r)
	if len(links) != 1 || links[0].Size != int64(bytes) {
		t.Fatalf("the result of %d bytes has the links %+v: %.600s", bytes, links, r.Result)
	}
	return links[0]
}

// sumOf is the sha256 of what the tool big answers, in hexadecimal.
func sumOf(bytes int) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(fakeserver.BigText(bytes))))
}

// readPart reads a part through resources/read.
func readPart(t testing.TB, c hosttest.Client, uri string) string {
	t.Helper()
	r := c.Request(t, "resources/read", `{"uri":`+encoded(uri)+`}`)
	var result struct{ Contents []struct{ URI, Text string } }
	if r.Error != nil {
		t.Fatalf("%s: %s", uri, r.Error)
	} else if err := json.Unmarshal(r.Result, &result); err != nil || len(result.Contents) != 1 || result.Contents[0].URI != uri {
		t.Fatalf("%s: %v: %.300s", uri, err, r.Result)
	}
	return result.Contents[0].Text
}

// readParts reads an artifact whole, in parts, and returns its sha256.
func readParts(t testing.TB, c hosttest.Client, link kept, length int64) string {
	t.Helper()
	sum := sha256.New()
	for offset := int64(0); offset < link.Size; offset += length {
		text := readPart(t, c, fmt.Sprintf("%s?offset=%d&length=%d", link.URI, offset, length))
		if want := min(length, link.Size-offset); int64(len(text)) != want {
			t.Fatalf("at %d there are %d bytes, want %d", offset, len(text), want)
		}
		add(sum, text)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func add(sum hash.Hash, text string) { _, _ = io.WriteString(sum, text) }

// readByTool reads an artifact whole with the host's tool, as a model would: each
// part says where the next begins.
func readByTool(t testing.TB, c hosttest.Client, link kept) string {
	t.Helper()
	sum, offset := sha256.New(), int64(0)
	for {
		r := tool(t, c, "read_artifact", fmt.Sprintf(`{"uri":%q,"offset":%d,"length":524288}`, link.URI, offset))
		result := hosttest.ParseResult(t, "read_artifact", r.Result)
		if r.Error != nil || result.IsError || len(result.Content) != 2 {
			t.Fatalf("read_artifact at %d: %.300s", offset, r.Raw)
		}
		add(sum, result.Content[0].Text)
		offset += int64(len(result.Content[0].Text))
		if strings.Contains(result.Content[1].Text, "this is the end") {
			return fmt.Sprintf("%x", sum.Sum(nil))
		}
		if want := fmt.Sprintf("begins at offset %d]", offset); !strings.HasSuffix(result.Content[1].Text, want) {
			t.Fatalf("after %d bytes it says %q", offset, result.Content[1].Text)
		}
	}
}

// web asks for an artifact over plain HTTP.
func web(t testing.TB, h hosttest.Host, method, token, id string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(h.URL, "/mcp")+"/artifacts/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func idOf(link kept) string { return strings.TrimPrefix(link.URI, "drawbridge://artifacts/") }

// rowsOf are the rows of the journal, by `calls --json`.
func rowsOf(t testing.TB, p hosttest.Place, path string) []journalRow {
	t.Helper()
	out, err := hosttest.Output(t, p.Command(t, "calls", "--config", path, "--json"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []journalRow
	for line := range strings.Lines(out) {
		var r journalRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		rows = append(rows, r)
	}
	return rows
}

// journalRow is what tests look at of a call's row.
type journalRow struct {
	ID          string   `json:"id"`
	CallID      string   `json:"call_id"`
	Principal   string   `json:"principal"`
	Provider    string   `json:"provider"`
	Tool        string   `json:"tool"`
	Digest      string   `json:"digest"`
	Instance    string   `json:"instance"`
	Fence       string   `json:"fence"`
	Dispatched  bool     `json:"dispatched"`
	Outcome     string   `json:"outcome"`
	Reason      string   `json:"reason"`
	ResultBytes int64    `json:"result_bytes"`
	Artifacts   []string `json:"artifacts"`
	DurationMS  float64  `json:"duration_ms"`
}

// ended is how a call ended, in short.
func (r journalRow) ended() string {
	text := r.Tool + " " + r.Outcome
	if r.Reason != "" {
		text += " " + r.Reason
	}
	if r.Dispatched {
		text += " sent"
	}
	return text
}

// TestLargeResultsAreKept: with nothing said, a result over inline_result is ok, a
// preview and a link; it is in the journal, among the caller's resources and in
// `drawbridge artifacts`; and what is read back in parts is what the server sent.
func TestLargeResultsAreKept(t *testing.T) {
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		path := config(t, p, "", provider{name: "fake", body: standing})
		c := open(path)
		const size = 3*mib + 17
		link := big(t, c, "fake_big", size)
		if want := sumOf(size); !strings.Contains(link.Desc, want) {
			t.Errorf("the link says %q, and not sha256 %s", link.Desc, want)
		}
		for name, got := range map[string]string{
			"resources/read": readParts(t, c, link, 700_001), "read_artifact": readByTool(t, c, link),
			"resources/read, whole": readParts(t, c, link, size),
		} {
			if want := sumOf(size); got != want {
				t.Errorf("%s: the sha256 is %s, want %s", name, got, want)
			}
		}
		if r := c.Request(t, "resources/list", "{}"); !strings.Contains(string(r.Result), link.URI) {
			t.Errorf("resources/list: %s", r.Raw)
		}
		rows := rowsOf(t, p, path)
		if len(rows) != 1 || rows[0].Outcome != "ok" || rows[0].ResultBytes < size || len(rows[0].Artifacts) != 1 || rows[0].Artifacts[0] != idOf(link) {
			t.Errorf("the journal has %+v", rows)
		}
		out, err := hosttest.Output(t, p.Command(t, "artifacts", "--config", path, "--json"))
		var all []artifact.Record
		if err == nil {
			err = json.Unmarshal([]byte(out), &all)
		}
		record := append(all, artifact.Record{})[0]
		from := artifact.Origin{Principal: "local", Provider: "fake", Tool: "big", Digest: rows[0].Digest, Call: rows[0].ID}
		if err != nil || record.ID != idOf(link) || record.Origin != from || record.Size != size || record.SHA256 != sumOf(size) || record.Expires.Sub(record.Created) != 24*time.Hour {
			t.Errorf("drawbridge artifacts: %v: %s, want it from %+v", err, out, from)
		}
	})
}

// TestPartsThatAreNone: a range past the end, an id of nothing and a URI that means
// nothing have a clear answer each, however one asks.
func TestPartsThatAreNone(t *testing.T) {
	p := hosttest.NewPlace(t)
	h := p.ServeHTTP(t, config(t, p, "", provider{name: "fake", body: standing}))
	c := h.Client(t)
	link := big(t, c, "fake_big", mib)
	none := "drawbridge://artifacts/" + strings.Repeat("a", len(idOf(link)))
	for uri, want := range map[string]string{
		link.URI + "?offset=1048576": "has 1048576 bytes, and offset is 1048576", link.URI + "?offset=99999999999": "offset is 99999999999",
		link.URI + "?offset=-1": "offset is a number of bytes", link.URI + "?start=1": "start means nothing", none: "no such artifact",
	} {
		if r := c.Request(t, "resources/read", `{"uri":`+encoded(uri)+`}`); !strings.Contains(string(r.Error), want) {
			t.Errorf("resources/read %s: %s, want %q", uri, r.Raw, want)
		}
		r := tool(t, c, "read_artifact", `{"uri":`+encoded(uri)+`}`)
		if result := hosttest.ParseResult(t, uri, r.Result); !result.IsError || !strings.Contains(result.Text(), want) {
			t.Errorf("read_artifact %s: %s, want %q", uri, r.Raw, want)
		}
	}
	etag := `"` + sumOf(mib) + `"`
	for _, one := range []struct {
		method, id string
		headers    []string
		status     int
		length     int
	}{
		{http.MethodGet, idOf(link), nil, http.StatusOK, mib},
		{http.MethodHead, idOf(link), nil, http.StatusOK, 0},
		{http.MethodGet, idOf(link), []string{"Range", "bytes=1048570-"}, http.StatusPartialContent, 6},
		{http.MethodGet, idOf(link), []string{"Range", "bytes=10-19", "If-Range", etag}, http.StatusPartialContent, 10},
		{http.MethodGet, idOf(link), []string{"Range", "bytes=10-19", "If-Range", `"another"`}, http.StatusOK, mib},
		{http.MethodGet, idOf(link), []string{"If-None-Match", etag}, http.StatusNotModified, 0},
		{http.MethodGet, idOf(link), []string{"Range", "bytes=-5"}, http.StatusPartialContent, 5},
		{http.MethodGet, idOf(link), []string{"Range", "bytes=0-9,0-9,0-1048575"}, http.StatusOK, mib}, // more than the whole
		{http.MethodGet, idOf(link), []string{"Range", "lines=1-2"}, http.StatusOK, mib},
		{http.MethodGet, idOf(link), []string{"Range", "bytes=10-19", "If-Range", "W/" + etag}, http.StatusOK, mib},
		{http.MethodGet, idOf(link), []string{"If-Match", `"another"`}, http.StatusPreconditionFailed, 0},
		{http.MethodGet, idOf(link), []string{"Range", "bytes=1048576-"}, http.StatusRequestedRangeNotSatisfiable, -1},
		{http.MethodGet, idOf(link), []string{"Range", "bytes=-0"}, http.StatusRequestedRangeNotSatisfiable, -1},
		{http.MethodGet, idOf(link), []string{"Range", "bytes=9-2"}, http.StatusRequestedRangeNotSatisfiable, -1},
		{http.MethodPost, idOf(link), nil, http.StatusMethodNotAllowed, -1},
		{http.MethodGet, idOf(kept{URI: none}), nil, http.StatusNotFound, -1},
		{http.MethodGet, "../token", nil, http.StatusNotFound, -1},
	} {
		res, body := web(t, h, one.method, h.Token, one.id, one.headers...)
		if res.StatusCode != one.status || one.length >= 0 && len(body) != one.length {
			t.Errorf("%s %s %q: %s with %d bytes, want %d with %d", one.method, one.id, one.headers, res.Status, len(body), one.status, one.length)
		}
		if one.length > 0 && res.Header.Get("ETag") != etag {
			t.Errorf("%s %q: the ETag is %s, want %s", one.method, one.headers, res.Header.Get("ETag"), etag)
		}
	}
	// Of several ranges each is a part with its own place.
	res, body := web(t, h, http.MethodGet, h.Token, idOf(link), "Range", "bytes=0-1,1048570-")
	if kind, params, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || kind != "multipart/byteranges" || res.StatusCode != http.StatusPartialContent {
		t.Errorf("two ranges: %s, %s (%v)", res.Status, kind, err)
	} else {
		parts, whole := multipart.NewReader(strings.NewReader(body), params["boundary"]), fakeserver.BigText(mib)
		for _, want := range []struct{ at, text string }{{"bytes 0-1/1048576", whole[:2]}, {"bytes 1048570-1048575/1048576", whole[1048570:]}} {
			part, err := parts.NextPart()
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(part); err != nil || string(text) != want.text || part.Header.Get("Content-Range") != want.at {
				t.Errorf("%q at %s (%v), want %q at %s", text, part.Header.Get("Content-Range"), err, want.text, want.at)
			}
		}
	}
	if res, _ := web(t, h, http.MethodGet, "", idOf(link)); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", res.Status)
	}
}

// TestArtifactsAreTheirCallersOwn: to another principal an artifact is as one that
// never was, and so is one whose time is over to its own.
func TestArtifactsAreTheirCallersOwn(t *testing.T) {
	p := hosttest.NewPlace(t)
	grant := "  grant {\n    principals = [\"ann\", \"ben\"]\n    provider = \"fake\"\n    tools = [\"*\"]\n  }\n"
	h := p.ServeHTTP(t, p.Write(t, "providers.hcl", hostBlock(p, "")+blocks(t, p, provider{name: "fake", body: standing + "  session {\n    scope = \"shared\"\n  }\n"})+
		principal("ann", tokenAttribute("ann"))+principal("ben", tokenAttribute("ben"))+"project \"site\" {\n"+grant+"}\n"))
	ann, ben := hosttest.DialHTTP(h.URL, "ann"), hosttest.DialHTTP(h.URL, "ben")
	hosttest.Open(t, ann)
	hosttest.Open(t, ben)
	link := big(t, ann, "fake_big", mib)
	none := strings.Repeat("b", len(idOf(link)))
	// answers are all that one may be told of an artifact, without its id.
	answers := func(c *hosttest.HTTP, token, id string) []string {
		uri := "drawbridge://artifacts/" + id
		res, body := web(t, h, http.MethodGet, token, id)
		all := []string{
			string(c.Request(t, "resources/read", `{"uri":`+encoded(uri)+`}`).Error),
			string(c.Request(t, "resources/read", `{"uri":`+encoded(uri+"?offset=99999999")+`}`).Error),
			string(tool(t, c, "read_artifact", `{"uri":`+encoded(uri)+`}`).Result),
			res.Status + " " + res.Header.Get("ETag") + body,
		}
		for i := range all {
			all[i] = strings.ReplaceAll(all[i], id, "ID")
		}
		return all
	}
	same := func(what string, got, want []string) {
		t.Helper()
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s is answered with\n%.300s\nand what never was with\n%.300s", what, got[i], want[i])
			}
		}
	}
	never := answers(ben, "ben", none)
	same("another's", answers(ben, "ben", idOf(link)), never)
	if r := ben.Request(t, "resources/list", "{}"); strings.Contains(string(r.Result), idOf(link)) || r.Error != nil {
		t.Errorf("ben is listed %s", r.Raw)
	}
	if got := readParts(t, ann, link, mib); got != sumOf(mib) {
		t.Errorf("its owner reads %s", got)
	}
	record := p.Path(filepath.Join("state", "artifacts", idOf(link)+".json"))
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	fields["expires"] = time.Now().Add(-time.Second)
	if text, err = json.Marshal(fields); err == nil {
		err = os.WriteFile(record, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	same("what is over", answers(ann, "ann", idOf(link)), answers(ann, "ann", none))
}

// TestAFullQuotaCostsNoOutcome: the oldest makes room, and what alone is larger than
// the quota is not kept and is said; each call is ok.
func TestAFullQuotaCostsNoOutcome(t *testing.T) {
	p := hosttest.NewPlace(t)
	path := config(t, p, "artifacts {\n    quota = \"3MiB\"\n  }\n", provider{name: "fake", body: standing})
	c := p.ServeStdio(t, path)
	var links []kept
	for range 3 {
		links = append(links, big(t, c, "fake_big", mib+mib/4))
	}
	if r := c.Request(t, "resources/read", `{"uri":`+encoded(links[0].URI)+`}`); !strings.Contains(string(r.Error), "kept no longer") {
		t.Errorf("the oldest: %.300s", r.Raw)
	}
	for _, link := range links[1:] {
		if got := readParts(t, c, link, mib); got != sumOf(mib+mib/4) {
			t.Errorf("a younger one is read as %s", got)
		}
	}
	r := tool(t, c, "fake_big", fmt.Sprintf(`{"bytes":%d}`, 4*mib))
	if text := textOf(t, r); len(linksOf(t, r)) != 0 || !strings.Contains(text, "could not be kept") || !strings.Contains(text, "quota") {
		t.Errorf("over the quota the caller is told %.600s", text)
	}
	if got := readParts(t, c, links[2], mib); got != sumOf(mib+mib/4) {
		t.Errorf("after it a younger one is read as %s", got)
	}
	rows := rowsOf(t, p, path)
	if len(rows) != 4 {
		t.Fatalf("the journal has %d rows", len(rows))
	}
	for i, row := range rows {
		if want := i < 3; row.Outcome != "ok" || row.Reason != "" || (len(row.Artifacts) == 1) != want {
			t.Errorf("the journal has %+v", row)
		}
	}
}

// TestStructuredContentStaysInline where the tool declares an outputSchema, whose
// result clients would reject without; where it does not, it is kept like any other.
func TestStructuredContentStaysInline(t *testing.T) {
	p := hosttest.NewPlace(t)
	file := p.Write(t, "tools.json", `[{"name":"declares","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}},{"name":"silent","inputSchema":{"type":"object"}}]`)
	c := p.ServeStdio(t, config(t, p, "", provider{name: "fake", args: []string{"--tools", "none", "--tools-file", file}, body: standing}))
	structured := `{"n":9007199254740993,"rows":"` + fakeserver.BigText(700<<10) + `"}`
	args := `{"result":{"content":[{"type":"text","text":"` + fakeserver.BigText(800<<10) + `"}],"structuredContent":` + structured + `}}`
	r := tool(t, c, "fake_declares", args)
	if got := hosttest.ParseResult(t, "declares", r.Result).Structured; string(got) != structured {
		t.Errorf("structuredContent has %d bytes, want the %d of the server", len(got), len(structured))
	}
	if links := linksOf(t, r); len(links) != 1 || readParts(t, c, links[0], mib) != sumOf(800<<10) {
		t.Errorf("its text is kept as %+v", links)
	}
	r = tool(t, c, "fake_silent", args)
	if got := hosttest.ParseResult(t, "silent", r.Result).Structured; got != nil {
		t.Errorf("structuredContent has %d bytes", len(got))
	}
	if links := linksOf(t, r); len(links) != 2 || readPart(t, c, links[1].URI) != structured {
		t.Errorf("it is kept as %+v", links)
	}
}
