package front

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const listLine = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func TestC026_UnknownSessionsAreNotFound(t *testing.T) {
	s := newSite(t, newServer(t, newFakeBroker("a")))
	ended := s.open()
	if r := s.do(http.MethodDelete, "", "Mcp-Session-Id", ended); r.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %d %s", r.StatusCode, r.body)
	}
	stranger := s.open("Authorization", "Bearer other")
	for name, id := range map[string]string{"never given": "nope", "ended": ended, "of another principal": stranger} {
		r := s.post(listLine, "Mcp-Session-Id", id)
		if r.StatusCode != http.StatusNotFound || r.Header.Get("Content-Type") == "text/event-stream" || r.last(t).code() != -32600 {
			t.Errorf("POST, session %s: %d %s", name, r.StatusCode, r.body)
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if r := s.do(method, "", "Mcp-Session-Id", id); r.StatusCode != http.StatusNotFound {
				t.Errorf("%s, session %s: %d", method, name, r.StatusCode)
			}
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		body := ""
		if method == http.MethodPost {
			body = listLine
		}
		if r := s.do(method, body); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s without a session: %d", method, r.StatusCode)
		}
	}
	if r := s.post(listLine, "Mcp-Session-Id", s.open()); r.StatusCode != http.StatusOK {
		t.Errorf("a new session: %d %s", r.StatusCode, r.body)
	}
	if r := s.post(initializeLine("2025-06-18"), "Mcp-Session-Id", ended); r.Header.Get("Mcp-Session-Id") == "" {
		t.Errorf("initialize with a dead session's id: %d %s", r.StatusCode, r.body)
	}
}

func TestC029_ClientsAtOnceAreClientsApart(t *testing.T) {
	s := newSite(t, newServer(t, newFakeBroker("a", "b")))
	for range 10 {
		var ids, lists [2]string
		var both sync.WaitGroup
		for i := range ids {
			both.Go(func() {
				ids[i] = s.open()
				lists[i] = string(s.post(listLine, "Mcp-Session-Id", ids[i]).body)
			})
		}
		both.Wait()
		if ids[0] == ids[1] {
			t.Errorf("both clients got session %s", ids[0])
		}
		if lists[0] != lists[1] || !strings.Contains(lists[0], `"b"`) {
			t.Errorf("lists %s and %s", lists[0], lists[1])
		}
	}
}

func TestC030_EqualIdsOverHTTP(t *testing.T) {
	b := newFakeBroker("hold", "echo")
	s := newSite(t, newServer(t, b))
	one, two := s.open(), s.open()
	first := make(chan response, 1)
	go func() { first <- s.post(call("1", "hold", "", ""), "Mcp-Session-Id", one) }()
	<-b.held
	// In another session the id is another one; in the same it is taken.
	if m := s.post(call("1", "echo", `"b"`, ""), "Mcp-Session-Id", two).last(t); string(m.Result) != `{"content":[],"structuredContent":"b"}` {
		t.Errorf("other session: %s", m.text)
	}
	r := s.post(call("1", "echo", `"c"`, ""), "Mcp-Session-Id", one)
	if m := r.last(t); r.StatusCode != http.StatusBadRequest || m.code() != -32600 || string(m.ID) != "1" {
		t.Errorf("same session: %d %s", r.StatusCode, m.text)
	}
	close(b.releases)
	if m := (<-first).last(t); string(m.ID) != "1" || m.Result == nil {
		t.Errorf("the first: %s", m.text)
	}
	// Modern requests have no session in which an id could be taken.
	for _, id := range []string{"0", `"1"`, "1", `""`} {
		if m := s.modern("tools/call", id, `"name":"echo","arguments":`+id, "Mcp-Name", "echo").last(t); string(m.ID) != id || !strings.Contains(m.text, `"structuredContent":`+id) {
			t.Errorf("id %s: %s", id, m.text)
		}
	}
}

// modern posts a request of the stateless era, with headers that fit.
func (s *site) modern(method, id, params string, headers ...string) response {
	s.t.Helper()
	return s.post(modernBody(method, id, params), modernHeaders(method, headers...)...)
}

