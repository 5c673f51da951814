package front

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

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

func TestASecondStreamTakesOver(t *testing.T) {
	b := newFakeBroker()
	s := newSite(t, newServer(t, b))
	id := s.open()
	first := s.listen(http.MethodGet, "", "Mcp-Session-Id", id)
	second := s.listen(http.MethodGet, "", "Mcp-Session-Id", id)
	select {
	case <-first.ended:
	case <-time.After(patience):
		t.Fatal("the first stream goes on")
	}
	b.changes(s.front)
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

// A client that opens one session after the other and ends none locks nobody out.
func TestTheLongestIdleSessionMakesRoom(t *testing.T) {
	b := newFakeBroker("hold")
	s := newSite(t, newServer(t, b))
	s.front.sessions.most = 4
	// A session is idle a moment after its client has the answer.
	idle := func(id string) string {
		eventually(t, "the session is idle", func() bool {
			s.front.sessions.mu.Lock()
			w := s.front.sessions.byID[id]
			s.front.sessions.mu.Unlock()
			w.use.Lock()
			defer w.use.Unlock()
			return w.holders == 0
		})
		return id
	}
	there := func(id string, headers ...string) bool {
		r := s.post(`{"jsonrpc":"2.0","id":"there","method":"ping"}`, append(headers, "Mcp-Session-Id", id)...)
		return r.StatusCode == http.StatusOK
	}
	stranger := []string{"Authorization", "Bearer other"}
	theirs := idle(s.open(stranger...)) // idle longer than any other
	busy := s.open()
	answer := make(chan response, 1)
	go func() { answer <- s.post(call("1", "hold", "", ""), "Mcp-Session-Id", busy) }()
	<-b.held
	first, second := idle(s.open()), idle(s.open())
	if !there(idle(first)) { // and so it is not the longest idle one any more
		t.Fatal("the first session is not there")
	}
	idle(first)
	third := s.open()
	if there(second) {
		t.Error("the session that was idle longest is still there")
	}
	for name, ok := range map[string]bool{
		"in use": there(busy), "used since": there(first), "the new one": there(third), "another principal's": there(theirs, stranger...),
	} {
		if !ok {
			t.Errorf("a session is gone: %s", name)
		}
	}
	close(b.releases)
	if r := <-answer; r.last(t).Result == nil {
		t.Errorf("the call under way: %s", r.body)
	}
}

func TestNoRoomWhileAllSessionsAreInUse(t *testing.T) {
	s := newSite(t, newServer(t, newFakeBroker()))
	s.front.sessions.most = 1
	st := s.listen(http.MethodGet, "", "Mcp-Session-Id", s.open())
	if r := s.post(initializeLine("2025-11-25")); r.StatusCode != http.StatusServiceUnavailable || r.last(t).code() != -31003 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	st.close()
	eventually(t, "there is room again", func() bool {
		return s.post(initializeLine("2025-11-25")).StatusCode == http.StatusOK
	})
}
