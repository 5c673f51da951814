package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// minSecret is the length from which a value of env() counts as a secret: a
// redactor that took "1" or "true" out of every log would destroy more than it
// protects.
const minSecret = 8

// fromEnv marks values that env() had a part in. envDefault marks those that its
// default had a part in, which is no secret and yet may give way to one.
type (
	fromEnv    struct{}
	envDefault struct{}
)

// callError is what a function of ours says, before HCL wraps it.
type callError struct {
	summary, detail string
	// missing is set when the machine lacks something and the file is right.
	missing bool
}

func (e *callError) Error() string { return e.summary }

// scope is what expressions are evaluated in: the functions env, file and
// secret, and the variable path. It remembers what env() gave.
type scope struct {
	ctx    *hcl.EvalContext
	values []string
}

func newScope(at place) *scope {
	s := &scope{}
	path := map[string]cty.Value{"config": stringVal(at.base)}
	if at.home != "" {
		path["home"] = stringVal(at.home)
	}
	s.ctx = &hcl.EvalContext{
		Variables: map[string]cty.Value{"path": cty.ObjectVal(path)},
		Functions: map[string]function.Function{
			"env":    s.env(),
			"file":   fileFunction(at),
			"secret": secretFunction,
		},
	}
	return s
}

func stringVal(s string) cty.Value { return cty.StringVal(disguise(s)) }

// env is env(name) and env(name, default).
func (s *scope) env() function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "name", Type: cty.String, AllowMarked: true}},
		VarParam: &function.Parameter{Name: "default", Type: cty.String, AllowNull: true},
		Type:     function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if len(args) > 2 {
				return cty.NilVal, &callError{summary: "Too many arguments", detail: "env takes a name and, if you like, a default."}
			}
			name, shown, marks := argument(args[0])
			value, ok := os.LookupEnv(name)
			if !ok && len(args) == 2 {
				return args[1].WithMarks(marks).Mark(envDefault{}), nil
			}
			if !ok {
				return cty.NilVal, &callError{missing: true, summary: "Environment variable not set",
					detail: fmt.Sprintf("The environment variable %s is not set. Set it for the host, or give a default: env(%s, \"…\").", shown, shown)}
			}
			if !utf8.ValidString(value) {
				return cty.NilVal, &callError{missing: true, summary: "Environment variable is no text",
					detail: fmt.Sprintf("The environment variable %s is not valid UTF-8.", shown)}
			}
			s.values = append(s.values, value)
			return stringVal(value).Mark(fromEnv{}), nil
		},
	})
}

// argument is the text of a function's argument, and how a message may show it:
// one that env() had a part in is not shown.
func argument(v cty.Value) (text, shown string, marks cty.ValueMarks) {
	v, marks = v.Unmark()
	text = restore(v.AsString())
	if _, ok := marks[fromEnv{}]; ok {
		return text, "…", marks
	}
	return text, strconv.Quote(text), marks
}

// secrets are the values of env() long enough to be told from common words.
func (s *scope) secrets() []string {
	return slices.DeleteFunc(slices.Clone(s.values), func(v string) bool { return utf8.RuneCountInString(v) < minSecret })
}

// fileFunction is file(path): a file's text without its last line break, as a
// shell's $(cat path) gives it, so that a token in a file is the token.
func fileFunction(at place) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String, AllowMarked: true}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name, shown, marks := argument(args[0])
			path, err := at.path(name)
			if err != nil {
				return cty.NilVal, &callError{summary: "Bad path", detail: fmt.Sprintf("The path of file() %s.", err)}
			}
			text, err := readText(path)
			if err != nil {
				return cty.NilVal, &callError{missing: true, summary: "File not readable", detail: fmt.Sprintf("The file %s %s.", shown, err)}
			}
			text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
			return stringVal(text).WithMarks(marks), nil
		},
	})
}

// readText reads a regular file. Anything else (a pipe, a device) could block or
// never end.
func readText(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", whyNot(err)
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", whyNot(err)
	}
	defer func() { _ = f.Close() }()
	return readBounded(f)
}

func readBounded(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFileSize+1))
	switch {
	case err != nil:
		return "", whyNot(err)
	case len(data) > maxFileSize:
		return "", fmt.Errorf("is larger than %d KiB", maxFileSize>>10)
	case !utf8.Valid(data):
		return "", errors.New("is not text in UTF-8")
	}
	return string(data), nil
}

// whyNot words an error of the file system without the path, which its reader
// has just read.
func whyNot(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("does not exist")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("may not be read by this user")
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// secretFunction keeps the name secret(), so that nobody gets "no such function"
// for what the documentation describes.
var secretFunction = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "name", Type: cty.String}},
	Type:   function.StaticReturnType(cty.String),
	Impl: func([]cty.Value, cty.Type) (cty.Value, error) {
		return cty.NilVal, &callError{summary: "secret() is not in force yet",
			detail: "The host cannot keep secrets yet. Use env(name), or file(path) with a file that only you may read."}
	},
})

// sift gives HCL's diagnostics our words where HCL's would not do, and parts
// those that say what the machine lacks from those that say what is wrong with
// the file. None holds a value of env().
func (s *scope) sift(diags hcl.Diagnostics) (wrong, missing hcl.Diagnostics) {
	for _, d := range plain(diags) {
		for _, v := range s.secrets() {
			d.Detail = strings.ReplaceAll(d.Detail, v, "…")
		}
		if d.Extra == nil {
			wrong = append(wrong, d)
			continue
		}
		d.Extra = nil
		missing = append(missing, d)
	}
	return wrong, missing
}

// reworded are HCL's summaries whose details hold text of an expression: a
// password without its quotes reads as the name of a variable.
var reworded = map[string]string{
	"Unknown variable":                 "There is no such variable. Text is written in quotes; the variables are path.config and path.home.",
	"Unsupported attribute":            "There is no such attribute here. The variables are path.config and path.home.",
	"Invalid index":                    "There is no such element.",
	"Invalid multi-line string":        "The quote that opens on this line is not closed on it. Text of several lines is written <<-EOT … EOT.",
	"Invalid template control keyword": "After %{ a template directive is expected. To have these two characters as text, write %%{.",
	"Call to unknown function":         "There is no such function. The functions are env(name), env(name, default) and file(path).",
}

// hclPlace is how HCL writes a place: file:3,1-5, or file:3,1-4,2.
var hclPlace = regexp.MustCompile(`(:\d+),(\d+)-\d+(?:,\d+)?`)

// plain strips diagnostics of HCL to what may be shown: expression and context
// would let HCL's own writer print values of variables. A missing thing keeps its
// *callError in Extra, for sift.
func plain(diags hcl.Diagnostics) hcl.Diagnostics {
	out := make(hcl.Diagnostics, 0, len(diags))
	for _, d := range diags {
		own := &hcl.Diagnostic{Severity: d.Severity, Summary: d.Summary, Subject: d.Subject}
		own.Detail = hclPlace.ReplaceAllString(d.Detail, "$1:$2")
		if detail, ok := reworded[d.Summary]; ok {
			own.Detail = detail
		}
		if call, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](d); ok {
			var e *callError
			if errors.As(call.FunctionCallError(), &e) {
				own.Summary, own.Detail = e.summary, e.detail
				if e.missing {
					own.Extra = e
				}
			}
		}
		out = append(out, own)
	}
	return out
}
