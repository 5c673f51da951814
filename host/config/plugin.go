package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
)

// pluginSource is a plugin block as far as one attribute of it means nothing
// without the others.
type pluginSource struct {
	at     place
	sha256 string
	// hasSHA256 says that sha256 is a string, of whatever kind.
	hasSHA256   bool
	args, files []string
}

func pluginBody(c *Config, p *Plugin, at place) body {
	w := &pluginSource{at: at}
	return body{
		attributes: []attribute{
			file(&p.Path, "path", "The executable."),
			text(&w.sha256, "sha256", "", "The SHA-256 of the executable in hexadecimal, checked at every start. Of a script it is that over all of files: of what `sha256sum` prints for them, in their order, in the folder of the file.",
				func(string) error { w.hasSHA256 = true; return nil }),
			text(&p.Command, "command", "", "For a plugin that is a script, instead of path: what runs it. Without a slash it is looked for in PATH.", notEmpty),
			texts(&w.args, "args", nil, "Arguments of the command. One that is the same as a name in files is passed as that file's absolute path.", nil),
			texts(&w.files, "files", nil, "The files of the script, all of which are hashed. What else it loads is not.", checkFileName),
			text(&p.Version, "version", "", "The version that the plugin has to say it has.", notEmpty),
			boolean(&p.MTLS, "mtls", false, "Speak TLS with the plugin, besides the token."),
		},
		check: func(d *decoder, src *hclsyntax.Block) {
			d.addPlugin(c, p, src)
			d.completePlugin(p, w, src)
		},
	}
}

// checkFileName refuses what would make a line of a checksum two.
func checkFileName(s string) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("must not hold control characters")
	}
	return nil
}

// addPlugin gives a plugin its name.
func (d *decoder) addPlugin(c *Config, p *Plugin, src *hclsyntax.Block) {
	p.Name, p.Range = src.Labels[0], src.DefRange()
	label := src.LabelRanges[0]
	if slug, err := Slug(p.Name); err != nil || slug != p.Name {
		d.errorf(label, "Bad name of a plugin", "The name must hold lower case letters, digits and single dashes only, at most %d characters.", MaxSlug)
		return
	}
	if slices.Contains(Builtin, p.Name) {
		d.errorf(label, "Name of a built-in plugin", "The plugin %q is built in. Give this one another name.", p.Name)
		return
	}
	if before := c.Plugins[p.Name]; before != nil {
		d.errorf(label, fmt.Sprintf("Second plugin %q", p.Name), "There is already one at %s. Give one of them another name.", where(before.Range))
		return
	}
	c.Plugins[p.Name] = p
}

// completePlugin checks what belongs together, and puts the files of a script in
// their places.
func (d *decoder) completePlugin(p *Plugin, w *pluginSource, src *hclsyntax.Block) {
	written := src.Body.Attributes
	if at := written["version"]; at != nil {
		p.VersionRange = at.Expr.Range()
	}
	d.resolveFiles(p, w, src)
	switch {
	case written["command"] != nil && written["path"] != nil:
		d.errorf(written["path"].NameRange, "Both path and command", "A plugin is an executable, with path, or a script, with command. Remove one.")
		return
	case written["command"] != nil:
		if !d.completeScript(p, src) {
			return
		}
	case written["args"] != nil || written["files"] != nil:
		at := written["args"]
		if at == nil {
			at = written["files"]
		}
		d.errorf(at.NameRange, fmt.Sprintf("%q without command", at.Name), "It is for a plugin that is a script. Set command to what runs it, or remove %s.", at.Name)
		return
	case written["path"] == nil:
		if !d.inBroken {
			d.errorf(p.Range, `Missing attribute "path"`, "Set path to the plugin's executable.")
		}
		return
	}
	d.checkSHA256Of(p, w, src)
}