func modernBody(method, id, params string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + modernMeta + `}}`
}

func modernHeaders(method string, more ...string) []string {
	return append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}, more...)
}

func TestC031_ASlowCallDelaysNothingOverHTTP(t *testing.T) {
	b := newFakeBroker("hold", "echo")
	s := newSite(t, newServer(t, b))
	id := s.open()
	slow := make(chan response, 1)
	go func() { slow <- s.post(call(`"slow"`, "hold", "", ""), "Mcp-Session-Id", id) }()
	<-b.held
	for _, line := range []string{listLine, call("1", "echo", "{}", ""), `{"jsonrpc":"2.0","id":1,"method":"ping"}`} {
		if m := s.post(line, "Mcp-Session-Id", id).last(t); m.Result == nil {
			t.Errorf("%s: %s", line, m.text)
		}
	}
	close(b.releases)
	<-slow
}

func TestC033_ALegacyClientThatHangsUpCancelsNothing(t *testing.T) {
	b := newFakeBroker("hold")
	s := newSite(t, newServer(t, b))
	session, other := s.open(), s.open()
	hangUp := func(body string, headers ...string) {
		ctx, cancel := context.WithCancel(context.Background())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if res, err := s.client.Do(s.request(ctx, http.MethodPost, body, headers...)); err == nil {
				res.Body.Close()
			}
		}()
		<-b.held
		cancel()
		<-gone
	}
	hangUp(call("1", "hold", "", ""), "Mcp-Session-Id", session)
	second := make(chan response, 1)
	go func() { second <- s.post(call("2", "hold", "", ""), "Mcp-Session-Id", other) }()
	<-b.held
	// A modern client cancels by hanging up.
	hangUp(modernBody("tools/call", "3", `"name":"hold"`), modernHeaders("tools/call", "Mcp-Name", "hold")...)
	eventually(t, "3 is cancelled", func() bool { return slices.Contains(b.ended(), "3 cancelled") })
	close(b.releases)
	if m := (<-second).last(t); m.Result == nil {
		t.Errorf("the other client: %s", m.text)
	}
	eventually(t, "1 ends by itself", func() bool { return slices.Contains(b.ended(), "1 released") })
	eventually(t, "nothing is pending", func() bool {
		w := s.front.holdWebSession(session, "local")
		defer w.release()
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.inFlight) == 0
	})
}

func TestC035_CancelOverHTTP(t *testing.T) {
	b := newFakeBroker("hold")
	s := newSite(t, newServer(t, b))
	one, two := s.open(), s.open()
	answers := make(chan message, 2)
	for _, session := range []string{one, two} {
		go func() { answers <- s.post(call("101", "hold", "", ""), "Mcp-Session-Id", session).last(t) }()
		<-b.held
	}
	r := s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":101}}`, "Mcp-Session-Id", one)
	if r.StatusCode != http.StatusAccepted || len(r.body) != 0 {
		t.Errorf("cancel: %d %s", r.StatusCode, r.body)
	}
	// The POST is answered, so that nobody waits for it; the client ignores it.
	if m := <-answers; m.code() != -31004 {
		t.Errorf("the cancelled call: %s", m.text)
	}
	if got := b.ended(); !slices.Equal(got, []string{"101 cancelled"}) {
		t.Errorf("calls ended as %v", got)
	}
	close(b.releases)
	if m := <-answers; m.Result == nil {
		t.Errorf("the other session's call: %s", m.text)
	}
}

