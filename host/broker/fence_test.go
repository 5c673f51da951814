package broker

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
)

// TestFence is the manual of the fence: what the caller was shown or names, against
// the definition that is there (digest d1, provider shop, identity i1).
func TestFence(t *testing.T) {
	there := &catalog.Tool{Provider: "shop", Name: "pay", Identity: "i1", Digest: "d1"}
	shown := func(identity, digest string) *item {
		return &item{Provider: "shop", Name: "pay", Identity: identity, Digest: digest}
	}
	for name, c := range map[string]struct {
		terms  terms
		fence  Fence
		reason string
	}{
		"shown as it is":                           {terms{was: shown("i1", "d1")}, Shown, ""},
		"shown otherwise":                          {terms{was: shown("i1", "d0")}, "", reasonDefinitionChanged},
		"shown, of another server":                 {terms{was: shown("i0", "d1")}, "", reasonProviderChanged},
		"shown, of another server and otherwise":   {terms{was: shown("i0", "d0")}, "", reasonProviderChanged},
		"shown under this name by another":         {terms{was: &item{Provider: "bank", Name: "pay", Identity: "i1", Digest: "d1"}}, "", reasonProviderChanged},
		"shown to be gone":                         {terms{was: shown("i1", "d1").gone()}, "", reasonDefinitionChanged},
		"shown nothing":                            {terms{}, FirstUse, ""},
		"shown nothing, discovery required":        {terms{required: true}, "", reasonNotDiscovered},
		"shown, discovery required":                {terms{was: shown("i1", "d1"), required: true}, Shown, ""},
		"what was shown is lost":                   {terms{lossy: true}, "", reasonNotDiscovered},
		"lost, but for this":                       {terms{was: shown("i1", "d1"), lossy: true}, Shown, ""},
		"named as it is":                           {terms{named: "d1"}, Named, ""},
		"named as it is, discovery required":       {terms{named: "d1", required: true}, Named, ""},
		"named as it is, shown otherwise":          {terms{was: shown("i1", "d0"), named: "d1"}, Named, ""},
		"named as it is, shown to be gone":         {terms{was: shown("i1", "d0").gone(), named: "d1"}, Named, ""},
		"named as it is, shown of another server":  {terms{was: shown("i0", "d1"), named: "d1"}, "", reasonProviderChanged},
		"named otherwise":                          {terms{named: "d0"}, "", reasonDefinitionChanged},
		"named otherwise, shown as it is":          {terms{was: shown("i1", "d1"), named: "d0"}, "", reasonDefinitionChanged},
		"named otherwise, shown nothing, required": {terms{named: "d0", required: true}, "", reasonDefinitionChanged},
	} {
		if fence, reason := c.terms.judge(there); fence != c.fence || reason != c.reason {
			t.Errorf("%s: %q %q, want %q %q", name, fence, reason, c.fence, c.reason)
		}
	}
}

// TestProcess is the other half: the process that takes the call is h/shop/2.
func TestProcess(t *testing.T) {
	const mark, before = "h/shop/2", "h/shop/1"
	for name, c := range map[string]struct {
		process  process
		reason   string
		replaced bool
	}{
		"the first call":                    {process{stateful: true}, "", false},
		"the same process":                  {process{last: mark, stateful: true}, "", false},
		"another one":                       {process{last: before}, "", true},
		"another one, of a stateful server": {process{last: before, stateful: true}, reasonInstanceReplaced, false},
		"named":                             {process{last: before, named: mark, stateful: true}, "", false},
		"another one named":                 {process{last: mark, named: before}, reasonInstanceReplaced, false},
		"another one named, first call":     {process{named: before}, reasonInstanceReplaced, false},
	} {
		if reason, replaced := c.process.judge(mark); reason != c.reason || replaced != c.replaced {
			t.Errorf("%s: %q %v, want %q %v", name, reason, replaced, c.reason, c.replaced)
		}
	}
}

// tool makes a tool of a definition, as the catalog does.
func tool(t *testing.T, def string) *catalog.Tool {
	t.Helper()
	return snapshotOf(t, map[string][]string{"shop": {def}}).Tools()[0]
}

