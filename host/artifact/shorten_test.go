package artifact

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// answer parses a server's message, in pieces, as it arrives.
func answer(t testing.TB, text string) *rpc.Message {
	t.Helper()
	a := rpc.NewAssembler(rpc.FromServer, t.TempDir(), 0)
	if _, err := io.Copy(a, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	m, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func result(members string) string {
	return `{"jsonrpc":"2.0","id":7,"result":{` + members + `}}`
}

func shorten(t testing.TB, s *Store, text string, b Bounds) *Shortened {
	t.Helper()
	b.SpoolDir = t.TempDir()
	out, err := s.Shorten(answer(t, text), origin, b)
	if err != nil {
		t.Fatal(err)
	}
	if out != nil {
		t.Cleanup(func() { _ = out.Message.Close() })
	}
	return out
}

// blocksOf is the content of a result, each block as a map.
func blocksOf(t testing.TB, m *rpc.Message) []map[string]any {
	t.Helper()
	var blocks []map[string]any
	if err := json.Unmarshal(m.Get("result", "content"), &blocks); err != nil {
		t.Fatal(err)
	}
	return blocks
}

func read(t testing.TB, s *Store, id string) string {
	t.Helper()
	f, _, err := s.Reader(origin.Principal, id)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func TestAResultWithinTheBoundIsLeftAlone(t *testing.T) {
	s, _ := newStore(t, 1<<20)
	for _, text := range []string{
		result(`"content":[{"type":"text","text":"` + strings.Repeat("x", 5000) + `"}]`),
		`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"` + strings.Repeat("x", 50_000) + `"}}`,
	} {
		if out := shorten(t, s, text, Bounds{Inline: 6000}); out != nil {
			t.Errorf("it was changed: %+v", out)
		}
	}
	if left := files(t, s); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestTheBoundIsExact: a result of as many bytes as may be passed is passed.
func TestTheBoundIsExact(t *testing.T) {
	s, _ := newStore(t, 1<<20)
	members := `"content":[{"type":"text","text":"` + strings.Repeat("x", 9000) + `"}]`
	size := int64(len("{" + members + "}"))
	if out := shorten(t, s, result(members), Bounds{Inline: size}); out != nil {
		t.Errorf("of %d bytes, which may be passed, it was changed: %+v", size, out)
	}
	if out := shorten(t, s, result(members), Bounds{Inline: size - 1}); out == nil || len(out.Kept) != 1 {
		t.Errorf("one byte over the bound it became %+v", out)
	}
}

func TestLargeBlocksBecomeLinksInTheirPlace(t *testing.T) {
	s, _ := newStore(t, 1<<30)
	text := strings.Repeat("é\"\n😀", 3000)
	image := strings.Repeat("\x00\xffPNG", 4000)
	page := strings.Repeat("<p>page</p>", 2000)
	out := shorten(t, s, result(`"_meta":{"k":9007199254740993},"content":[{"type":"text","text":"first"},`+
		`{"type":"text","text":`+quote(text)+`,"annotations":{"audience":["user"]}},`+
		`{"type":"image","mimeType":"image/png","data":"`+base64.StdEncoding.EncodeToString([]byte(image))+`"},`+
		`{"type":"resource","resource":{"uri":"file:///a/page.html","mimeType":"text/html","text":`+quote(page)+`}},`+
		`{"type":"text","text":"last"}],"isError":false,"x":[1,  2]`), Bounds{Inline: 4096})
	if out == nil || out.Lost != nil || len(out.Kept) != 3 {
		t.Fatalf("shortened: %+v", out)
	}
	blocks := blocksOf(t, out.Message)
	var types []string
	for _, b := range blocks {
		types = append(types, fmt.Sprint(b["type"]))
	}
	want := []string{"text", "text", "resource_link", "text", "resource_link", "text", "resource_link", "text"}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Fatalf("blocks (-want +got):\n%s", diff)
	}
	if blocks[0]["text"] != "first" || blocks[7]["text"] != "last" {
		t.Errorf("small blocks were changed: %v, %v", blocks[0], blocks[7])
	}
	for i, c := range []struct{ content, mime, name string }{
		{text, mimeText, "report result"}, {image, "image/png", "report result"}, {page, "text/html", "page.html"},
	} {
		r, l := out.Kept[i], blocks[2+2*i]
		sum := sha256.Sum256([]byte(c.content))
		if got := read(t, s, r.ID); got != c.content || r.SHA256 != hex.EncodeToString(sum[:]) || r.Size != int64(len(c.content)) {
			t.Errorf("artifact %d has %d bytes, want %d", i, len(got), len(c.content))
		}
		if r.MIME != c.mime || l["mimeType"] != c.mime || l["uri"] != r.URI() || l["name"] != c.name || l["size"] != float64(r.Size) {
			t.Errorf("link %d: %v of %+v", i, l, r)
		}
	}
	if diff := cmp.Diff(map[string]any{"audience": []any{"user"}}, blocks[2]["annotations"]); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	about, _ := blocks[1]["text"].(string)
	for _, part := range []string{"read_artifact", out.Kept[0].URI(), "é\"\n😀é\"\n😀"} {
		if !strings.Contains(about, part) {
			t.Errorf("preview does not say %q: %.200q", part, about)
		}
	}
	if got := string(out.Message.Get("result", "_meta")) + string(out.Message.Get("result", "x")); got != `{"k":9007199254740993}[1,  2]` {
		t.Errorf("the rest was changed: %s", got)
	}
	if out.Message.ID != "7" || out.Message.Size() > 8192 {
		t.Errorf("id %s, %d bytes", out.Message.ID, out.Message.Size())
	}
}

func TestOnlyAsMuchAsIsNeededIsTakenOut(t *testing.T) {
	s, _ := newStore(t, 1<<30)
	block := func(n int) string { return `{"type":"text","text":"` + strings.Repeat("x", n) + `"}` }
	out := shorten(t, s, result(`"content":[`+block(20_000)+`,`+block(30_000)+`,`+block(10_000)+`]`), Bounds{Inline: 32_000})
	if out == nil || len(out.Kept) != 1 || out.Kept[0].Size != 30_000 {
		t.Fatalf("shortened: %+v", out)
	}
}

func TestManySmallBlocksAreKeptTogether(t *testing.T) {
	for _, n := range []int{200, mostBlocks + 1} {
		s, _ := newStore(t, 1<<30)
		content := `[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"`+strings.Repeat("y", 100)+`"},`, n), ",") + `]`
		out := shorten(t, s, result(`"content":`+content), Bounds{Inline: 4096})
		if out == nil || len(out.Kept) != 1 || out.Kept[0].MIME != mimeJSON {
			t.Fatalf("%d blocks: %+v", n, out)
		}
		if read(t, s, out.Kept[0].ID) != content {
			t.Errorf("%d blocks: the artifact is not the content", n)
		}
		if blocks := blocksOf(t, out.Message); len(blocks) != 2 {
			t.Errorf("%d blocks: %d are left", n, len(blocks))
		}
	}
}

func TestStructuredContent(t *testing.T) {
	large := `{"rows":[` + strings.Repeat("1,", 9000) + `1]}`
	for name, c := range map[string]struct {
		members string
		keep    bool
		kept    int
		stays   bool
	}{
		"with an outputSchema it stays": {`"content":[{"type":"text","text":"t"}],"structuredContent":` + large, true, 0, true},
		"beside large text":             {`"content":[{"type":"text","text":` + quote(large) + `}],"structuredContent":` + large, true, 1, true},
		"without one it is kept":        {`"content":[{"type":"text","text":"t"}],"structuredContent":` + large, false, 1, false},
		"both":                          {`"structuredContent":` + large + `,"content":[{"type":"text","text":` + quote(large) + `}]`, false, 2, false},
		"without content":               {`"structuredContent":` + large, false, 1, false},
		"empty content":                 {`"content":[ ],"structuredContent":` + large, false, 1, false},
		"content that is none":          {`"content":null,"structuredContent":` + large, false, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStore(t, 1<<30)
			out := shorten(t, s, result(c.members), Bounds{Inline: 4096, KeepStructured: c.keep})
			if c.kept == 0 && c.stays {
				if out != nil && len(out.Kept) > 0 {
					t.Fatalf("kept %v", out.Kept)
				}
				return
			}
			if out == nil || len(out.Kept) != c.kept {
				t.Fatalf("shortened: %+v", out)
			}
			if got := out.Message.Get("result", "structuredContent"); (got != nil) != c.stays || c.stays && string(got) != large {
				t.Errorf("structuredContent: %.40s", got)
			}
			links := 0
			for _, b := range blocksOf(t, out.Message) {
				if b["type"] == "resource_link" {
					links++
				}
			}
			if links != c.kept {
				t.Errorf("%d links, want %d: %s", links, c.kept, out.Message.Get("result", "content"))
			}
		})
	}
}