func TestC059_HTTPClientsHearOnceOfAChange(t *testing.T) {
	b := newFakeBroker("a")
	s := newSite(t, newServer(t, b))
	c1, c2, late := s.open(), s.open(), s.open()
	s1 := s.listen(http.MethodGet, "", "Mcp-Session-Id", c1)
	s2 := s.listen(http.MethodGet, "", "Mcp-Session-Id", c2)
	modern := s.listen(http.MethodPost, modernBody("subscriptions/listen", `"l"`, `"notifications":{"toolsListChanged":true}`), modernHeaders("subscriptions/listen")...)
	deaf := s.listen(http.MethodPost, modernBody("subscriptions/listen", "5", `"notifications":{}`), modernHeaders("subscriptions/listen")...)
	for _, st := range []*stream{modern, deaf} {
		if m := st.next(); m.Method != "notifications/subscriptions/acknowledged" {
			t.Fatalf("first on a subscription: %s", m.text)
		}
	}
	for _, st := range []*stream{s1, modern} {
		if st.status != http.StatusOK || st.header.Get("Content-Type") != "text/event-stream" || st.header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("stream: %d %v", st.status, st.header)
		}
	}
	for range 2 {
		b.setTools("a", "new")
		s.front.ToolsChanged()
		for _, st := range []*stream{s1, s2, modern} {
			if m := st.next(); m.Method != "notifications/tools/list_changed" {
				t.Errorf("got %s", m.text)
			}
		}
	}
	// Two changes without a stream are one to whoever comes late.
	ls := s.listen(http.MethodGet, "", "Mcp-Session-Id", late)
	if m := ls.next(); m.Method != "notifications/tools/list_changed" {
		t.Errorf("late: %s", m.text)
	}
	s.front.ToolsChanged()
	for _, st := range []*stream{s1, s2, modern, ls} {
		st.next()
		st.none()
	}
	if m := s.post(listLine, "Mcp-Session-Id", c1).last(t); !strings.Contains(m.text, `"new"`) {
		t.Errorf("list: %s", m.text)
	}
	deaf.none()
}

func TestC061_StreamAndPlainAnswersAreTheSame(t *testing.T) {
	s := newSite(t, newServer(t, newFakeBroker("say", "echo")))
	id := s.open()
	log := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
	r := s.post(call("1", "say", `{"say":[`+log+`,`+fmt.Sprintf(serverProgress, "1")+`]}`, `"progressToken":1`), "Mcp-Session-Id", id)
	if len(r.events) != 3 || r.events[0].Method != "notifications/message" || string(r.events[1].Params) != `{"progressToken":1,"progress":1,"x":1.0}` || string(r.events[2].ID) != "1" {
		t.Errorf("stream: %s", r.body)
	}
	plain := s.post(call("1", "say", `{"say":[]}`, ""), "Mcp-Session-Id", id)
	if plain.Header.Get("Content-Type") != "application/json" || plain.ContentLength != int64(len(plain.body)) {
		t.Errorf("plain: %v", plain.Header)
	}
	if got, want := plain.last(t).text, r.events[2].text; got != want {
		t.Errorf("plain %s, on the stream %s", got, want)
	}
}

func TestC062_ProgressOverHTTP(t *testing.T) {
	s := newSite(t, newServer(t, newFakeBroker("say")))
	args := `{"say":[` + fmt.Sprintf(serverProgress, "1") + `,` + fmt.Sprintf(serverProgress, "2") + `,` + fmt.Sprintf(serverProgress, "2") + `]}`
	session := s.open()
	// 100 calls, 16 at a time in one session: each hears its own and no other's.
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range 100 {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			token, meta := fmt.Sprintf(`"t%d"`, i), ""
			if i%2 == 0 {
				token = fmt.Sprint(i)
			}
			if i%5 != 0 {
				meta = `"progressToken":` + token
			}
			r := s.post(call(fmt.Sprint(i), "say", args, meta), "Mcp-Session-Id", session)
			if meta == "" {
				if len(r.events) != 0 || r.last(t).Result == nil {
					t.Errorf("call %d without a token: %s", i, r.body)
				}
				return
			}
			if len(r.events) != 4 || r.events[3].Result == nil {
				t.Errorf("call %d: %s", i, r.body)
				return
			}
			for j, n := range []string{"1", "2", "2"} {
				if want := `{"progressToken":` + token + `,"progress":` + n + `,"x":1.0}`; string(r.events[j].Params) != want {
					t.Errorf("call %d, progress %d: %s, want %s", i, j, r.events[j].Params, want)
				}
			}
		})
	}
	all.Wait()
}

