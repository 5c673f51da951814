package docs

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// told are the functions whose arguments reach people or clients as what is wrong: from
// which argument on. In the log that is what is written as an error or a warning, with
// the texts among its attributes.
var told = map[string]int{
	"errors.New": 0, "net/http.Error": 1,
	"google.golang.org/grpc/status.Error": 1, "google.golang.org/grpc/status.Errorf": 1,
	"(*log/slog.Logger).Error": 0, "(*log/slog.Logger).Warn": 0,
	"(*log/slog.Logger).ErrorContext": 1, "(*log/slog.Logger).WarnContext": 1,
	module + "host/doctor.warning": 1, module + "host/doctor.problem": 1,
	module + "host/artifact.textBlock": 0, "github.com/mark3labs/mcp-go/mcp.NewTextContent": 0,
}

// givers are the functions of which every result is told.
var givers = []string{
	"(" + module + "host/plan.Report).Errors", module + "host/cmd/drawbridge.notes",
}

// shown are the fields that reach people or clients as what is wrong, by their type.
var shown = map[string][]string{
	"github.com/hashicorp/hcl/v2.Diagnostic": {"Summary", "Detail"},
	module + "shared/provider.Diagnostic":    {"Summary", "Detail"},
	module + "host/rpc.Error":                {"Message"},
	module + "host/importer.FileError":       {"Problem"},
	module + "host/importer.Found":           {"Problem"},
	module + "host/importer.Note":            {"Text"},
	module + "host/importer.Input":           {"Unsupported"},
	module + "host/importer.Result":          {"Reason"},
	module + "host/importer.Entry":           {"Error", "Off"},
	module + "host/access.Decision":          {"Why"},
	module + "host/cmd/drawbridge.decision":  {"Why"},
	module + "host/plan.Hidden":              {"Reason"},
	module + "host/journal.Lost":             {"Why"},
	module + "host/containment.Finding":      {"Why"},
}

// elsewhere are the fields whose texts docs/reference has: what an attribute is for,
// which a message about its absence repeats.
var elsewhere = map[string][]string{
	module + "host/config.attribute":     {"usage"},
	module + "shared/provider.Attribute": {"Description"},
}

// collect finds what the code of one system can say is wrong.
func collect(s *source, found map[string]string) {
	c := &collector{flow: follow(s), found: found, given: map[any][]*types.Var{}, documented: map[*types.Var]bool{}}
	for name, fields := range elsewhere {
		for _, field := range c.fields(name, fields) {
			c.documented[field] = true
		}
	}
	// Which parameters a function gives back may be found out after a call of it was
	// followed; what is found then is found in the next round.
	for known := -1; known < c.known(); {
		known = c.known()
		c.seen = map[visit]bool{}
		c.round()
	}
}

// known counts what the collector has found out.
func (c *collector) known() int {
	n := len(c.found)
	for _, some := range c.given {
		n += len(some)
	}
	return n
}

// round begins everywhere once.
func (c *collector) round() {
	for name, fields := range shown {
		for _, field := range c.fields(name, fields) {
			c.variable(field, true)
		}
	}
	for _, file := range c.syntax {
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				f, _ := c.info.Defs[fn.Name].(*types.Func)
				if f != nil && (f.Name() == "Error" && fn.Recv != nil || slices.Contains(givers, f.FullName())) {
					c.results(f, true)
				}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				c.says(call)
			}
			return true
		})
	}
}

// fields are those of a struct by their names; none of a type that is not loaded.
func (c *collector) fields(name string, fields []string) []*types.Var {
	dot := strings.LastIndexByte(name, '.')
	in := c.packages[name[:dot]]
	if in == nil {
		return nil
	}
	of := in.Scope().Lookup(name[dot+1:])
	if of == nil {
		return nil
	}
	layout, ok := of.Type().Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	var found []*types.Var
	for field := range layout.Fields() {
		if slices.Contains(fields, field.Name()) {
			found = append(found, field)
		}
	}
	return found
}

// strangers are the names above that nothing in the code has any more: what they stood
// for would not be looked at.
func strangers(s *source) (names []string) {
	c := &collector{flow: &flow{source: s}}
	for _, table := range []map[string][]string{shown, elsewhere} {
		for name, fields := range table {
			if len(c.fields(name, fields)) != len(fields) {
				names = append(names, name)
			}
		}
	}
	used := map[string]bool{}
	for _, o := range s.info.Uses {
		if fn, ok := o.(*types.Func); ok {
			used[fn.FullName()] = true
		}
	}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(told)), givers) {
		if strings.Contains(name, module) && !used[name] {
			names = append(names, name)
		}
	}
	return names
}

// says follows the arguments of a call that tells somebody something.
func (c *collector) says(call *ast.CallExpr) {
	fn, ok := c.callee(call).(*types.Func)
	if !ok {
		return
	}
	name := fn.FullName()
	at, known := told[name]
	switch {
	case name == "fmt.Errorf":
		c.text(call, true)
		return
	case strings.HasPrefix(name, "fmt.Fprint") && c.toStderr(call.Args[0], map[types.Object]bool{}):
		if strings.HasSuffix(name, "f") {
			c.text(call.Args[1], true)
			c.verbs(call.Args[1], call.Args[2:])
			return
		}
		at, known = 1, true
	case strings.HasPrefix(name, "(*log/slog.Logger).Log"):
		if c.quiet(call.Args[1]) {
			return
		}
		at, known = 2, true
	}
	if !known {
		return
	}
	for i, arg := range call.Args[min(at, len(call.Args)):] {
		c.text(arg, i == 0)
	}
}

// quiet says whether a level of the log is one of those below a warning, whatever
// happens.
func (c *collector) quiet(level ast.Expr) bool {
	if v := c.info.Types[level].Value; v != nil {
		return constant.Compare(v, token.LSS, constant.MakeInt64(int64(slog.LevelWarn)))
	}
	from := c.from[c.object(level)]
	return len(from) > 0 && !slices.ContainsFunc(from, func(e ast.Expr) bool { return !c.quiet(e) })
}

// questions are what is asked on standard error, and what is told of success: nothing
// is wrong.
var questions = []string{
	"From … of …, kept until …; sha256 …", "[bytes … to … of …: this is the end]", "[bytes … to … of …; the next part begins at offset …]",
	"Import … servers from … (…)? [y/N]", "Value of … (it is not shown):", "Nothing was imported.", "drawbridge: …",
	"drawbridge: fresh servers were started for this command; their state ends with it",
}

// toStderr says whether a writer is standard error, by its name, or that of what a
// parameter gets.
func (c *collector) toStderr(w ast.Expr, seen map[types.Object]bool) bool {
	name := types.ExprString(w)
	if slices.ContainsFunc([]string{"Stderr", "stderr", "std.err", "OrStderr"}, func(s string) bool { return strings.Contains(name, s) }) {
		return true
	}
	v, ok := c.object(w).(*types.Var)
	if !ok || v.IsField() || seen[v] {
		return false
	}
	seen[v] = true
	return slices.ContainsFunc(c.from[v], func(e ast.Expr) bool { return c.toStderr(e, seen) })
}
