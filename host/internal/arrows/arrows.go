package arrows

import (
	"fmt"
	"slices"
	"strings"
)

// Package is what `go list -json` says of a package, as far as it matters here.
type Package struct {
	ImportPath string
	// Imports are those of the package itself, TestImports and XTestImports those
	// of its tests, inside and outside of the package.
	Imports, TestImports, XTestImports []string
}

// Violation is one arrow that the picture does not have.
type Violation struct {
	From, To string
	// Test is set where only a test imports it.
	Test bool
	// Rule says in words what is broken.
	Rule string
}

func (v Violation) String() string {
	in := ""
	if v.Test {
		in = " (in a test)"
	}
	if v.To == "" {
		return fmt.Sprintf("%s: %s", v.From, v.Rule)
	}
	return fmt.Sprintf("%s imports %s%s: %s", v.From, v.To, in, v.Rule)
}

// layers are the rooms of the host by height: an import goes to a lower number,
// never up and never to a room of the same height.
var layers = map[string]int{
	"front":       6,
	"control":     6,
	"plan":        6,
	"doctor":      6,
	"connect":     6,
	"importer":    6,
	"clientfile":  6,
	"broker":      5,
	"access":      4,
	"catalog":     4,
	"journal":     4,
	"artifact":    4,
	"session":     4,
	"supervise":   3,
	"containment": 2,
}

// leaves are the rooms of the host that import no other, and that any may import.
var leaves = []string{"rpc", "config", "lock", "internal/redact", "internal/peer", "internal/identity", "internal/secretstore", "internal/shape"}

// The rules, in the words that a broken one is reported with.
const (
	ruleShared     = "the public contract imports nothing of host, plugins or examples"
	rulePlugins    = "a plugin imports the public contract and nothing else"
	ruleExamples   = "an example shows what others can write: it imports the public contract and nothing else"
	ruleRunPlugins = "only host/cmd imports plugins"
	ruleCmd        = "nothing imports a command"
	ruleInternal   = "this package of host/internal is a helper of tests; only tests import it"
	ruleLeaf       = "host/rpc, host/config, host/lock and host/internal/{redact,peer,identity,secretstore,shape} import no other package of the host"
	ruleDown       = "imports point down, and never to a room of the same height"
	ruleApart      = "containment and shared are of one height and do not import each other"
	ruleExample    = "nothing imports an example"
	rulePlace      = "has no place in the picture; give it one here and in docs/architecture.md"
)

// Check compares the direct imports of pkgs with the picture. module is the
// module's path. Tests are judged more leniently: those of the host may import
// any package of the host, its helpers and the plugins, for they build whole
// rooms; those of shared, plugins and examples keep to their own arrows.
func Check(module string, pkgs []Package) []Violation {
	var found []Violation
	for _, p := range pkgs {
		from, ok := place(module, p.ImportPath)
		if !ok {
			continue
		}
		if rule := from.misplaced(); rule != "" {
			found = append(found, Violation{From: p.ImportPath, Rule: rule})
			continue
		}
		tests := slices.Concat(p.TestImports, p.XTestImports)
		for _, set := range []struct {
			imports []string
			test    bool
		}{{p.Imports, false}, {tests, true}} {
			for _, path := range set.imports {
				to, ok := place(module, path)
				if !ok || to.same(from) {
					continue
				}
				if rule := judge(from, to, set.test); rule != "" {
					found = append(found, Violation{From: p.ImportPath, To: path, Test: set.test, Rule: rule})
				}
			}
		}
	}
	return found
}

// room is a package's place: the top folder and the room in it. Each package of
// host/internal is a room of its own, named with its folder.
type room struct{ top, name string }

// helper says whether the room serves tests.
func (r room) helper() bool {
	return r.top == "host" && strings.HasPrefix(r.name, "internal/") && !slices.Contains(leaves, r.name)
}

// place says where in the module a package stands; false outside of it.
func place(module, path string) (room, bool) {
	rest, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return room{}, path == module
	}
	top, rest, _ := strings.Cut(rest, "/")
	name, rest, _ := strings.Cut(rest, "/")
	if top == "host" && name == "internal" {
		sub, _, _ := strings.Cut(rest, "/")
		name += "/" + sub
	}
	return room{top, name}, true
}

// same says whether both stand in one room, inside which all may import all.
func (r room) same(other room) bool {
	return r == other || r.top == "shared" && other.top == "shared"
}

// misplaced says what is wrong with where a package stands, "" if nothing is.
func (r room) misplaced() string {
	switch r.top {
	case "shared", "plugins", "examples":
		return ""
	case "host":
		_, layered := layers[r.name]
		if layered || slices.Contains(leaves, r.name) || r.name == "cmd" || r.helper() {
			return ""
		}
	}
	return rulePlace
}

// judge says which rule an import breaks, "" if none.
func judge(from, to room, test bool) string {
	switch {
	case to.top == "examples":
		return ruleExample
	case to.top == "host" && to.name == "cmd":
		return ruleCmd
	}
	switch from.top {
	case "shared":
		return ruleShared
	case "plugins":
		return outside(to, rulePlugins)
	case "examples":
		return outside(to, ruleExamples)
	}
	if test || from.helper() {
		return ""
	}
	return judgeHost(from, to)
}

// outside gives the rule for a room that may import shared alone.
func outside(to room, rule string) string {
	if to.top == "shared" {
		return ""
	}
	return rule
}

// judgeHost judges what is no test in the host.
func judgeHost(from, to room) string {
	switch {
	case to.top == "plugins":
		if from.name == "cmd" {
			return ""
		}
		return ruleRunPlugins
	case to.top == "shared":
		if from.name == "containment" {
			return ruleApart
		}
		return ""
	case to.helper():
		return ruleInternal
	case from.name == "cmd":
		return ""
	case slices.Contains(leaves, from.name):
		return ruleLeaf
	case slices.Contains(leaves, to.name):
		return ""
	case layers[to.name] < layers[from.name]:
		return ""
	}
	return ruleDown
}