func TestC079_OnlyWhoMayGetsIn(t *testing.T) {
	b := newFakeBroker()
	s := newSite(t, newServer(t, b), func(o *HTTPOptions) {
		o.AllowedHosts = []string{"Bridge.example", "port.example:8443"}
		o.AllowedOrigins = []string{"https://app.example"}
	})
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"host of another":               {[]string{"Host", "evil.example"}, 403},
		"host of another with our port": {[]string{"Host", "evil.example:" + port}, 403},
		"our name with another port":    {[]string{"Host", "127.0.0.1:1"}, 403},
		"our name without its port":     {[]string{"Host", "localhost"}, 403},
		"host that begins like ours":    {[]string{"Host", "localhost.evil.example:" + port}, 403},
		"foreign origin":                {[]string{"Origin", "http://evil.example"}, 403},
		"null origin":                   {[]string{"Origin", "null"}, 403},
		"origin that begins like ours":  {[]string{"Origin", "http://localhost.evil.example"}, 403},
		"origin with another port":      {[]string{"Origin", "http://localhost:1"}, 403},
		"origin with user":              {[]string{"Origin", "http://localhost:" + port + "@evil.example"}, 403},
		"foreign, and no token":         {[]string{"Origin", "http://evil.example", "Authorization", ""}, 403},
		"address":                       {[]string{"Host", "127.0.0.1:" + port}, 200},
		"name":                          {[]string{"Host", "LOCALHOST:" + port}, 200},
		"address of version 6":          {[]string{"Host", "[::1]:" + port}, 200},
		"own origin":                    {[]string{"Origin", "http://localhost:" + port}, 200},
		"allowed host, any port":        {[]string{"Host", "bridge.example:99"}, 200},
		"allowed host without port":     {[]string{"Host", "bridge.example"}, 200},
		"allowed host, its port":        {[]string{"Host", "port.example:8443"}, 200},
		"allowed host, another port":    {[]string{"Host", "port.example:8444"}, 403},
		"allowed origin":                {[]string{"Origin", "https://app.example"}, 200},
		"allowed origin, other scheme":  {[]string{"Origin", "http://app.example"}, 403},
		"no token":                      {[]string{"Authorization", ""}, 401},
		"wrong token":                   {[]string{"Authorization", "Bearer nope"}, 401},
		"token in another scheme":       {[]string{"Authorization", "Basic " + testToken}, 401},
		"token in lower-case scheme":    {[]string{"Authorization", "bearer " + testToken}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			// Nothing of the body counts before: where it fails it fails as such.
			for _, body := range []string{initializeLine("2025-11-25"), "{not JSON"} {
				want := c.status
				if want == 200 && body[1] == 'n' {
					want = 400
				}
				r := s.post(body, c.headers...)
				if r.StatusCode != want {
					t.Errorf("status %d, want %d: %s", r.StatusCode, want, r.body)
				}
				if want == 401 && !strings.HasPrefix(r.Header.Get("WWW-Authenticate"), "Bearer ") {
					t.Errorf("401 without a challenge: %v", r.Header)
				}
			}
		})
	}
}

func TestBrowsersOfAllowedOriginsCanReadTheResponse(t *testing.T) {
	s := newSite(t, newServer(t, newFakeBroker()), func(o *HTTPOptions) { o.AllowedOrigins = []string{"https://app.example/"} })
	r := s.do(http.MethodOptions, "", "Authorization", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,mcp-session-id")
	if r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || r.Header.Get("Access-Control-Allow-Headers") != "authorization,mcp-session-id" {
		t.Errorf("preflight: %d %v", r.StatusCode, r.Header)
	}
	if r := s.do(http.MethodOptions, "", "Authorization", "", "Origin", "https://evil.example"); r.StatusCode != http.StatusForbidden || r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("foreign preflight: %d %v", r.StatusCode, r.Header)
	}
	if r := s.post(initializeLine("2025-11-25"), "Origin", "https://app.example"); r.Header.Get("Access-Control-Expose-Headers") != "Mcp-Session-Id" {
		t.Errorf("response: %v", r.Header)
	}
}

