package docs

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// collector walks back from where people and clients are told something to every text
// that may be told there.
type collector struct {
	*flow
	// found are the texts, each with a place that has it.
	found map[string]string
	seen  map[visit]bool
	// in is the function whose results are followed; nil for what anybody may reach. Its
	// parameters stand for the arguments of one call and not of every.
	in any
	// documented are fields whose texts another page has.
	documented map[*types.Var]bool
	// given are the parameters that end in a function's results.
	given map[any][]*types.Var
}

// visit is one of an expression or an object, in one function or for all, as a whole
// message or a piece.
type visit struct {
	what, in any
	whole    bool
}

// text follows an expression. whole says that it is all of a message, which may be one
// word; what only flows into one has two at least, or is a name.
func (c *collector) text(e ast.Expr, whole bool) {
	e = ast.Unparen(e)
	whole = whole || c.makesError(e)
	if c.seen[visit{e, c.in, whole}] {
		return
	}
	c.seen[visit{e, c.in, whole}] = true
	if known, ok := c.pattern(e); ok {
		c.record(known, e, whole)
	}
	tv := c.info.Types[e]
	if tv.Value != nil {
		return
	}
	switch e := e.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		if v, ok := c.object(e).(*types.Var); ok && carries(v.Type()) {
			c.variable(v, whole)
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			c.part(e.X)
			c.part(e.Y)
		}
	case *ast.StarExpr:
		c.text(e.X, whole)
	case *ast.UnaryExpr:
		c.text(e.X, whole)
	case *ast.TypeAssertExpr:
		c.text(e.X, whole)
	case *ast.IndexExpr:
		c.text(e.X, whole)
	case *ast.SliceExpr:
		c.text(e.X, whole)
	case *ast.CompositeLit:
		c.elements(e, whole)
	case *ast.CallExpr:
		c.call(e, whole)
	}
}

// part follows a piece of a text whose constant pieces are recorded with the whole.
func (c *collector) part(e ast.Expr) {
	if _, joined := ast.Unparen(e).(*ast.BinaryExpr); joined || c.info.Types[e].Value != nil {
		c.seen[visit{ast.Unparen(e), c.in, false}] = true
		if b, ok := ast.Unparen(e).(*ast.BinaryExpr); ok && c.info.Types[e].Value == nil {
			c.part(b.X)
			c.part(b.Y)
		}
		return
	}
	if format, args, ok := c.formatted(e); ok { // its pattern stands in the whole's
		c.seen[visit{ast.Unparen(e), c.in, false}] = true
		c.verbs(format, args)
		return
	}
	c.text(e, false)
}

func (c *collector) elements(e *ast.CompositeLit, whole bool) {
	if t := c.info.TypeOf(e); t == nil || !carries(t) {
		return
	}
	for _, one := range e.Elts {
		if kv, ok := one.(*ast.KeyValueExpr); ok {
			one = kv.Value
		}
		c.text(one, whole)
	}
}

// variable follows what a variable, a field or a parameter gets.
func (c *collector) variable(o *types.Var, whole bool) {
	if at := c.parameter(o); at >= 0 {
		if !slices.Contains(c.given[c.in], o) {
			c.given[c.in] = append(c.given[c.in], o)
		}
		return
	}
	if c.documented[o] {
		return
	}
	defer func(before any) { c.in = before }(c.in)
	if !c.local(o) {
		c.in = nil
	}
	if c.seen[visit{o, c.in, whole}] {
		return
	}
	c.seen[visit{o, c.in, whole}] = true
	for _, e := range c.from[o] {
		c.text(e, whole)
	}
}

// parameter is which of the followed function's parameters a variable is, -1 for none.
func (c *collector) parameter(o *types.Var) int {
	sig := c.signature(c.in)
	if sig == nil {
		return -1
	}
	for i := range sig.Params().Len() {
		if sig.Params().At(i) == o {
			return i
		}
	}
	return -1
}

