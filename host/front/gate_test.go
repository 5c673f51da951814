package front

import (
	"context"
	"errors"
	"sync"
)

// fakeGate plays access: tokens, and who is granted in which projects. A principal
// with none works in no project.
type fakeGate struct {
	mu       sync.Mutex
	tokens   map[string]string
	projects map[string][]string
}

func newFakeGate() *fakeGate {
	return &fakeGate{tokens: map[string]string{testToken: "local", "other": "stranger"}, projects: map[string][]string{}}
}

var errFakeToken = errors.New("the fake gate does not know this token")

// errLater is the error of the token "later".
type errLater struct{}

func (errLater) Error() string   { return "the issuer is not there" }
func (errLater) Temporary() bool { return true }

func (g *fakeGate) Authenticate(_ context.Context, bearer string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if bearer == "later" {
		return "", errLater{}
	}
	if p, ok := g.tokens[bearer]; ok {
		return p, nil
	}
	return "", errFakeToken
}

func (g *fakeGate) Project(principal, asked string) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	granted := g.projects[principal]
	if asked == "" {
		switch len(granted) {
		case 0:
			return "", true
		case 1:
			return granted[0], true
		}
		return "", false
	}
	for _, p := range granted {
		if p == asked {
			return p, true
		}
	}
	return "", false
}

// set changes what the gate knows.
func (g *fakeGate) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}
