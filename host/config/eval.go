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

// fromEnv marks values that env() had a part in, fromSecret those of secret().
// Templates, lists, maps and functions carry the marks along, so that what was
// made of such a value is known as such wherever it ends up. envDefault marks those
// that a default of env() had a part in, which is no secret and yet may give way to
// one.
type (
	fromEnv    struct{}
	fromSecret struct{}
	envDefault struct{}
)

// hides says whether env() or secret() had a part in a value.
func hides(v cty.Value) bool { return v.HasMark(fromEnv{}) || v.HasMark(fromSecret{}) }

// Lookup answers secret(name): the value, and whether there is one. An error says
// why the store cannot be used, and names the file.
type Lookup func(name string) (value string, found bool, err error)

// callError is what a function of ours says, before HCL wraps it.
type callError struct {
	summary, detail string
	// missing is set when the machine lacks something and the file is right.
	missing bool
}

func (e *callError) Error() string { return e.summary }

// scope is what expressions are evaluated in: the functions env, file and
// secret, and the variable path. It remembers what env() and secret() gave.
type scope struct {
	ctx *hcl.EvalContext
	// values are what env() gave, kept what secret() gave, and public the part of
	// values that stands in the host block.
	values, kept, public []string
	// lookup answers secret(); nil where it has no place, and within is the block
	// that it then stands in.
	lookup Lookup
	within string
	// blind is set where env() and secret() are to give one and the same text,
	// whatever their values are.
	blind bool
}

// unseen is what env() and secret() give in a blind scope.
const unseen = "(hidden)"

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
			"secret": s.secret(),
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
			if s.blind {
				return cty.StringVal(unseen).Mark(fromEnv{}), nil
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
			if s.within == "host" {
				s.public = append(s.public, value)
			}
			return stringVal(value).Mark(fromEnv{}), nil
		},
	})
}

// argument is the text of a function's argument, and how a message may show it:
// one that env() had a part in is not shown.
func argument(v cty.Value) (text, shown string, marks cty.ValueMarks) {
	hidden := hides(v)
	v, marks = v.Unmark()
	text = restore(v.AsString())
	if hidden {
		return text, "…", marks
	}
	return text, strconv.Quote(text), marks
}

// secret is secret(name).
func (s *scope) secret() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "name", Type: cty.String, AllowMarked: true}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if s.blind {
				return cty.StringVal(unseen).Mark(fromSecret{}), nil
			}
			name, shown, _ := argument(args[0])
			if s.lookup == nil {
				return cty.NilVal, s.misplaced()
			}
			value, found, err := s.lookup(name)
			switch {
			case err != nil:
				return cty.NilVal, &callError{missing: true, summary: "Secret not readable",
					detail: fmt.Sprintf("The secret %s cannot be had: %s.", shown, err)}
			case !found:
				return cty.NilVal, &callError{missing: true, summary: "Secret not set",
					detail: fmt.Sprintf("The secret %s is not set. Set it: drawbridge secret set %s", shown, strings.Trim(shown, `"`))}
			case !utf8.ValidString(value):
				return cty.NilVal, &callError{missing: true, summary: "Secret is no text",
					detail: fmt.Sprintf("The secret %s is not valid UTF-8, and a config holds text.", shown)}
			}
			s.kept = append(s.kept, value)
			return stringVal(value).Mark(fromSecret{}), nil
		},
	})
}

// misplaced is the error of a secret() outside of a config block: all else that
// stands in a file is shown by commands, and some of it decides where secrets are.
func (s *scope) misplaced() *callError {
	e := &callError{summary: "No secret() here",
		detail: "A secret has its place in the config block of a provider: what stands elsewhere is shown by commands and in lists."}
	if s.within == "host" {
		e.detail = "The host block says where secrets are kept (state_dir), so it is read before any secret can be. " +
			"A secret has its place in the config block of a provider."
	}
	return e
}

// beyondHost are the secrets that are not also settings of the host itself, such
// as the folder it says its token is in.
func (s *scope) beyondHost() []string {
	return slices.DeleteFunc(s.secrets(), func(v string) bool { return slices.Contains(s.public, v) })
}

// secrets are the values to keep out of every sink: those of secret(), and those
// of env() long enough to be told from common words.
func (s *scope) secrets() []string {
	long := slices.DeleteFunc(slices.Clone(s.values), func(v string) bool { return utf8.RuneCountInString(v) < minSecret })
	return append(long, s.kept...)
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

// sift gives HCL's diagnostics our words where HCL's would not do, and parts
// those that say what the machine lacks from those that say what is wrong with
// the file. None holds a value of env() or secret().
func (s *scope) sift(diags hcl.Diagnostics) (wrong, missing hcl.Diagnostics) {
	secrets := s.secrets()
	for _, d := range plain(diags) {
		for _, v := range secrets {
			if v != "" {
				d.Detail = strings.ReplaceAll(d.Detail, v, "…")
			}
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
	"Unsupported attribute":            "There is no such attribute here. The variables are path.config and, where this process has a home folder, path.home.",
	"Invalid index":                    "There is no such element.",
	"Invalid multi-line string":        "The quote that opens on this line is not closed on it. Text of several lines is written <<-EOT … EOT.",
	"Invalid template control keyword": "After %{ a template directive is expected. To have these two characters as text, write %%{.",
	"Call to unknown function":         "There is no such function. The functions are env(name), env(name, default), secret(name) and file(path).",
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