// resolveFiles makes the paths of a script absolute. The command may be one of its
// files, too.
func (d *decoder) resolveFiles(p *Plugin, w *pluginSource, src *hclsyntax.Block) {
	paths := map[string]string{}
	for i, name := range w.files {
		path, err := w.at.path(name)
		if err != nil {
			at, element := placeOf(src.Body.Attributes["files"].Expr, "files", &elementError{i, err})
			d.errorf(at, `Bad value for "files"`, "%s %s", element, sentence(err))
			continue
		}
		paths[name] = path
		p.Files = append(p.Files, checksum.Named{Name: name, Path: path})
	}
	for _, arg := range w.args {
		if path, ok := paths[arg]; ok {
			arg = path
		}
		p.Args = append(p.Args, arg)
	}
	if path, ok := paths[p.Command]; ok {
		p.Command = path
		return
	}
	if !strings.Contains(p.Command, "/") {
		return
	}
	path, err := w.at.path(p.Command)
	if err != nil {
		d.errorf(src.Body.Attributes["command"].Expr.Range(), `Bad value for "command"`, "command %s", sentence(err))
		return
	}
	p.Command = path
}

// completeScript says whether a script has its files, and warns of what they do not
// cover.
func (d *decoder) completeScript(p *Plugin, src *hclsyntax.Block) bool {
	written := src.Body.Attributes
	switch {
	case written["files"] == nil:
		if !d.inBroken {
			d.errorf(p.Range, `Missing attribute "files"`, "Set files to the files of the script: what they hold is compared with sha256 at every start.")
		}
		return false
	case len(p.Files) == 0:
		if list, ok := written["files"].Expr.(*hclsyntax.TupleConsExpr); ok && len(list.Exprs) == 0 {
			d.errorf(list.Range(), `"files" is empty`, "Without a file sha256 would say nothing. Name the files of the script.")
		}
		return false
	}
	d.diags = append(d.diags, caution(written["command"].Expr.Range(), fmt.Sprintf("The plugin %q is a script", p.Name),
		"Only what files names is compared with sha256. What runs it, what it loads besides, and a change between the comparison and the reading are not covered: let nobody else write to where they stand."))
	return true
}

// checkSHA256Of wants the checksum of a plugin. Where there is none, it says which
// one it would be, for the owner to paste.
func (d *decoder) checkSHA256Of(p *Plugin, w *pluginSource, src *hclsyntax.Block) {
	what, how := "the executable", "as sha256sum prints it"
	if p.Command != "" {
		what, how = "all of files together", "in their order"
	}
	p.SHA256 = w.sha256
	var at hcl.Range
	summary := `Missing attribute "sha256"`
	switch written := src.Body.Attributes["sha256"]; {
	case written == nil && d.inBroken:
		return
	case written == nil:
		at = p.Range
	case !w.hasSHA256 || checkSHA256(w.sha256) == nil:
		return
	default:
		at, summary = written.Expr.Range(), `Bad value for "sha256"`
		p.SHA256 = "" // so that nobody takes it for one
	}
	d.errorf(at, summary, "sha256 is the checksum of %s, %s: 64 hexadecimal digits. Only what has it is run. %s", what, how, itsChecksum(p))
}

// itsChecksum is what to write for what is there now.
func itsChecksum(p *Plugin) string {
	sum, err := "", error(nil)
	if p.Command != "" {
		sum, err = checksum.Files(p.Files)
	} else {
		sum, err = checksum.File(p.Path)
	}
	var path *fs.PathError
	switch {
	case err == nil:
	case errors.As(err, &path) && errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("There is no %s yet.", filepath.Base(path.Path))
	case errors.As(err, &path):
		return fmt.Sprintf("%s cannot be read: %v.", filepath.Base(path.Path), path.Err)
	default:
		return fmt.Sprintf("What it is now cannot be told: %v.", err)
	}
	return fmt.Sprintf("If what is there now is to be trusted, write: sha256 = %q", sum)
}