// local says whether a variable is one of the followed function's own.
func (c *collector) local(o *types.Var) bool {
	if o.IsField() || o.Pkg() == nil || o.Parent() == o.Pkg().Scope() {
		return false
	}
	switch in := c.in.(type) {
	case *types.Func:
		return in.Scope() != nil && in.Scope().Contains(o.Pos())
	case *ast.FuncLit:
		return in.Pos() <= o.Pos() && o.Pos() < in.End()
	}
	return false
}

// passing are the packages whose functions give back texts that they were given.
var passing = []string{"strings", "cmp", "slices", "maps", "bytes", "fmt", "errors"}

func (c *collector) call(e *ast.CallExpr, whole bool) {
	if c.info.Types[e.Fun].IsType() {
		if len(e.Args) == 1 {
			c.text(e.Args[0], whole)
		}
		return
	}
	if format, args, ok := c.formatted(e); ok {
		if c.info.Types[format].Value == nil {
			c.text(format, whole)
		}
		c.verbs(format, args)
		return
	}
	switch fn := c.callee(e).(type) {
	case *types.Builtin:
		for _, arg := range e.Args {
			c.text(arg, whole)
		}
	case *types.Var:
		for _, held := range c.functions(fn, map[types.Object]bool{}) {
			c.answer(held, e, whole)
		}
	case *types.Func:
		c.returns(fn, e, whole)
	case nil:
		if lit, ok := ast.Unparen(e.Fun).(*ast.FuncLit); ok {
			c.answer(lit, e, whole)
		}
	}
}

func (c *collector) returns(fn *types.Func, e *ast.CallExpr, whole bool) {
	if fn.Pkg() != nil && slices.Contains(passing, fn.Pkg().Path()) {
		if strings.HasPrefix(fn.Name(), "Fprint") {
			return
		}
		if sel, ok := e.Fun.(*ast.SelectorExpr); ok && fn.Signature().Recv() != nil && isText(c.info.TypeOf(sel.X)) {
			if o, ok := c.object(sel.X).(*types.Var); ok {
				c.variable(o, false)
			}
		}
		for _, arg := range e.Args {
			if t := c.info.TypeOf(arg); t != nil && carries(t) {
				c.text(arg, false)
			}
		}
		return
	}
	for _, one := range c.targets(fn) {
		c.answer(one, e, whole)
	}
}

// answer follows what a function gives back to one call: its own texts, and those of the
// call's arguments that it gives back.
func (c *collector) answer(fn any, call *ast.CallExpr, whole bool) {
	c.results(fn, whole)
	sig := c.signature(fn)
	for _, p := range c.given[fn] {
		for i, arg := range call.Args {
			if at := min(i, sig.Params().Len()-1); sig.Params().At(at) == p {
				c.text(arg, false)
			}
		}
	}
}

// results follows what a function gives back, as far as it is text.
func (c *collector) results(fn any, whole bool) {
	sig := c.signature(fn)
	if sig == nil {
		return
	}
	defer func(before any) { c.in = before }(c.in)
	c.in = fn
	for i := range sig.Results().Len() {
		r := sig.Results().At(i)
		if !carries(r.Type()) {
			continue
		}
		for _, e := range c.from[result{fn, i}] {
			c.text(e, whole)
		}
		if r.Name() != "" {
			c.variable(r, whole)
		}
	}
}

// formatters are the functions of fmt that take a format: which argument it is.
var formatters = map[string]int{"fmt.Sprintf": 0, "fmt.Errorf": 0, "fmt.Appendf": 1, "fmt.Fprintf": 1}

// formatted takes a call apart that fills a format.
func (c *collector) formatted(e ast.Expr) (format ast.Expr, args []ast.Expr, ok bool) {
	call, isCall := ast.Unparen(e).(*ast.CallExpr)
	if !isCall {
		return nil, nil, false
	}
	fn, isFunc := c.callee(call).(*types.Func)
	if !isFunc {
		return nil, nil, false
	}
	at, known := formatters[fn.FullName()]
	if !known || at >= len(call.Args) || strings.HasPrefix(fn.Name(), "Fprint") && !isText(c.info.TypeOf(call.Args[0])) {
		return nil, nil, false // what is written elsewhere is not what the call gives: that is the writer's error
	}
	return call.Args[at], call.Args[at+1:], true
}

