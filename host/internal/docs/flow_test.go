package docs

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// flow knows of every variable, field, parameter and result which expressions it gets
// its value from, in whatever order: that is enough to say which texts may end in it.
type flow struct {
	*source
	// from is what a node gets: a types.Object, or a result.
	from map[any][]ast.Expr
	// through are the calls of functions that are values, by what holds the value.
	through map[types.Object][]*ast.CallExpr
	// methods are the functions of the repository by name, for calls by an interface.
	methods map[string][]*types.Func
}

// result is one of those of a function: of a *types.Func or of an *ast.FuncLit.
type result struct {
	of any
	at int
}

// follow reads where values come from.
func follow(s *source) *flow {
	f := &flow{source: s, from: map[any][]ast.Expr{}, through: map[types.Object][]*ast.CallExpr{}, methods: map[string][]*types.Func{}}
	for _, file := range s.syntax {
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if m, ok := s.info.Defs[fn.Name].(*types.Func); ok {
					f.methods[m.Name()] = append(f.methods[m.Name()], m)
				}
			}
		}
	}
	for _, file := range s.syntax {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Body != nil {
					f.read(d.Body, s.info.Defs[d.Name])
				}
			case *ast.GenDecl:
				f.read(d, nil)
			}
		}
	}
	f.bindAll()
	return f
}

// bindAll gives the parameters of functions that are values their arguments, until
// nothing is added: an argument may be such a function itself.
func (f *flow) bindAll() {
	type binding struct{ fn, call any }
	bound := map[binding]bool{}
	for again := true; again; {
		again = false
		for of, calls := range f.through {
			for _, fn := range f.functions(of, map[types.Object]bool{}) {
				for _, call := range calls {
					if !bound[binding{fn, call}] {
						bound[binding{fn, call}], again = true, true
						f.bind(call, f.signature(fn))
					}
				}
			}
		}
	}
}

// read takes in what one function does; in is the *types.Func or *ast.FuncLit.
func (f *flow) read(n ast.Node, in any) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.read(n.Body, n)
			return false
		case *ast.ReturnStmt:
			f.returned(n, in)
		case *ast.AssignStmt:
			f.assigned(n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			left := make([]ast.Expr, len(n.Names))
			for i, name := range n.Names {
				left[i] = name
			}
			f.assigned(left, n.Values)
		case *ast.RangeStmt:
			if n.Value != nil {
				f.add(f.object(n.Value), n.X)
			}
		case *ast.SendStmt:
			f.add(f.object(n.Chan), n.Value)
		case *ast.CompositeLit:
			f.composed(n)
		case *ast.CallExpr:
			f.called(n)
		}
		return true
	})
}

func (f *flow) add(to any, e ast.Expr) {
	if o, ok := to.(types.Object); ok && o == nil || to == nil {
		return
	}
	f.from[to] = append(f.from[to], e)
}

// assigned handles both forms: one for one, and several from one call. In the second
// the object gets the call, of which all results are looked at.
func (f *flow) assigned(left, right []ast.Expr) {
	for i, l := range left {
		switch {
		case len(right) == len(left):
			f.add(f.object(l), right[i])
		case len(right) == 1:
			if o := f.object(l); o != nil && carries(o.Type()) {
				f.add(o, right[0])
			}
		}
	}
}

func (f *flow) returned(n *ast.ReturnStmt, in any) {
	for i, e := range n.Results {
		f.add(result{in, i}, e)
	}
}

// composed gives the fields of a struct their values.
func (f *flow) composed(n *ast.CompositeLit) {
	t := f.info.TypeOf(n)
	if t == nil {
		return
	}
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	fields, ok := t.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for i, e := range n.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok {
				f.add(f.use(key), kv.Value)
			}
		} else if i < fields.NumFields() {
			f.add(origin(fields.Field(i)), e)
		}
	}
}

// called gives parameters their values, and to what is written to piece by piece, such
// as a strings.Builder, the pieces.
func (f *flow) called(call *ast.CallExpr) {
	switch fn := f.callee(call).(type) {
	case *types.Func:
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(fn.Name(), "Write") && len(call.Args) > 0 && isText(f.info.TypeOf(sel.X)) {
			f.add(f.object(sel.X), call.Args[0])
		}
		if strings.HasPrefix(fn.FullName(), "fmt.Fprint") && isText(f.info.TypeOf(call.Args[0])) {
			f.add(f.object(call.Args[0]), call)
		}
		for _, one := range f.targets(fn) {
			f.bind(call, one.Signature())
			if recv := one.Signature().Recv(); recv != nil {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
					f.add(origin(recv), sel.X)
				}
			}
		}
	case *types.Var:
		f.through[fn] = append(f.through[fn], call)
	case nil:
		if lit, ok := ast.Unparen(call.Fun).(*ast.FuncLit); ok {
			f.bind(call, f.signature(lit))
		}
	}
}

