package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
)

// digestForm is what a digest looks like; nothing else becomes a file's name.
var digestForm = regexp.MustCompile(`^(raw:)?[0-9a-f]{64}$`)

// Definitions keeps definitions that someone has approved, so that what has
// changed in them can be shown. A definition that is not there costs a report its
// old values and nothing else.
type Definitions struct {
	// Dir is the folder, made (0700) where there is none.
	Dir string
}

// Put keeps a definition under its digest.
func (d Definitions) Put(t *catalog.Tool) (err error) {
	path, ok := d.path(t.Digest)
	if !ok {
		return fmt.Errorf("definition of %s: %q is no digest", t.Name, t.Digest)
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return fmt.Errorf("definition of %s: %w", t.Name, err)
	}
	f, err := os.CreateTemp(d.Dir, "part-*")
	if err != nil {
		return fmt.Errorf("definition of %s: %w", t.Name, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(t.Raw)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// Get is the definition of a digest, nil where it is not there or not itself.
func (d Definitions) Get(digest string) json.RawMessage {
	path, ok := d.path(digest)
	if !ok {
		return nil
	}
	raw, err := os.ReadFile(path)
	if err != nil || catalog.DigestTool(raw) != digest {
		return nil
	}
	return raw
}

func (d Definitions) path(digest string) (string, bool) {
	return filepath.Join(d.Dir, strings.ReplaceAll(digest, ":", "-")+".json"), digestForm.MatchString(digest)
}
