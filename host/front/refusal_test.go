package front_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/access"
)

// TestARefusalShowsWhenItHasBeenWritten: a client that has cancelled the call is told
// nothing, and is refused again; one that was told calls anew, and its call passes.
func TestARefusalShowsWhenItHasBeenWritten(t *testing.T) {
	s := &scene{
		exposes: map[string]rule{"a": {tools: []string{"*"}}}, tools: map[string][]string{"a": {"pay"}},
		projects: map[string][]rule{"one": {{principals: []string{access.Local}, provider: "a", tools: []string{"*"}}}}, names: map[string]string{},
	}
	st := s.play(t, access.Local, "one", how{onStdio: true, gallery: newGallery(t)})
	defer st.close()
	st.post(t, request(1, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}`))
	st.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if got := st.post(t, request(2, "tools/list", "{}")); !strings.Contains(got, "a_pay") {
		t.Fatal(got)
	}
	if err := st.store.Put("a", "a/1", []json.RawMessage{json.RawMessage(`{"name":"pay","x":2}`)}); err != nil {
		t.Fatal(err)
	}
	under, on := make(chan struct{}), make(chan struct{})
	st.getting = func() { st.getting = nil; close(under); <-on }
	pay := func(id int) string { return request(id, "tools/call", `{"name":"a_pay","arguments":{}}`) }
	st.send(t, pay(10))
	<-under
	st.send(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":10}}`)
	st.post(t, request(11, "ping", "{}")) // the cancel was read before
	close(on)
	for strings.Contains(st.post(t, request(10, "ping", "{}")), "in use") { // until the call has ended
	}
	if got := st.post(t, pay(12)); !strings.Contains(got, `"reason":"definition_changed"`) {
		t.Errorf("a refusal that was not written has shown: %s", got)
	}
	if got := st.post(t, pay(13)); !strings.Contains(got, "ran") {
		t.Errorf("one that was has not: %s", got)
	}
}
