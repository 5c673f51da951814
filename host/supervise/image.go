package supervise

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
)

// image is an executable that was checked and is about to run.
type image struct {
	// name is what messages call it: a third-party plugin's path.
	name string
	path string
	args []string
	// sealed is what was hashed, nil for a built-in plugin and a script. It is the
	// store's.
	sealed *containment.Sealed
	// recheck compares the files of a script with the checksum once more; nil for
	// what cannot have changed.
	recheck func() error
}

// openImage finds the executable of a plugin. A third-party one is sealed: nothing
// runs but what has the declared checksum. The error is a cause, for people, and
// names the path.
func openImage(e Exec, images *containment.Images, environ []string) (*image, error) {
	if e.Command != "" {
		return openScript(e, environ)
	}
	if e.Builtin {
		self, err := selfPath()
		if err != nil {
			return nil, fmt.Errorf("the host's own executable: %w", err)
		}
		return &image{name: fmt.Sprintf("the built-in plugin %q", e.Name), path: self, args: []string{"drawbridge", "plugin", e.Name}}, nil
	}
	info, err := os.Stat(e.Path)
	switch {
	case err != nil:
		return nil, describeOpen(e.Path, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file (%v)", e.Path, info.Mode())
	case runtime.GOOS != "windows" && info.Mode()&0o111 == 0:
		// The copy that runs could be made executable; the owner did not want that.
		return nil, fmt.Errorf("%s is not executable%s", e.Path, modeOf(e.Path))
	case e.SHA256 == "":
		return nil, undeclared(e)
	}
	sealed, err := images.Seal(e.Path, e.SHA256)
	var mismatch *containment.MismatchError
	switch {
	case err == nil:
		return &image{name: e.Path, path: e.Path, args: []string{e.Path}, sealed: sealed}, nil
	case errors.As(err, &mismatch):
		return nil, fmt.Errorf("%s has the sha256 %s, and the declared one is %s", e.Path, mismatch.Got, mismatch.Want)
	case errors.Is(err, containment.ErrScript):
		return nil, fmt.Errorf("%s is a script: declare it with command, args and files instead of path", e.Path)
	}
	return nil, describeOpen(e.Path, err)
}

// undeclared tells the checksum that the declaration lacks.
func undeclared(e Exec) error {
	sum, what, err := "", e.Path, error(nil)
	if e.Command != "" {
		what = e.files()
		sum, err = checksum.Files(e.Files)
	} else {
		sum, err = checksum.File(e.Path)
	}
	if err != nil {
		return describeRead(err)
	}
	return fmt.Errorf("%s has no declared sha256; it is %s", what, sum)
}

// describeRead is describeOpen for an error that names its path.
func describeRead(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return describeOpen(path.Path, path.Err)
	}
	return err
}

// describeOpen says what is wrong with a path in its own words.
func describeOpen(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be read%s", path, modeOf(path))
	}
	return fmt.Errorf("%s cannot be read: %w", path, err)
}

// again makes sure, once the plugin has come up, that the files of a script are what
// they were before it was started: what was read in between is what was hashed.
func (i *image) again() error {
	if i.recheck == nil {
		return nil
	}
	return i.recheck()
}

// describeSpawn says why an executable did not start.
func (i *image) describeSpawn(err error) error {
	switch {
	case errors.Is(err, containment.ErrRecord):
		return err // it says all, and the executable has nothing to do with it
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s is not executable%s", i.name, modeOf(i.path))
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s is no program for %s/%s: %s", i.name, runtime.GOOS, runtime.GOARCH, i.kind())
	case errors.Is(err, fs.ErrNotExist):
		// The file is there: its interpreter is not.
		return fmt.Errorf("%s cannot be run: the loader or interpreter that it names does not exist", i.name)
	}
	return fmt.Errorf("%s cannot be run: %w", i.name, err)
}

func modeOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": its permissions are %v", info.Mode())
}

// kind says what a file is that is no program for this machine.
func (i *image) kind() string {
	const unknown = "it is not known what it is"
	f, err := os.Open(i.path)
	if err != nil {
		return unknown
	}
	defer f.Close()
	if f, err := elf.NewFile(f); err == nil {
		return fmt.Sprintf("it is one for %v", f.Machine)
	}
	head := make([]byte, 64)
	n, _ := f.ReadAt(head, 0)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	return fmt.Sprintf("it begins with %q", line)
}

// command is what containment starts. Standard input, output and error are set
// by the caller.
func (i *image) command(env []string) containment.Command {
	c := containment.Command{Path: i.path, Args: i.args, Env: env}
	if i.sealed != nil {
		c = i.sealed.In(c)
	}
	return c
}