func TestC082_MalformedBodiesEndNothing(t *testing.T) {
	b := newFakeBroker("echo")
	s := newSite(t, newServer(t, b))
	id := s.open()
	for body, status := range map[string]int{
		`{"jsonrpc":"2.0"`: 400,
		``:                 400,
		`null`:             400,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:                   400,
		`{"jsonrpc":"2.0","id":1}`:                                     400,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`:                   400,
		`{"jsonrpc":"2.0","id":1,"method":"ping","METHOD":"x"}`:        400,
		`{"jsonrpc":"2.0","id":"never","result":{}}`:                   202,
		`{"jsonrpc":"2.0","id":9,"error":{"code":-1,"message":"x"}}`:   202,
		`{"jsonrpc":"2.0","method":"notifications/unheard/of"}`:        202,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`:         202,
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000):          400,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0"}`:    400,
		"{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\n\"method\":\"ping\"\n}\n": 200,
	} {
		r := s.post(body, "Mcp-Session-Id", id)
		if r.StatusCode != status {
			t.Errorf("%.60q: %d, want %d: %s", body, r.StatusCode, status, r.body)
		}
		if status == 202 && len(r.body) != 0 {
			t.Errorf("%.60q: body %s", body, r.body)
		}
	}
	if m := s.post(call("1", "echo", "{}", ""), "Mcp-Session-Id", id).last(t); m.Result == nil {
		t.Errorf("the session afterwards: %s", m.text)
	}
}

func TestLineBreaksBetweenTokensDoNotPass(t *testing.T) {
	b := newFakeBroker("echo")
	s := newSite(t, newServer(t, b))
	id := s.open()
	body := "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\r\n\"params\":{\"name\":\"echo\",\"arguments\":{\n\"a\": [1,\n 2]}}}"
	if m := s.post(body, "Mcp-Session-Id", id).last(t); !strings.Contains(string(m.Result), `{"a": [1, 2]}`) {
		t.Errorf("got %s", m.text)
	}
	if r := s.post(strings.ReplaceAll(body, `"a"`, "\"a\nb\""), "Mcp-Session-Id", id); r.StatusCode != http.StatusBadRequest {
		t.Errorf("a line break inside a string: %d %s", r.StatusCode, r.body)
	}
	if n := len(b.received()); n != 1 {
		t.Errorf("the broker got %d calls, want 1", n)
	}
}

func TestC121_AnErrorClosesTheStream(t *testing.T) {
	b := newFakeBroker()
	s := newSite(t, newServer(t, b))
	id := s.open()
	r := s.post(call("7", "gone", "", ""), "Mcp-Session-Id", id)
	if m := r.last(t); r.StatusCode != http.StatusOK || m.code() != -31001 || string(m.ID) != "7" || string(m.Error.Data) != `{"outcome":"denied"}` {
		t.Errorf("got %d %s", r.StatusCode, m.text)
	}
	// After a stream has begun too: do reads to the end of the response.
	r = s.post(call("8", "raw", `{"response":{"jsonrpc":"2.0","id":7,"error":{"code":-32000.0,"message":"m","data":{"n":9007199254740993},"x":1}}}`, ""), "Mcp-Session-Id", id)
	if want := `{"jsonrpc":"2.0","id":8,"error":{"code":-32000.0,"message":"m","data":{"n":9007199254740993},"x":1}}`; string(r.body) != want {
		t.Errorf("a server's error came as %s, want %s", r.body, want)
	}
}

