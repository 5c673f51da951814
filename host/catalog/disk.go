package catalog

import (
	"bytes"
	"cmp"
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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/drawbridge-mcp/drawbridge/shared/wholefile"
)

// Why a file holds no catalog that can be used.
var (
	errForeign   = errors.New("it is no catalog of this identity and format")
	errChecksum  = errors.New("its checksum does not fit what it holds")
	errNoRegular = errors.New("it is no regular file")
	errFileSize  = fmt.Errorf("it has more than %d MiB", maxFile>>20)
)

const (
	// maxFile bounds a file, far above what a list may have by default.
	maxFile = 256 << 20
	// keptFiles are how many catalogs are kept of identities that nobody uses now,
	// such as those of providers whose config was changed and may be changed back.
	keptFiles = 64
	// newPrefix begins the name of a file that is being written, and staleNew is how
	// old it may be until it counts as left by a host that died.
	newPrefix = ".new-"
	staleNew  = time.Hour
)

// fileName is what a catalog's file is called.
var fileName = regexp.MustCompile(`^[0-9a-f]{64}\.json$`)

// Server is what is remembered of a server together with its list.
type Server struct {
	// Era is how it says which revision it speaks, "legacy" or "modern", and Version
	// the revision that was spoken last.
	Era     string `json:"era,omitempty"`
	Version string `json:"version,omitempty"`
	// Capabilities are as the server sent them, nil where it sent none.
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
}

// disk keeps the last complete catalog of each identity in a folder, a file each:
//
//	{"drawbridge_catalog":1,"identity":"…","sha256":"…","server":{…},"tools":[…]}
//
// with the definitions in the bytes that the server sent. The checksum is of all
// that follows it, and of the identity. A file is replaced as a whole, and what
// holds anything else is as good as none: the list is made anew.
type disk struct {
	dir string // "" keeps nothing
	log *slog.Logger

	mu sync.Mutex // held while files are written, which is seldom
	// saved are the checksums of what is known to be on disk, and latest the order of
	// the last list that came, by identity.
	saved  map[string]string
	latest map[string]uint64
}

// kept is what a file holds.
type kept struct {
	server Server
	defs   []json.RawMessage
	// order is the list's place among all that came to this host, 0 for one that was
	// read from the disk; it is not in the file.
	order uint64
}

// load reads the catalog of an identity; false where there is none to be used.
func (d *disk) load(slug, identity string) (kept, bool) {
	if d.dir == "" || identity == "" {
		return kept{}, false
	}
	path := d.path(identity)
	d.mu.Lock() // what is known to be there and what is there must be one
	defer d.mu.Unlock()
	k, sum, err := readFile(path, identity)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return kept{}, false
	case err != nil:
		d.log.Warn("catalog file is of no use: it is left out, and written anew when the server has listed its tools",
			"provider", slug, "file", path, "why", err)
		return kept{}, false
	}
	d.saved[identity] = sum
	now := time.Now()
	_ = os.Chtimes(path, now, now) // it is in use; at worst it is pruned and made anew
	return k, true
}

func (d *disk) path(identity string) string { return filepath.Join(d.dir, identity+".json") }

// save writes a catalog, if the file does not hold it already and no later list has
// come: of two that are saved at once, either may be the first here. used are the
// identities whose files must stay.
func (d *disk) save(slug, identity string, k kept, used map[string]bool) {
	if d.dir == "" || identity == "" {
		return
	}
	text, sum := encodeFile(identity, k)
	d.mu.Lock()
	defer d.mu.Unlock()
	if k.order < d.latest[identity] {
		return
	}
	d.latest[identity] = k.order
	if d.saved[identity] == sum {
		return
	}
	err := errFileSize
	if len(text) <= maxFile {
		err = writeFile(d.dir, d.path(identity), text)
	}
	if err != nil {
		d.log.Warn("catalog could not be kept: after a restart the server has to list its tools anew",
			"provider", slug, "file", d.path(identity), "why", err)
		return
	}
	d.saved[identity] = sum
	d.prune(used)
}