// TestDoubledMembers: of a member that stands twice in a result each is shortened, and
// nothing of either is lost, for clients differ in which of them they take.
func TestDoubledMembers(t *testing.T) {
	a, b := strings.Repeat("a", 9000), strings.Repeat("b", 8000)
	text := func(s string) string { return `[{"type":"text","text":` + quote(s) + `}]` }
	for name, c := range map[string]struct {
		members string
		kept    []string
		stays   string
	}{
		"content":            {`"content":` + text(a) + `,"content":` + text(b), []string{a, b}, ""},
		"the first is large": {`"content":` + text(a) + `,"content":` + text("small"), []string{a}, `"content":[{"type":"text","text":"small"}]`},
		"the last is large":  {`"content":` + text("small") + `,"content":` + text(a), []string{a}, `"content":[{"type":"text","text":"small"}]`},
		"structuredContent":  {`"content":[],"structuredContent":` + quote(a) + `,"structuredContent":` + quote(b), []string{quote(a), quote(b)}, ""},
		"both":               {`"content":` + text(a) + `,"structuredContent":` + quote(b) + `,"content":` + text("small"), []string{a, quote(b)}, `{"type":"text","text":"small"}`},
		"small structured":   {`"structuredContent":"small","content":[],"structuredContent":` + quote(a), []string{`"small"`, quote(a)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStore(t, 1<<30)
			out := shorten(t, s, result(c.members), Bounds{Inline: 6000})
			if out == nil {
				t.Fatal("it was not shortened")
			}
			var kept []string
			for _, r := range out.Kept {
				kept = append(kept, read(t, s, r.ID))
			}
			if diff := cmp.Diff(c.kept, kept); diff != "" {
				t.Errorf("what is kept (-want +got):\n%.300s", diff)
			}
			whole, err := out.Message.Payload().Append(nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(whole) > 6000 || !strings.Contains(string(whole), c.stays) {
				t.Errorf("it has %d bytes: %s", len(whole), whole)
			}
			for _, r := range out.Kept {
				if !strings.Contains(string(whole), `"uri":"`+r.URI()+`"`) {
					t.Errorf("there is no link to %s: %s", r.URI(), whole)
				}
			}
		})
	}
}

func TestOddBlocksAreKeptAsTheyAre(t *testing.T) {
	pad := strings.Repeat("z", 6000)
	for name, block := range map[string]string{
		"unknown kind":      `{"type":"x-new","v":"` + pad + `"}`,
		"no base64":         `{"type":"image","data":"!!` + pad + `"}`,
		"half base64":       `{"type":"image","data":"` + pad + `A"}`,
		"no object":         `["` + pad + `"]`,
		"text of no string": `{"type":"text","text":["` + pad + `"]}`,
		"resource of none":  `{"type":"resource","resource":"` + pad + `"}`,
		"a link":            `{"type":"resource_link","uri":"a:b","description":"` + pad + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStore(t, 1<<30)
			out := shorten(t, s, result(`"content":[`+block+`]`), Bounds{Inline: 4096})
			if out == nil || len(out.Kept) != 1 || out.Lost != nil {
				t.Fatalf("shortened: %+v", out)
			}
			if got := read(t, s, out.Kept[0].ID); got != block {
				t.Errorf("kept %.60s, want %.60s", got, block)
			}
		})
	}
}