func TestFormOfARequest(t *testing.T) {
	const limit = 1 << 20
	s := newSite(t, newServer(t, newFakeBroker("echo"), func(o *Options) { o.MaxRequest = limit }))
	id := s.open()
	sized := func(n int) string {
		head, tail := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"`, `"}}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
	}{
		"as large as may be":      {sized(limit), nil, 200},
		"one byte more":           {sized(limit + 1), nil, 413},
		"a type with a charset":   {listLine, []string{"Content-Type", "application/json; charset=utf-8"}, 200},
		"another type":            {listLine, []string{"Content-Type", "text/plain"}, 415},
		"no type":                 {listLine, []string{"Content-Type", ""}, 415},
		"accepts JSON alone":      {listLine, []string{"Accept", "application/json"}, 406},
		"accepts streams alone":   {listLine, []string{"Accept", "text/event-stream"}, 406},
		"accepts anything":        {listLine, []string{"Accept", "*/*"}, 200},
		"says nothing of it":      {listLine, []string{"Accept", ""}, 200},
		"accepts by kind":         {listLine, []string{"Accept", "Application/*;q=0.9, text/*"}, 200},
		"a version it negotiated": {listLine, []string{"Mcp-Protocol-Version", "2025-11-25"}, 200},
		"another known version":   {listLine, []string{"Mcp-Protocol-Version", "2024-11-05"}, 200},
		"an unknown version":      {listLine, []string{"Mcp-Protocol-Version", "2025-01-01"}, 400},
	} {
		r := s.post(c.body, append(c.headers, "Mcp-Session-Id", id)...)
		if r.StatusCode != c.status {
			t.Errorf("%s: %d, want %d: %.200s", name, r.StatusCode, c.status, r.body)
		}
	}
	for method, status := range map[string]int{"PUT": 405, "PATCH": 405, "HEAD": 405} {
		if r := s.do(method, "", "Mcp-Session-Id", id); r.StatusCode != status || r.Header.Get("Allow") != "POST, GET, DELETE" {
			t.Errorf("%s: %d %v", method, r.StatusCode, r.Header)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		if r := s.do(method, "", "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2026-07-28"); r.StatusCode != 405 || r.Header.Get("Allow") != "POST" {
			t.Errorf("modern %s: %d %v", method, r.StatusCode, r.Header)
		}
	}
	if r := s.do(http.MethodGet, "", "Mcp-Session-Id", id, "Accept", "application/json"); r.StatusCode != 406 {
		t.Errorf("GET that takes no stream: %d", r.StatusCode)
	}
	res, err := s.client.Do(func() *http.Request {
		r := s.request(context.Background(), http.MethodPost, listLine)
		r.URL.Path = "/elsewhere"
		return r
	}())
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %d", res.StatusCode)
	}
	// Of a body whose length is not announced.
	for n, status := range map[int]int{limit: 200, limit + 1: 413, 100 << 10: 200} {
		req := s.request(context.Background(), http.MethodPost, "", "Mcp-Session-Id", id)
		req.Body, req.ContentLength = io.NopCloser(strings.NewReader(sized(n))), -1
		res, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("%d bytes of unannounced length: %d, want %d", n, res.StatusCode, status)
		}
	}
}

