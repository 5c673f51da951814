package supervise

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/shared/checksum"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// openScript compares the files of a script with its checksum and finds what runs
// it. It runs from its own path, for its interpreter can read it nowhere else; so
// unlike a sealed executable it could be changed until it is read. That is why a
// start compares again before it uses the plugin, and nothing is remembered from
// one start to the next.
func openScript(e Exec, environ []string) (*image, error) {
	if e.SHA256 == "" {
		return nil, undeclared(e)
	}
	if err := e.compare(); err != nil {
		return nil, err
	}
	path, err := lookCommand(e.Command, environ)
	if err != nil {
		return nil, err
	}
	return &image{
		name: fmt.Sprintf("the script %s", e.files()), path: path,
		args: append([]string{e.Command}, e.Args...), recheck: e.compare,
	}, nil
}

// compare says whether the files of a script are those that were declared.
func (e Exec) compare() error {
	got, err := checksum.Files(e.Files)
	switch {
	case errors.Is(err, checksum.ErrNoFiles):
		return errors.New("the script has no declared files")
	case err != nil:
		return describeRead(err)
	case !strings.EqualFold(got, e.SHA256):
		return fmt.Errorf("%s has the sha256 %s, and the declared one is %s", e.files(), got, e.SHA256)
	}
	return nil
}

// files names the files of a script for people.
func (e Exec) files() string {
	if len(e.Files) == 1 {
		return e.Files[0].Path
	}
	names := make([]string, 0, len(e.Files))
	for _, file := range e.Files {
		names = append(names, file.Name)
	}
	return fmt.Sprintf("%q of the plugin %q", names, e.Name)
}

// lookCommand finds the command of a script, in the PATH that the plugin will have.
func lookCommand(command string, environ []string) (string, error) {
	if filepath.IsAbs(command) {
		if _, err := exec.LookPath(command); err != nil {
			return "", describeLook(command, err)
		}
		return command, nil
	}
	path := ""
	for _, pair := range provider.BaseEnv(environ) {
		if name, value, _ := strings.Cut(pair, "="); strings.EqualFold(name, "PATH") { // Windows writes Path
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // relative to nothing that the file's author can see
		}
		if found, err := exec.LookPath(filepath.Join(dir, command)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s, which is to run the plugin, is in no folder of PATH: %s", command, path)
}

func describeLook(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s, which is to run the plugin, does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s, which is to run the plugin, is not executable%s", path, modeOf(path))
	}
	return fmt.Errorf("%s, which is to run the plugin, cannot be run: %w", path, err)
}
