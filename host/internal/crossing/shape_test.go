package crossing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// TestC052_ResultsPassWhateverTheirSchema says: what does not fit the outputSchema, an
// error without structured content, what fits, and what has a schema that is none
// reach the client as the server wrote them. The first and the last cost one warning
// each, however often they are called and in however many processes, and no warning
// tells what is in a result.
func TestC052_ResultsPassWhateverTheirSchema(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"integer"}}}`
	transports(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		file := p.Write(t, "tools.json", fmt.Sprintf(`[
			{"name":"typed","inputSchema":{"type":"object"},"outputSchema":%s},
			{"name":"broken","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"type":"integre"}}}},
			{"name":"free","inputSchema":{"type":"object"}},
			{"name":"mark1","inputSchema":{"type":"object"},"outputSchema":%[1]s},
			{"name":"mark2","inputSchema":{"type":"object"},"outputSchema":%[1]s},
			{"name":"exit","inputSchema":{"type":"object"}}]`, schema))
		c := open(config(t, p, "", provider{name: "fake", args: []string{"--tools", "none", "--tools-file", file}, body: quick}))
		warnings := func(tool string) (lines []string) {
			for line := range strings.Lines(c.host().Said()) {
				if strings.Contains(line, "level=WARN") && strings.Contains(line, " tool="+tool+" ") {
					lines = append(lines, line)
				}
			}
			return lines
		}
		hosttest.Definitions(t, c)
		eventually(t, "no warning of a list", func() bool { return len(warnings("broken")) > 0 })
		misfit := `{"content":[{"type":"text","text":"a is x"}],"structuredContent":{"a":"x"}}`
		failed := `{"content":[{"type":"text","text":"there is no a"}],"isError":true}`
		fits := `{"content":[{"text":"a is 1","type":"text"}], "structuredContent":{"a":1}}`
		round := func(mark string) {
			t.Helper()
			for range 10 {
				for tool, results := range map[string][]string{"typed": {misfit, failed, fits}, "broken": {misfit, fits}, "free": {misfit}} {
					for _, result := range results {
						r := c.Request(t, "tools/call", `{"name":"fake_`+tool+`","arguments":{"result":`+result+`}}`)
						if string(r.Result) != result {
							t.Errorf("%s:\n%s\nwant\n%s", tool, r.Raw, result)
						}
					}
				}
			}
			// Answers are looked at in their order: when this one was, so were all before.
			eventually(t, "no warning of "+mark, func() bool {
				tool(t, c, "fake_"+mark, `{"result":{"content":[],"structuredContent":{"hidden-name":1,"a":"hidden-value"}}}`)
				return len(warnings(mark)) > 0
			})
		}
		check := func() {
			t.Helper()
			for tool, want := range map[string]string{
				"typed":  `msg="a result does not fit the tool's outputSchema; it was passed on as it is" provider=fake tool=typed at=/a expected=integer found=string rule=/properties/a/type`,
				"broken": `msg="a tool's outputSchema is no JSON Schema; its results are passed on as they are" provider=fake tool=broken at=/properties/a/type problem=`,
				"mark1":  " tool=mark1 at=/a ",
			} {
				if got := warnings(tool); len(got) != 1 || !strings.Contains(got[0], want) {
					t.Errorf("of %s it is said:\n%s\nwant one line with\n%s", tool, strings.Join(got, ""), want)
				}
			}
			if said := c.host().Said(); len(warnings("free")) > 0 || strings.Contains(said, "hidden-") {
				t.Errorf("the host said\n%s", said)
			}
		}
		round("mark1")
		check()
		tool(t, c, "fake_exit", "{}")
		tool(t, c, "fake_free", "{}") // whose result says that the process is another
		round("mark2")
		check()
		if n := starts(logged(t, p, "fake")); n != 2 {
			t.Errorf("the server was started %d times, want 2", n)
		}
	})
}