func TestModernHeadersMustSayWhatTheBodySays(t *testing.T) {
	b := newFakeBroker("echo")
	s := newSite(t, newServer(t, b))
	list, echo := modernBody("tools/list", `"x"`, ""), modernBody("tools/call", `"x"`, `"name":"echo"`)
	const v, m, n = "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
		code    int
	}{
		"good list":                  {list, []string{v, "2026-07-28", m, "tools/list"}, 200, 0},
		"good list in lower case":    {list, []string{"mcp-protocol-version", "2026-07-28", "mcp-method", "tools/list"}, 200, 0},
		"a session is ignored":       {list, []string{v, "2026-07-28", m, "tools/list", "Mcp-Session-Id", "nope"}, 200, 0},
		"good call":                  {echo, []string{v, "2026-07-28", m, "tools/call", n, "echo"}, 200, 0},
		"encoded name":               {echo, []string{v, "2026-07-28", m, "tools/call", n, "=?base64?ZWNobw==?="}, 200, 0},
		"white space around it":      {echo, []string{v, "2026-07-28", m, "tools/call", n, "  echo  "}, 200, 0},
		"badly encoded name":         {echo, []string{v, "2026-07-28", m, "tools/call", n, "=?base64?ZWN%bw==?="}, 400, -32020},
		"another name, encoded":      {echo, []string{v, "2026-07-28", m, "tools/call", n, "=?base64?aG9sZA==?="}, 400, -32020},
		"another name":               {echo, []string{v, "2026-07-28", m, "tools/call", n, "hold"}, 400, -32020},
		"no name":                    {echo, []string{v, "2026-07-28", m, "tools/call"}, 400, -32020},
		"another method":             {list, []string{v, "2026-07-28", m, "prompts/list"}, 400, -32020},
		"method in upper case":       {list, []string{v, "2026-07-28", m, "TOOLS/LIST"}, 400, -32020},
		"no method":                  {list, []string{v, "2026-07-28"}, 400, -32020},
		"no version":                 {list, []string{m, "tools/list"}, 400, -32020},
		"another version":            {list, []string{v, "2025-11-25", m, "tools/list"}, 400, -32020},
		"version in the header only": {listLine, []string{v, "2026-07-28", m, "tools/list"}, 400, -32602},
		"unknown version":            {strings.ReplaceAll(list, "2026-07-28", "2099-01-01"), []string{v, "2099-01-01"}, 400, -32022},
		"unknown version, other header": {strings.ReplaceAll(list, "2026-07-28", "2099-01-01"),
			[]string{v, "2026-07-28", m, "tools/list"}, 400, -32020},
		"no capabilities": {strings.ReplaceAll(list, "clientCapabilities", "other"), []string{v, "2026-07-28", m, "tools/list"}, 400, -32602},
		"unknown method":  {modernBody("vendor/x", `"x"`, ""), []string{v, "2026-07-28", m, "vendor/x"}, 404, -32601},
		"removed method":  {modernBody("ping", `"x"`, ""), []string{v, "2026-07-28", m, "ping"}, 404, -32601},
		"initialize":      {modernBody("initialize", `"x"`, ""), []string{v, "2026-07-28", m, "initialize"}, 404, -32601},
		"bad cursor":      {modernBody("tools/list", `"x"`, `"cursor":"garbage"`), []string{v, "2026-07-28", m, "tools/list"}, 200, -32602},
	} {
		t.Run(name, func(t *testing.T) {
			r := s.post(c.body, c.headers...)
			got := r.last(t)
			if r.StatusCode != c.status || got.code() != c.code {
				t.Errorf("%d %s, want status %d and code %d", r.StatusCode, got.text, c.status, c.code)
			}
			if c.body != listLine && string(got.ID) != `"x"` {
				t.Errorf("id %s", got.ID)
			}
			if r.Header.Get("Mcp-Session-Id") != "" {
				t.Error("a modern answer names a session")
			}
		})
	}
	// Twice is once too often: who stands between might have read the other.
	req := s.request(context.Background(), http.MethodPost, echo, v, "2026-07-28", m, "tools/call")
	req.Header["Mcp-Name"] = []string{"echo", "hold"}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("two names: %d", res.StatusCode)
	}
	// What a modern client need not send is taken without a word.
	if r := s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, v, "2026-07-28"); r.StatusCode != http.StatusAccepted {
		t.Errorf("modern notification: %d %s", r.StatusCode, r.body)
	}
}

func TestASecondStreamTakesOver(t *testing.T) {
	s := newSite(t, newServer(t, newFakeBroker()))
	id := s.open()
	first := s.listen(http.MethodGet, "", "Mcp-Session-Id", id)
	second := s.listen(http.MethodGet, "", "Mcp-Session-Id", id)
	select {
	case <-first.ended:
	case <-time.After(patience):
		t.Fatal("the first stream goes on")
	}
	s.front.ToolsChanged()
	if m := second.next(); m.Method != "notifications/tools/list_changed" {
		t.Errorf("on the second: %s", m.text)
	}
	first.none()
	// The stream ends with its session, and with the host.
	s.do(http.MethodDelete, "", "Mcp-Session-Id", id)
	<-second.ended
	third := s.listen(http.MethodGet, "", "Mcp-Session-Id", s.open())
	s.front.Close(context.Background())
	<-third.ended
	if r := s.post(initializeLine("2025-11-25")); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("after Close: %d", r.StatusCode)
	}
}