// bind gives the parameters of sig the arguments of a call.
func (f *flow) bind(call *ast.CallExpr, sig *types.Signature) {
	if sig == nil {
		return
	}
	for i, arg := range call.Args {
		at := min(i, sig.Params().Len()-1)
		if at < 0 {
			return
		}
		f.add(origin(sig.Params().At(at)), arg)
	}
}

// targets are the functions of the repository that a call of fn may run: itself, or
// where it is an interface's, those of the same name that fit.
func (f *flow) targets(fn *types.Func) []*types.Func {
	fn = fn.Origin()
	recv := fn.Signature().Recv()
	if recv == nil || !types.IsInterface(recv.Type()) {
		return []*types.Func{fn}
	}
	var found []*types.Func
	for _, m := range f.methods[fn.Name()] {
		r := m.Signature().Recv()
		if r == nil || m.Signature().Params().Len() != fn.Signature().Params().Len() {
			continue
		}
		if face, ok := recv.Type().Underlying().(*types.Interface); ok && types.Implements(r.Type(), face) {
			found = append(found, m)
		}
	}
	return found
}

// functions are what an object of a function's type may hold.
func (f *flow) functions(o types.Object, seen map[types.Object]bool) []any {
	if seen[o] {
		return nil
	}
	seen[o] = true
	var found []any
	for _, e := range f.from[o] {
		switch e := ast.Unparen(e).(type) {
		case *ast.FuncLit:
			found = append(found, e)
		case *ast.Ident, *ast.SelectorExpr:
			switch held := f.object(e).(type) {
			case *types.Func:
				found = append(found, held)
			case *types.Var:
				found = append(found, f.functions(held, seen)...)
			}
		}
	}
	return found
}

func (f *flow) signature(fn any) *types.Signature {
	switch fn := fn.(type) {
	case *types.Func:
		return fn.Origin().Signature()
	case *ast.FuncLit:
		sig, _ := f.info.TypeOf(fn).(*types.Signature)
		return sig
	}
	return nil
}

// callee is the *types.Func, or the *types.Var that holds the function, of a call.
func (f *flow) callee(call *ast.CallExpr) types.Object {
	fun := ast.Unparen(call.Fun)
	switch x := fun.(type) {
	case *ast.IndexExpr:
		fun = x.X
	case *ast.IndexListExpr:
		fun = x.X
	}
	switch fun.(type) {
	case *ast.Ident, *ast.SelectorExpr:
		return f.object(fun)
	}
	return nil
}

// object is what an expression names: a variable, a field, a function; of an element
// and of what a pointer leads to, the whole.
func (f *flow) object(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return f.use(e)
	case *ast.SelectorExpr:
		return f.use(e.Sel)
	case *ast.IndexExpr:
		return f.object(e.X)
	case *ast.StarExpr:
		return f.object(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return f.object(e.X)
		}
	}
	return nil
}

func (f *flow) use(id *ast.Ident) types.Object {
	if o := f.info.Uses[id]; o != nil {
		return origin(o)
	}
	if o := f.info.Defs[id]; o != nil {
		return o
	}
	return nil
}

// origin is the object as it is declared, of one that stands for a generic one.
func origin(o types.Object) types.Object {
	switch o := o.(type) {
	case *types.Var:
		return o.Origin()
	case *types.Func:
		return o.Origin()
	}
	return o
}

// carries says whether a value of a type may be a text, or lead to one.
func carries(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Basic:
		return t.Info()&types.IsString != 0 || t.Kind() == types.Invalid
	case *types.Slice:
		return carries(t.Elem())
	case *types.Array:
		return carries(t.Elem())
	case *types.Map:
		return carries(t.Elem())
	case *types.Chan:
		return carries(t.Elem())
	case *types.Pointer:
		return carries(t.Elem())
	case *types.Interface:
		return true
	}
	return false
}

// isText says whether a type is one that a text is put together in.
func isText(t types.Type) bool {
	if t == nil {
		return false
	}
	name := strings.TrimPrefix(t.String(), "*")
	return name == "strings.Builder" || name == "bytes.Buffer"
}
