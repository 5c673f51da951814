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
		w := s.front.holdWebSession(session, party{principal: "local"})
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
		b.changes(s.front)
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
	b.changes(s.front)
	for _, st := range []*stream{s1, s2, modern, ls} {
		st.next()
		st.none()
	}
	// What is no change to a client, it does not hear of.
	s.front.ToolsChanged()
	for _, st := range []*stream{s1, modern} {
		st.none()
	}
	if m := s.post(listLine, "Mcp-Session-Id", c1).last(t); !strings.Contains(m.text, `"another-3"`) {
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

func TestLogMessagesOfNoCallGoToTheStream(t *testing.T) {
	b := newFakeBroker()
	s := newSite(t, newServer(t, b))
	id := s.open()
	log := func(l string) {
		s.front.Log("p", l, fromServer(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`+l+`"}}`))
	}
	log("alert") // nobody listens
	st := s.listen(http.MethodGet, "", "Mcp-Session-Id", id)
	eventually(t, "the stream is attached", func() bool {
		w := s.front.holdWebSession(id, party{principal: "local"})
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
		w := s.front.holdWebSession(id, party{principal: "local"})
		defer w.release()
		w.use.Lock()
		defer w.use.Unlock()
		return len(b.received()) == 1 && w.holders == 1
	})
	// And the connection is not left half-written for another response.
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if n, err := io.Copy(io.Discard, conn); n >= 32<<20 || err == nil && n == 0 {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// Requests over HTTP are bounded, whoever asks; what is over is told at once that
// nothing was sent, and a cancel gets through.
func TestRequestsOverHTTPAreBounded(t *testing.T) {
	b := newFakeBroker("hold")
	front := newServer(t, b)
	front.room = make(chan struct{}, 2)
	s := newSite(t, front)
	session := s.open()
	answers := make(chan response, 2)
	go func() { answers <- s.post(call("7", "hold", "", ""), "Mcp-Session-Id", session) }()
	<-b.held
	go func() {
		answers <- s.modern("tools/call", "8", `"name":"hold"`, "Mcp-Name", "hold")
	}()
	<-b.held
	for era, r := range map[string]response{
		"modern": s.modern("tools/call", "9", `"name":"hold"`, "Mcp-Name", "hold"),
		"legacy": s.post(call("9", "hold", "", ""), "Mcp-Session-Id", session),
	} {
		m := r.last(t)
		if r.StatusCode != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" || m.code() != -31003 || string(m.ID) != "9" {
			t.Errorf("%s: %d %v %s", era, r.StatusCode, r.Header, r.body)
		}
	}
	r := s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, "Mcp-Session-Id", session)
	if r.StatusCode != http.StatusAccepted {
		t.Errorf("cancel: %d %s", r.StatusCode, r.body)
	}
	<-answers
	if m := s.post(listLine, "Mcp-Session-Id", session).last(t); m.Result == nil {
		t.Errorf("after one has ended: %s", m.text)
	}
	close(b.releases)
	<-answers
	if got := len(b.received()); got != 2 {
		t.Errorf("%d calls went on", got)
	}
}
