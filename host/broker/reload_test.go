package broker

import (
	"encoding/json"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/access"
	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
)

// site is a policy with one project, in which ann has the shop's tools, and its tools
// are named so.
func site(names string, tools ...string) *access.Policy {
	return access.New(access.Spec{
		Tokens: []access.StaticToken{{Principal: "ann"}},
		Projects: []access.Project{{Name: "site", Names: names, Grants: []*access.Grant{
			{Project: "site", Principals: []string{"ann"}, Provider: "shop", Tools: tools},
		}}},
	})
}

var ann = Caller{Principal: "ann", Project: "site", Client: Client{Name: "c"}}

func callOf(t *testing.T, c Caller, name string) Call {
	call := toolCall(t, `{"name":"`+name+`"}`)
	call.Caller = c
	return call
}

// TestAnotherNameIsNoFirstUse: when a project names its tools in another way, what was
// shown of a tool under its old name still binds.
func TestAnotherNameIsNoFirstUse(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay", "keep"}})
	policy := site(catalog.NamesPrefixed, "*")
	b.worlds.policy = func() *access.Policy { return policy }
	b.opts.Policy = b.worlds.policy
	shownAll(b, ann)
	policy = site(catalog.NamesBare, "*")
	redefine(f, "shop", `{"name":"pay","x":2}`, `{"name":"keep","annotations":{"readOnlyHint":false}}`)
	refused := b.Call(t.Context(), callOf(t, ann, "pay"))
	if refused.Outcome != Stale || refused.Reason != reasonDefinitionChanged {
		t.Errorf("under its new name: %s %s", refused.Outcome, refused.Reason)
	}
	deliver(t, refused)
	for _, name := range []string{"keep", "pay"} {
		if r := b.Call(t.Context(), callOf(t, ann, name)); r.Outcome != OK {
			t.Errorf("%s, which is as it was shown: %+v", name, r.Err)
		}
	}
	if len(f.got) != 2 {
		t.Errorf("%d calls were sent, want 2", len(f.got))
	}
}

// TestOfSeveralNamesTheOneThatDiffersCounts.
func TestOfSeveralNamesTheOneThatDiffersCounts(t *testing.T) {
	pay := tool(t, `{"name":"pay","x":2}`)
	for range 20 { // maps are read in any order
		r := nothing.with("as_it_is", itemOf(pay)).with("gone", itemOf(pay).gone()).with("other", &item{Provider: "shop", Name: "other", Digest: "d"})
		if i := r.findTool(pay); i == nil || !i.Gone {
			t.Fatalf("of two, one gone: %+v", i)
		}
		r = nothing.all(viewOf(t, map[string][]string{"shop": {`{"name":"pay","x":1}`}}))
		r = r.with("as_it_is", itemOf(pay)).with("shop_pay", itemOf(pay)) // later than the list
		if i := r.findTool(&catalog.Tool{Provider: "shop", Name: "pay", Exposed: "new", Identity: pay.Identity, Digest: pay.Digest}); i == nil || i.Digest != pay.Digest {
			t.Fatalf("of two that are as it is: %+v", i)
		}
	}
	if i := nothing.findTool(pay); i != nil {
		t.Errorf("of nothing: %+v", i)
	}
}

