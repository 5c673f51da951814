package plan

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/catalog"
	"github.com/drawbridge-mcp/drawbridge/host/lock"
	"github.com/drawbridge-mcp/drawbridge/shared/wholefile"
)

const (
	// keptDefinitions are how many definitions are kept that the lock file at hand does
	// not have: those that were approved before, and those of other configurations.
	keptDefinitions = 4096
	// partPrefix begins the name of a file that is being written, and stalePart is how
	// old it may be until it counts as left by a command that was killed.
	partPrefix = "part-"
	stalePart  = time.Hour
)

// digestForm is what a digest looks like; nothing else becomes a file's name.
var digestForm = regexp.MustCompile(`^(raw:)?[0-9a-f]{64}$`)

// fileForm is what the files of definitions are called; others are not ours.
var fileForm = regexp.MustCompile(`^(raw-)?[0-9a-f]{64}\.json$`)

// Definitions keeps definitions that someone has approved, so that what has
// changed in them can be shown. A definition that is not there costs a report its
// old values and nothing else.
type Definitions struct {
	// Dir is the folder, made (0700) where there is none.
	Dir string
}

// Put keeps a definition under its digest.
func (d Definitions) Put(t *catalog.Tool) error {
	path, ok := d.path(t.Digest)
	if !ok {
		return fmt.Errorf("definition of %s: %q is no digest", t.Name, t.Digest)
	}
	if d.Get(t.Digest) != nil {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // the oldest go first, and this one is in use
		return nil
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return fmt.Errorf("definition of %s: %w", t.Name, err)
	}
	if err := wholefile.Write(path, t.Raw, wholefile.Options{Prefix: partPrefix}); err != nil {
		return fmt.Errorf("definition of %s: %w", t.Name, err)
	}
	return nil
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

// Prune removes the definitions that were approved longest ago, over a number that
// leaves room for those of other configurations; what a lock file has stays. It does
// what it can: what stays too long costs room and nothing else.
func (d Definitions) Prune(in *lock.File) {
	keep := map[string]bool{}
	for _, tools := range in.Providers {
		for _, t := range tools {
			if path, ok := d.path(t.Digest); ok {
				keep[filepath.Base(path)] = true
			}
		}
	}
	entries, err := os.ReadDir(d.Dir)
	if err != nil {
		return
	}
	var old []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // another command has removed it
		}
		switch name := e.Name(); {
		case strings.HasPrefix(name, partPrefix) && time.Since(info.ModTime()) > stalePart:
			_ = os.Remove(filepath.Join(d.Dir, name))
		case fileForm.MatchString(name) && !keep[name]:
			old = append(old, info)
		}
	}
	slices.SortFunc(old, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for i := keptDefinitions; i < len(old); i++ {
		_ = os.Remove(filepath.Join(d.Dir, old[i].Name()))
	}
}

func (d Definitions) path(digest string) (string, bool) {
	return filepath.Join(d.Dir, strings.ReplaceAll(digest, ":", "-")+".json"), digestForm.MatchString(digest)
}
