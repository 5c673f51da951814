package broker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/shared/wholefile"
)

const (
	// shownMagic begins a file of what a client was shown; the checksum of the rest
	// of the file and a line end follow.
	shownMagic = "drawbridge shown 1 "
	// maxShownFile is more than a file that we wrote can have.
	maxShownFile = 64 << 20
	shownSuffix  = ".json"
	// maxOwners is how many owners without a grant are remembered, the last used ones:
	// one who gets it back is not new.
	maxOwners = 64
	// forgottenMark is a file that says that another was removed, in an owner's folder
	// one of its clients', above those an owner's. Who has no file there may be one of them.
	forgottenMark = "forgotten"
)

// ownerFolder is what an owner's folder is called.
var ownerFolder = regexp.MustCompile(`^[0-9a-f]{32}$`)

// errShownFile is for a file that is not what we wrote.
var errShownFile = errors.New("it is not whole, or not of this host's making")

// shownStore keeps what clients were shown, a file each: DIR/OWNER/CLIENT.json,
// both names digests, for clients choose their names themselves. A file is written
// whole and put in its place by rename; of several hosts on one state dir the last
// one to write counts.
//
// A file that is not whole, or not ours, is named in the log and replaced. What it
// held is unknown then, which is not the same as nothing: see remembered.lossy. So is
// what was forgotten because it was too much.
type shownStore struct {
	dir string // "" keeps nothing
	log *slog.Logger
	// declared are the owners that have grants; those are not forgotten. Nil: none has.
	declared func() []owner
	// failing says that the last write has failed, so that it is told once.
	failing atomic.Bool
}

// shownFile is the content of a file, after its first line.
type shownFile struct {
	// Key says whose it is, so that a file under another's name is found out.
	Principal string            `json:"principal"`
	Project   string            `json:"project"`
	Client    string            `json:"client"`
	Version   string            `json:"version"`
	Lossy     bool              `json:"lossy,omitempty"`
	Tools     map[string]*item  `json:"tools"`
	Instances map[string]string `json:"instances,omitempty"`
	// Sessions are the last instances that sessions of the client met.
	Sessions map[string]string `json:"session_instances,omitempty"`
}

func (s *shownStore) path(k clientKey) string {
	return filepath.Join(s.dir, shortDigest(k.Principal, k.Project), shortDigest(k.Name, k.Version)+shownSuffix)
}

func shortDigest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// read returns what a client was shown in earlier runs.
func (s *shownStore) read(k clientKey) *remembered {
	if s.dir == "" {
		return nothing
	}
	path := s.path(k)
	dir := filepath.Dir(path)
	f, err := readShown(path, k)
	switch {
	case errors.Is(err, fs.ErrNotExist) && (marked(dir) || marked(s.dir)):
		return unknown
	case errors.Is(err, fs.ErrNotExist):
		return nothing
	case err != nil:
		s.log.Warn("what a client was shown cannot be read; each of its tools is shown to it anew before it runs",
			"file", path, "error", err)
		return unknown
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // the oldest go first; that one is used says that it is not old
	_ = os.Chtimes(dir, now, now)
	r := &remembered{own: f.Tools, lossy: f.Lossy, instances: f.Instances, before: f.Sessions}
	r.bound()
	return r
}

func readShown(path string, k clientKey) (*shownFile, error) {
	if info, err := os.Lstat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() || info.Size() > maxShownFile {
		return nil, errShownFile
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	head, body, ok := bytes.Cut(text, []byte("\n"))
	if !ok || string(head) != shownMagic+checksum(body) {
		return nil, errShownFile
	}
	var f shownFile
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", errShownFile, err)
	}
	if (clientKey{owner{f.Principal, f.Project}, Client{f.Client, f.Version}}) != k {
		return nil, fmt.Errorf("%w: it is another client's", errShownFile)
	}
	for _, i := range f.Tools {
		if i == nil {
			return nil, errShownFile
		}
	}
	return &f, nil
}

func checksum(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// write keeps a state, and says whether it could. That it cannot is told once, until
// it can again: the host goes on with what it has in memory.
func (s *shownStore) write(k clientKey, r *remembered) (kept bool) {
	if s.dir == "" {
		return false
	}
	err := s.replace(s.path(k), k, r)
	switch failed := err != nil; {
	case failed && !s.failing.Swap(true):
		s.log.Warn("what clients are shown cannot be kept for the host's next run", "error", err)
	case !failed && s.failing.Swap(false):
		s.log.Info("what clients are shown is kept again")
	}
	return err == nil
}

func (s *shownStore) replace(path string, k clientKey, r *remembered) error {
	f := shownFile{Principal: k.Principal, Project: k.Project, Client: k.Name, Version: k.Version,
		Lossy: r.lossy, Tools: make(map[string]*item), Instances: r.instances, Sessions: r.lastMet()}
	if r.list != nil {
		for exposed, i := range r.list.items {
			f.Tools[exposed] = i
		}
	}
	for exposed, i := range r.own {
		f.Tools[exposed] = i
	}
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	_, newOwner := os.Lstat(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if newOwner != nil {
		s.pruneOwners(dir)
	}
	_, statErr := os.Lstat(path)
	text := append([]byte(shownMagic+checksum(body)+"\n"), body...)
	if err := wholefile.Write(path, text, wholefile.Options{Prefix: "tmp."}); err != nil {
		return err
	}
	if statErr != nil {
		s.prune(dir)
	}
	return nil
}