// TestGrantsAreSwappedWhileCallsAreMade: a call that was made and answered while a tool
// was not granted was denied, and one while it was, was not; the same of lists.
func TestGrantsAreSwappedWhileCallsAreMade(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay", "get"}})
	var policy atomic.Pointer[access.Policy]
	policy.Store(site(catalog.NamesPrefixed, "*"))
	b.worlds.policy = policy.Load
	b.opts.Policy = policy.Load
	if err := f.store.Put("shop", "host/shop/1", []json.RawMessage{json.RawMessage(`{"name":"pay"}`), json.RawMessage(`{"name":"get"}`)}); err != nil {
		t.Fatal(err)
	}
	const granted, revoked = 0, 2 // of every four turns; between them nothing is certain
	var turn atomic.Int64
	var done atomic.Bool
	var certain [4]atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for !done.Load() {
				before := turn.Load()
				_, listed := b.View(ann).Find("shop_pay")
				reply := b.Call(t.Context(), callOf(t, ann, "shop_pay"))
				if turn.Load() != before {
					continue
				}
				certain[before%4].Add(1)
				switch want := before%4 == granted; {
				case before%4 == revoked && (reply.Outcome != Denied || listed):
					t.Errorf("while it is not granted: listed %v, %s", listed, reply.Outcome)
				case want && (reply.Outcome != OK || !listed):
					t.Errorf("while it is granted: listed %v, %s %v", listed, reply.Outcome, reply.Err)
				}
			}
		})
	}
	for range 60 {
		for _, tools := range [][]string{{"get"}, {"*"}} {
			for at := certain[turn.Load()%4].Load(); certain[turn.Load()%4].Load() == at && !t.Failed(); {
				runtime.Gosched()
			}
			turn.Add(1)
			policy.Store(site(catalog.NamesPrefixed, tools...))
			turn.Add(1)
		}
	}
	done.Store(true)
	all.Wait()
	t.Logf("%d calls while it was granted, %d while it was not", certain[granted].Load(), certain[revoked].Load())
}

// TestEachProjectHasItsOwnView: what a principal sees in one project is nothing to what he
// sees in another, whichever he asks first; nor is another principal's.
func TestEachProjectHasItsOwnView(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay", "get"}})
	grant := func(tools string) []*access.Grant {
		return []*access.Grant{{Principals: []string{"ann"}, Provider: "shop", Tools: []string{tools}}}
	}
	policy := access.New(access.Spec{Tokens: []access.StaticToken{{Principal: "ann"}, {Principal: "ben"}}, Projects: []access.Project{
		{Name: "one", Grants: grant("get")}, {Name: "two", Grants: grant("pay")}, {Name: "none", Grants: grant("other")},
	}})
	b.worlds.policy = func() *access.Policy { return policy }
	b.opts.Policy = b.worlds.policy
	redefine(f, "shop", `{"name":"pay"}`, `{"name":"get"}`)
	if err := f.Warm(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // made and remembered
		for at, want := range map[owner]string{
			{"ann", "one"}: "shop_get", {"ann", "two"}: "shop_pay", {"ann", "none"}: "", {"ann", ""}: "", {"ben", "one"}: "", {"", "one"}: "",
		} {
			c := Caller{Principal: at.Principal, Project: at.Project}
			if v := b.View(c); len(v.Tools()) > 1 || want == "" && len(v.Tools()) != 0 || want != "" && (len(v.Tools()) != 1 || v.Tools()[0].Exposed != want) {
				t.Errorf("%v sees %d tools, want %q", at, len(v.Tools()), want)
			}
			for _, name := range []string{"shop_pay", "shop_get"} {
				if r := b.Call(t.Context(), callOf(t, c, name)); (r.Outcome == OK) != (name == want) {
					t.Errorf("%v calls %s: %s", at, name, r.Outcome)
				}
			}
		}
	}
}

// TestViewsFollowTheLockFile: it alone may be another one, and what was not in it before
// is there, or what was is not.
func TestViewsFollowTheLockFile(t *testing.T) {
	f, b := newFake(t, map[string][]string{"shop": {"pay"}})
	var file atomic.Pointer[lock.File]
	b.opts.Lock, b.worlds.lock = file.Load, file.Load
	if err := f.Warm(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	approving := lock.New()
	approving.Approve("shop", "pay", lock.Tool{Digest: b.View(local).Tools()[0].Digest})
	for n, step := range []struct {
		file *lock.File
		want int
	}{{nil, 1}, {lock.New(), 0}, {approving, 1}, {lock.New(), 0}, {nil, 1}} {
		file.Store(step.file)
		if got := len(b.View(local).Tools()); got != step.want {
			t.Errorf("step %d: %d tools, want %d", n, got, step.want)
		}
	}
}