func snapshotOf(t testing.TB, lists map[string][]string) *catalog.Snapshot {
	t.Helper()
	var providers []catalog.Provider
	for slug := range lists {
		providers = append(providers, catalog.Provider{Slug: slug, Tools: []string{"*"}})
	}
	store := catalog.New(catalog.Options{}, providers)
	for slug, defs := range lists {
		var raw []json.RawMessage
		for _, def := range defs {
			raw = append(raw, json.RawMessage(def))
		}
		if err := store.Put(slug, "h/"+slug+"/1", raw); err != nil {
			t.Fatal(err)
		}
	}
	return store.Snapshot()
}

func TestARefusalShowsTheDefinition(t *testing.T) {
	small := tool(t, `{"name":"pay","inputSchema":{"type":"object","properties":{"target":{"type":"string"}}}}`)
	was := &item{Provider: "shop", Name: "pay", Digest: "d0"}
	for reason, says := range map[string]string{
		reasonDefinitionChanged: "no longer the one that you were shown",
		reasonProviderChanged:   "stands for another server now",
		reasonNotDiscovered:     "you have not been shown its definition",
	} {
		reply := stale(reason, was, small, "r1").reply()
		for _, part := range []string{`tool "pay" of provider "shop"`, says, "had no effect", string(small.Listed), "call the tool again"} {
			if !strings.Contains(reply.Err.Message, part) {
				t.Errorf("%s: the message %q does not say %q", reason, reply.Err.Message, part)
			}
		}
		var d data
		if err := json.Unmarshal(reply.Err.Data, &d); err != nil {
			t.Fatal(err)
		}
		if want := (data{Outcome: Stale, Reason: reason, Provider: "shop", Tool: "pay", Revision: "r1", Digest: small.Digest, Retry: RetryYes}); d.Outcome != want.Outcome ||
			d.Reason != want.Reason || d.Revision != want.Revision || d.Digest != want.Digest || d.Retry != want.Retry || d.Dispatched || reply.Err.Code != CodeStale {
			t.Errorf("%s: data %s", reason, reply.Err.Data)
		}
	}
	if back := stale(reasonDefinitionChanged, was.gone(), small, "r1").reply().Err.Message; !strings.Contains(back, "it had been gone and is there again") {
		t.Errorf("of one that is back: %q", back)
	}
	gone := stale(reasonToolGone, was, nil, "r1").reply()
	if !strings.Contains(gone.Err.Message, "it is gone") || !strings.Contains(gone.Err.Message, "list the tools") {
		t.Errorf("gone: %q", gone.Err.Message)
	}
}

// TestARefusalOfALargeDefinitionShowsWhatDiffers, and only that.
func TestARefusalOfALargeDefinitionShowsWhatDiffers(t *testing.T) {
	text := strings.Repeat("words and words. ", 1000)
	large := func(description, argument string) *catalog.Tool {
		return tool(t, `{"name":"pay","description":"`+description+text+`","inputSchema":{"type":"object","x":"`+text+`","properties":{"a":{"type":"string","description":"`+text+`"},"`+argument+`":{"type":"integer"}}}}`)
	}
	before, after := large("", "to"), large("", "target")
	message := stale(reasonDefinitionChanged, itemOf(before), after, "r").reply().Err.Message
	for _, part := range []string{"inputSchema.properties.target: {\"type\":\"integer\"}", "inputSchema.properties.to was taken out"} {
		if !strings.Contains(message, part) {
			t.Errorf("the message does not say %q:\n%.600s", part, message)
		}
	}
	if strings.Contains(message, "words and words") || len(message) > maxDefinition {
		t.Errorf("the message has %d bytes, and what did not change:\n%.600s", len(message), message)
	}
	// What was shown before is not known: the fields that there are, cut.
	message = stale(reasonNotDiscovered, nil, after, "r").reply().Err.Message
	if !strings.Contains(message, "These are its fields") || !strings.Contains(message, "the first of its") || len(message) > maxDefinition+1<<10 {
		t.Errorf("%d bytes: %.600s", len(message), message)
	}
	if a, b := fieldsOf(before), fieldsOf(large("", "to")); len(a) < 5 || !equalFields(a, b) {
		t.Errorf("fields %v and %v", a, b)
	}
	if fieldsOf(tool(t, `{"name":"pay"}`)) != nil {
		t.Error("a small definition takes room in memory")
	}
}

func equalFields(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}