func TestLogMessagesOfNoCallGoToTheStream(t *testing.T) {
	b := newFakeBroker()
	s := newSite(t, newServer(t, b))
	id := s.open()
	log := func(l string) {
		s.front.Log(l, fromServer(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`+l+`"}}`))
	}
	log("alert") // nobody listens
	st := s.listen(http.MethodGet, "", "Mcp-Session-Id", id)
	eventually(t, "the stream is attached", func() bool {
		w := s.front.holdWebSession(id, "local")
		defer w.release()
		w.notices.mu.Lock()
		defer w.notices.mu.Unlock()
		return w.notices.stream != 0
	})
	if m := s.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`, "Mcp-Session-Id", id).last(t); string(m.Result) != "{}" {
		t.Fatalf("setLevel: %s", m.text)
	}
	log("info")
	log("error")
	if m := st.next(); string(m.Params) != `{"level":"error"}` {
		t.Errorf("got %s", m.text)
	}
	st.none()
}

func TestSessionsExpireWhenNothingHappensInThem(t *testing.T) {
	b := newFakeBroker("hold")
	s := newSite(t, newServer(t, b, func(o *Options) { o.SessionIdle = 50 * time.Millisecond }))
	count := func() int {
		s.front.sessions.mu.Lock()
		defer s.front.sessions.mu.Unlock()
		return len(s.front.sessions.byID)
	}
	busy := s.open()
	answer := make(chan response, 1)
	go func() { answer <- s.post(call("1", "hold", "", ""), "Mcp-Session-Id", busy) }()
	<-b.held
	streaming := s.open()
	st := s.listen(http.MethodGet, "", "Mcp-Session-Id", streaming)
	idle := s.open()
	s.post(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`, "Mcp-Session-Id", idle)
	eventually(t, "the idle session expires", func() bool { return count() == 2 })
	if r := s.post(listLine, "Mcp-Session-Id", idle); r.StatusCode != http.StatusNotFound {
		t.Errorf("expired: %d", r.StatusCode)
	}
	if got := b.levelOf(); len(got) != 0 {
		t.Errorf("the broker still knows levels %v", got)
	}
	close(b.releases)
	if r := <-answer; r.last(t).Result == nil {
		t.Errorf("busy: %s", r.body)
	}
	st.close()
	eventually(t, "all expire", func() bool { return count() == 0 })
	// A failed initialize leaves nothing.
	if r := s.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`); r.Header.Get("Mcp-Session-Id") != "" || count() != 0 {
		t.Errorf("failed initialize: %v, %d sessions", r.Header, count())
	}
	s.front.audience.mu.RLock()
	defer s.front.audience.mu.RUnlock()
	if n := len(s.front.audience.all); n != 0 {
		t.Errorf("%d sessions still listen", n)
	}
}

func TestC117_ManySessionsLeaveNothing(t *testing.T) {
	s := newSite(t, newServer(t, newFakeBroker(), func(o *Options) { o.SessionIdle = 20 * time.Millisecond }))
	for range 300 {
		s.open()
	}
	eventually(t, "all sessions are gone", func() bool {
		s.front.sessions.mu.Lock()
		defer s.front.sessions.mu.Unlock()
		s.front.audience.mu.RLock()
		defer s.front.audience.mu.RUnlock()
		return len(s.front.sessions.byID) == 0 && len(s.front.audience.all) == 0
	})
}

func TestHTTPClientThatReadsNothingIsGivenUp(t *testing.T) {
	b := newFakeBroker("echo", "hold")
	s := newSite(t, newServer(t, b, func(o *Options) { o.WriteTimeout = 50 * time.Millisecond; o.MaxRequest = 64 << 20 }))
	id := s.open()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := call("1", "echo", `{"a":"`+strings.Repeat("x", 32<<20)+`"}`, "")
	if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		s.Listener.Addr(), testToken, id, len(body), body); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the request is over", func() bool {
		w := s.front.holdWebSession(id, "local")
		defer w.release()
		w.use.Lock()
		defer w.use.Unlock()
		return len(b.received()) == 1 && w.use.holders == 1
	})
	// And the connection is not left half-written for another response.
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if n, err := io.Copy(io.Discard, conn); n >= 32<<20 || err == nil && n == 0 {
		t.Errorf("read %d bytes, %v", n, err)
	}
}
