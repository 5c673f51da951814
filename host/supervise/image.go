package supervise

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
)

// image is an executable that was checked and is about to run.
type image struct {
	// name is what messages call it: a third-party plugin's path.
	name string
	path string
	args []string
	// file is what was hashed, nil for a built-in plugin.
	file *os.File
}

func (i *image) close() {
	if i.file != nil {
		_ = i.file.Close()
	}
}

// openImage finds the executable of a plugin. A third-party one is hashed, and
// nothing runs whose checksum is not the declared one. The error is a cause, for
// people, and names the path.
func openImage(e Exec) (*image, error) {
	if e.Builtin {
		self, err := selfPath()
		if err != nil {
			return nil, fmt.Errorf("the host's own executable: %w", err)
		}
		return &image{name: fmt.Sprintf("the built-in plugin %q", e.Name), path: self, args: []string{"drawbridge", "plugin", e.Name}}, nil
	}
	f, err := os.Open(e.Path)
	if err != nil {
		return nil, describeOpen(e.Path, err)
	}
	i := &image{name: e.Path, path: e.Path, args: []string{e.Path}, file: f}
	if err := i.check(e.SHA256); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

// check compares the checksum of the open file with the declared one.
func (i *image) check(want string) error {
	info, err := i.file.Stat()
	if err != nil {
		return describeOpen(i.path, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file (%v)", i.name, info.Mode())
	}
	h := sha256.New()
	if _, err := io.Copy(h, i.file); err != nil {
		return describeOpen(i.path, err)
	}
	got := hex.EncodeToString(h.Sum(nil))
	if want == "" {
		return fmt.Errorf("%s has no declared sha256; it is %s", i.name, got)
	}
	if !strings.EqualFold(got, want) {
		return fmt.Errorf("%s has the sha256 %s, and the declared one is %s", i.name, got, strings.ToLower(want))
	}
	if bytes.HasPrefix(i.head(), []byte("#!")) {
		return fmt.Errorf("%s is a script, and only a program can be a plugin", i.name)
	}
	return nil
}

func (i *image) head() []byte {
	head := make([]byte, 64)
	n, _ := i.file.ReadAt(head, 0)
	return head[:n]
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

// describeSpawn says why an executable did not start.
func (i *image) describeSpawn(err error) error {
	switch {
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
	if i.file == nil {
		return "it is not known what it is"
	}
	if f, err := elf.NewFile(i.file); err == nil {
		return fmt.Sprintf("it is one for %v", f.Machine)
	}
	line, _, _ := strings.Cut(string(i.head()), "\n")
	return fmt.Sprintf("it begins with %q", line)
}

// command is what containment starts. Standard input, output and error are set
// by the caller.
func (i *image) command(env []string) containment.Command {
	return containment.Command{Path: i.path, Args: i.args, Env: env, Image: i.file}
}