// writeFile replaces a file as a whole. It is not synced: what a machine that
// loses power leaves of it does not fit its checksum.
func writeFile(dir, path string, text []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return wholefile.Write(path, text, wholefile.Options{Prefix: newPrefix})
}

// prune removes the files of identities that have not been used for longest, and
// what dead hosts left half written. Files of other names are not ours.
func (d *disk) prune(used map[string]bool) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return
	}
	type file struct {
		name string
		time time.Time
	}
	var old []file
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // another host has removed it
		}
		switch name := e.Name(); {
		case strings.HasPrefix(name, newPrefix) && time.Since(info.ModTime()) > staleNew:
			_ = os.Remove(filepath.Join(d.dir, name))
		case fileName.MatchString(name) && !used[strings.TrimSuffix(name, ".json")]:
			old = append(old, file{name, info.ModTime()})
		}
	}
	slices.SortFunc(old, func(a, b file) int { return cmp.Or(a.time.Compare(b.time), strings.Compare(a.name, b.name)) })
	for len(old) > keptFiles {
		_ = os.Remove(filepath.Join(d.dir, old[0].name))
		identity := strings.TrimSuffix(old[0].name, ".json")
		delete(d.saved, identity)
		delete(d.latest, identity)
		old = old[1:]
	}
}

// encodeFile makes the text of a catalog's file, and its checksum.
func encodeFile(identity string, k kept) (text []byte, sum string) {
	size := 1024
	for _, d := range k.defs {
		size += len(d) + 2
	}
	server, err := json.Marshal(k.server)
	if err != nil { // capabilities that are no JSON are none
		server = []byte("{}")
	}
	body := append(make([]byte, 0, size), `"server":`...)
	body = append(append(body, server...), `,"tools":[`...)
	for i, d := range k.defs {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(body, '\n'), d...)
	}
	body = append(body, "\n]}\n"...)
	sum = checksum(identity, body)
	return append([]byte(head(identity)+sum+`",`), body...), sum
}

func head(identity string) string {
	return `{"drawbridge_catalog":1,"identity":"` + identity + `","sha256":"`
}

func checksum(identity string, body []byte) string {
	h := sha256.New()
	_, _ = h.Write([]byte(identity + "\n")) // a hash takes everything
	_, _ = h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// readFile reads a catalog's file.
func readFile(path, identity string) (kept, string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return kept{}, "", err
	case !info.Mode().IsRegular():
		return kept{}, "", errNoRegular
	case info.Size() > maxFile:
		return kept{}, "", errFileSize
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return kept{}, "", err
	}
	return decodeFile(text, identity)
}

// decodeFile reads the text of a catalog's file.
func decodeFile(text []byte, identity string) (kept, string, error) {
	const sumLen = 2 * sha256.Size
	rest, ok := bytes.CutPrefix(text, []byte(head(identity)))
	if !ok || len(rest) < sumLen+2 || string(rest[sumLen:sumLen+2]) != `",` {
		return kept{}, "", errForeign
	}
	sum, body := string(rest[:sumLen]), rest[sumLen+2:]
	if checksum(identity, body) != sum {
		return kept{}, "", errChecksum
	}
	// What follows was written by a host, if perhaps of another version.
	var k kept
	there := 0
	err := eachMember(append([]byte{'{'}, body...), func(name string, value jsontext.Value, _ int64) error {
		switch name {
		case "server":
			there++
			return json.Unmarshal(value, &k.server)
		case "tools":
			there++
			var err error
			k.defs, err = listed(value)
			return err
		}
		return nil
	})
	if err != nil || there != 2 {
		return kept{}, "", errForeign
	}
	return k, sum, nil
}

// listed are the values of an array, as they stand there.
func listed(array jsontext.Value) ([]json.RawMessage, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(array), lenient...)
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != jsontext.KindBeginArray {
		return nil, errForeign
	}
	out := []json.RawMessage{}
	for dec.PeekKind() != jsontext.KindEndArray {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, errForeign
		}
		out = append(out, json.RawMessage(bytes.Clone(value)))
	}
	return out, nil
}
