package main

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/config"
)

// TestTheLogTellsOfHiddenTools: nobody else hears why a tool is not there.
func TestTheLogTellsOfHiddenTools(t *testing.T) {
	cfg := &config.Config{Providers: []*config.Provider{
		{Slug: "a", Enabled: true, Tools: []string{"*"}}, {Slug: "b", Enabled: true, Tools: []string{"*"}},
	}}
	cfg.Host.Names = "bare"
	var log strings.Builder
	store := newCatalog(cfg, false, slog.New(slog.NewTextHandler(&log, nil)), func() {}, nil, nil)
	for _, slug := range []string{"a", "b"} {
		defs := []json.RawMessage{json.RawMessage(`{"name":"pay"}`), json.RawMessage(`{"name":"pay"}`)}
		if err := store.Put(slug, "h/"+slug+"/1", defs); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"provider=a tool=pay", "lists this name twice", "they would have one name", "a/pay b/pay"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log does not say %q:\n%s", part, log.String())
		}
	}
}
