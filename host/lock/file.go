package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	extension = ".lock.hcl"
	// folderFile is the lock file of a configuration that is a folder.
	folderFile = "providers" + extension
	// formatVersion is the one version of the format there is.
	formatVersion = 1
	// maxSize bounds what is read: 10,000 tools take some 8 MiB.
	maxSize = 64 << 20
)

// What is wrong with a lock file.
var (
	// ErrMissing: there is none where one is needed.
	ErrMissing = errors.New("there is no lock file")
	// ErrInvalid: it is there and cannot be relied on.
	ErrInvalid = errors.New("lock file is not valid")
)

// File is what a lock file holds. It must not be changed once it is in use.
type File struct {
	// Plugins are the checksums of third-party plugins (SHA-256 in hexadecimal), by
	// plugin name and by platform, like "linux_amd64".
	Plugins map[string]map[string]string
	// Providers are the approved tools of each provider: by slug, and by the name
	// that the server calls the tool.
	Providers map[string]map[string]Tool
}

// Tool is one approved definition.
type Tool struct {
	// Digest is catalog.DigestTool of the definition.
	Digest string
	// Fields are short digests of the definition's members by name. They decide
	// nothing: they say which members of a changed definition differ.
	Fields map[string]string
}

// New makes a file that approves nothing.
func New() *File {
	return &File{Plugins: map[string]map[string]string{}, Providers: map[string]map[string]Tool{}}
}

// PathFor is where the lock file of a configuration stands: beside a file, under
// its name; in a folder, as providers.lock.hcl.
func PathFor(config string) string {
	if info, err := os.Stat(config); err == nil && info.IsDir() {
		return filepath.Join(config, folderFile)
	}
	return strings.TrimSuffix(config, filepath.Ext(config)) + extension
}

// Load reads the lock file at path. Where there is none the error is ErrMissing,
// and any other is ErrInvalid: a file that cannot be read whole approves nothing. Nor
// is a link to nowhere no file: whoever put it there relies on what it leads to.
func Load(path string) (*File, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("%w: %s is a link to a file that is not there", ErrInvalid, path)
		}
		return nil, fmt.Errorf("%w at %s; make one with drawbridge lock, and review it", ErrMissing, path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if !info.Mode().IsRegular() { // to open a pipe might never return
		return nil, fmt.Errorf("%w: %s is no regular file", ErrInvalid, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer func() { _ = f.Close() }()
	text, err := readBounded(f)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, path, err)
	}
	return Parse(path, text)
}

// Approves says whether the definition of a provider's tool with this digest is
// in the file.
func (f *File) Approves(slug, tool, digest string) bool {
	t, ok := f.Providers[slug][tool]
	return ok && t.Digest == digest
}

// ApprovesPlugin says whether an executable of this checksum is approved under
// the plugin's name, on whatever platform.
func (f *File) ApprovesPlugin(name, sha256 string) bool {
	for _, sum := range f.Plugins[name] {
		if strings.EqualFold(sum, sha256) {
			return true
		}
	}
	return false
}

// Approve records a definition.
func (f *File) Approve(slug, tool string, t Tool) {
	if f.Providers[slug] == nil {
		f.Providers[slug] = map[string]Tool{}
	}
	f.Providers[slug][tool] = t
}

// ApprovePlugin records a plugin's checksum on a platform. Those of other
// platforms stay, for who makes a lock file cannot run them.
func (f *File) ApprovePlugin(name, platform, sha256 string) {
	if f.Plugins[name] == nil {
		f.Plugins[name] = map[string]string{}
	}
	f.Plugins[name][platform] = sha256
}