func TestWhatCannotBeKeptIsSaidAndCostsNothingElse(t *testing.T) {
	s, _ := newStore(t, 10_000)
	out := shorten(t, s, result(`"content":[{"type":"text","text":"`+strings.Repeat("a", 20_000)+`"},{"type":"text","text":"`+strings.Repeat("b", 8000)+`"}],"isError":false`), Bounds{Inline: 1024})
	if out == nil || !errors.Is(out.Lost, ErrQuota) || len(out.Kept) != 1 {
		t.Fatalf("shortened: %+v", out)
	}
	blocks := blocksOf(t, out.Message)
	said, _ := blocks[0]["text"].(string)
	for _, part := range []string{"could not be kept", "has run to its end", "do not repeat it", "artifacts.quota"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q does not say %q", said, part)
		}
	}
	if strings.Contains(said, "succeeded") { // the tool may have said that it did not
		t.Errorf("it says %q", said)
	}
	if len(blocks) != 3 || blocks[2]["uri"] != out.Kept[0].URI() {
		t.Errorf("blocks: %v", blocks)
	}
	if n := len(files(t, s)); n != 2 {
		t.Errorf("files: %v", files(t, s))
	}
}

// TestPartsOfOneResultCostEachOtherNothing: where they do not fit together, what is
// linked to is there, and of the others it is said that they are not.
func TestPartsOfOneResultCostEachOtherNothing(t *testing.T) {
	s, _ := newStore(t, 25_000)
	old := put(t, s, origin, strings.Repeat("o", 9000))
	var blocks []string
	for _, c := range []string{"a", "b", "c"} {
		blocks = append(blocks, `{"type":"text","text":"`+strings.Repeat(c, 10_000)+`"}`)
	}
	out := shorten(t, s, result(`"content":[`+strings.Join(blocks, ",")+`]`), Bounds{Inline: 4096})
	if out == nil || !errors.Is(out.Lost, ErrQuota) || len(out.Kept) != 2 {
		t.Fatalf("shortened: %+v", out)
	}
	for i, want := range []string{"a", "b"} {
		if got := read(t, s, out.Kept[i].ID); got != strings.Repeat(want, 10_000) {
			t.Errorf("part %d is read as %.20s", i, got)
		}
	}
	links, lost := 0, 0
	for _, b := range blocksOf(t, out.Message) {
		if b["type"] == "resource_link" {
			links++
		} else if text, _ := b["text"].(string); strings.Contains(text, "could not be kept") {
			lost++
		}
	}
	if links != 2 || lost != 1 {
		t.Errorf("%d links and %d that are not kept: %s", links, lost, out.Message.Get("result", "content"))
	}
	if _, err := s.Stat(origin.Principal, old.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("an older one has made no room: %v", err)
	}
}