// makesError says whether an expression makes an error, whose text is a whole message.
func (c *collector) makesError(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	fn, ok := c.callee(call).(*types.Func)
	return ok && fn.FullName() == "fmt.Errorf"
}

// verbs follows the arguments of a format. What is put in quotes is a name or a value.
func (c *collector) verbs(format ast.Expr, args []ast.Expr) {
	text := c.info.Types[format].Value
	if text == nil {
		for _, arg := range args {
			c.text(arg, false)
		}
		return
	}
	for i, v := range verb.FindAllString(strings.ReplaceAll(constant.StringVal(text), "%%", ""), -1) {
		if i < len(args) && strings.ContainsAny(v[len(v)-1:], "svw") {
			c.argument(args[i])
		}
	}
}

// argument follows one that is printed: a text, or what says itself how it reads.
func (c *collector) argument(e ast.Expr) {
	t := c.info.TypeOf(e)
	if t == nil {
		return
	}
	if m, _, _ := types.LookupFieldOrMethod(t, true, nil, "String"); m != nil {
		if fn, ok := m.(*types.Func); ok {
			for _, one := range c.targets(fn) {
				c.results(one, false)
			}
		}
	}
	if carries(t) {
		c.text(e, false)
	}
}

// verb is one of fmt's.
var verb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[\d.]*[a-zA-Z]`)

// pattern is the text of an expression with "…" for what is not known; false where
// nothing of it is.
func (c *collector) pattern(e ast.Expr) (string, bool) {
	e = ast.Unparen(e)
	if v := c.info.Types[e].Value; v != nil {
		if v.Kind() != constant.String {
			return "", false
		}
		return strings.ReplaceAll(verb.ReplaceAllString(constant.StringVal(v), "…"), "%%", "%"), true
	}
	if format, _, ok := c.formatted(e); ok {
		return c.pattern(format)
	}
	sum, ok := e.(*ast.BinaryExpr)
	if !ok || sum.Op != token.ADD {
		return "", false
	}
	left, knowLeft := c.pattern(sum.X)
	right, knowRight := c.pattern(sum.Y)
	if !knowLeft {
		left = "…"
	}
	if !knowRight {
		right = "…"
	}
	return left + right, knowLeft || knowRight
}

// joining are words that join messages and say nothing by themselves.
var joining = []string{"and", "for", "in", "of", "at", "is", "by", "with", "from", "to", "the", "a"}

// names are put into messages, which say the rest; "exit" and a number is not printed.
var names = []string{"drawbridge/call_id", "the note", "the plugin", "the server", "the name … …", "… … (uid …)", "on stdio", "exit …",
	"mark", "guard", "an object", "true or false", "some clients", "most clients", "text/plain; charset=utf-8",
}

// record keeps a text that says something.
func (c *collector) record(text string, at ast.Expr, whole bool) {
	text = normal(text)
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains(joining, w) })
	if len(words) == 0 || !whole && (len(words) < 2 || !strings.Contains(strings.TrimSpace(strings.ReplaceAll(text, "…", "")), " ")) {
		return
	}
	if strings.HasPrefix(c.place(at), "shared/providerpb/") || slices.Contains(questions, text) || slices.Contains(names, text) {
		return
	}
	if _, ok := c.found[text]; !ok {
		c.found[text] = c.place(at)
	}
}

// normal is a text as it stands in a page: on one line, without what ends a code span or
// a cell, and without the space around it.
func normal(text string) string {
	text = strings.NewReplacer("`", "'", "|", "/", "\n", " ").Replace(text)
	text = strings.Join(strings.Fields(text), " ")
	for strings.Contains(text, "……") {
		text = strings.ReplaceAll(text, "……", "…")
	}
	return text
}