// TestAPartThatDoesNotFitBesideTheOthersRemovesNothing: it is not kept, whatever goes.
func TestAPartThatDoesNotFitBesideTheOthersRemovesNothing(t *testing.T) {
	s, _ := newStore(t, 25_000)
	old := put(t, s, origin, strings.Repeat("o", 4000))
	out := shorten(t, s, result(`"content":[{"type":"text","text":"`+strings.Repeat("a", 18_000)+`"},{"type":"text","text":"`+strings.Repeat("b", 10_000)+`"}]`), Bounds{Inline: 4096})
	if out == nil || !errors.Is(out.Lost, ErrQuota) || len(out.Kept) != 1 {
		t.Fatalf("shortened: %+v", out)
	}
	if _, err := s.Stat(origin.Principal, old.ID); err != nil {
		t.Errorf("an older one has gone for nothing: %v", err)
	}
}

// TestWhyAPartIsNotKeptTellsNoPath: the result goes to whoever called.
func TestWhyAPartIsNotKeptTellsNoPath(t *testing.T) {
	s, _ := newStore(t, 1<<20)
	if err := errors.Join(os.RemoveAll(s.opts.Dir), os.WriteFile(s.opts.Dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	short := shorten(t, s, result(`"content":[{"type":"text","text":"`+strings.Repeat("x", 10<<10)+`"}]`), Bounds{Inline: 8 << 10})
	text, err := short.Message.Payload().Append(nil)
	if err != nil || short.Lost == nil || strings.Contains(string(text), s.opts.Dir) || !strings.Contains(string(text), "could not be kept: not a directory") {
		t.Errorf("%v, %v: %s", err, short.Lost, text)
	}
}

// TestALargeResultTakesLittleMemory looks at what is allocated on the way, which
// is more than what is held at any moment.
func TestALargeResultTakesLittleMemory(t *testing.T) {
	const size = 64 << 20
	a := rpc.NewAssembler(rpc.FromServer, t.TempDir(), 0)
	sum := sha256.New()
	if _, err := io.WriteString(a, `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"`); err != nil {
		t.Fatal(err)
	}
	piece := []byte(strings.Repeat(`0123456789abcde\n`, 4096))
	plain := []byte(strings.ReplaceAll(string(piece), `\n`, "\n"))
	for written := 0; written < size; written += len(piece) {
		if _, err := a.Write(piece); err != nil {
			t.Fatal(err)
		}
		sum.Write(plain)
	}
	if _, err := io.WriteString(a, `"}]}}`); err != nil {
		t.Fatal(err)
	}
	m, err := a.Finish()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, _ := newStore(t, 1<<30)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, err := s.Shorten(m, origin, Bounds{Inline: 512 << 10, SpoolDir: t.TempDir()})
	runtime.ReadMemStats(&after)
	if err != nil || len(out.Kept) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if out.Kept[0].SHA256 != hex.EncodeToString(sum.Sum(nil)) {
		t.Error("the artifact is not what the server sent")
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
		t.Errorf("%d bytes were allocated for a result of %d", took, size)
	}
}
