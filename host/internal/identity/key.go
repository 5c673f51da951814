package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/shared/wholefile"
)

// What is wrong with a key file that is there already.
var (
	// ErrKeyReadable: someone other than this user may read or write it.
	ErrKeyReadable = errors.New("key file is open to others")
	// ErrKeyMalformed: it holds no key of a host's making.
	ErrKeyMalformed = errors.New("key file holds no key")
)

const (
	keyFile = "key"
	keySize = 32 // bytes, as many as the hash has
)

// Key is the secret of a state dir, under which hosts that share it agree on names
// for what they must not name. Its zero value is no key.
type Key struct{ secret []byte }

// LoadOrCreateKey reads the key in dir, or makes one (0600) if there is none. Hosts
// that share a state dir and start at once end up with one key. The error names the
// file.
func LoadOrCreateKey(dir string) (Key, error) {
	path := filepath.Join(dir, keyFile)
	k, err := loadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := createKey(path); err != nil {
		return Key{}, fmt.Errorf("key of the state dir: %w", err)
	}
	return loadKey(path)
}

func loadKey(path string) (Key, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return Key{}, fmt.Errorf("key of the state dir: %w", err)
	}
	// Windows has no such bits; there the folder's rights protect what is in it.
	if mode := info.Mode(); !mode.IsRegular() || runtime.GOOS != "windows" && mode.Perm()&0o077 != 0 {
		return Key{}, fmt.Errorf("%w: %s has mode %v; run chmod 600 on it, or delete it: then every provider counts as a new one", ErrKeyReadable, path, mode)
	}
	if !Own(info) {
		return Key{}, fmt.Errorf("%w: %s belongs to another user; delete it: then every provider counts as a new one", ErrKeyReadable, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Key{}, fmt.Errorf("key of the state dir: %w", err)
	}
	secret, err := base64.RawURLEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != keySize {
		return Key{}, fmt.Errorf("%w: %s; delete it to get a new one: then every provider counts as a new one", ErrKeyMalformed, path)
	}
	return Key{secret}, nil
}

// createKey writes a new key beside path and links it there, so that nobody sees
// half of it and the first of several hosts wins.
func createKey(path string) error {
	secret := make([]byte, keySize)
	_, _ = rand.Read(secret) // never fails
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return publish(path, base64.RawURLEncoding.EncodeToString(secret)+"\n")
}

// publish makes a file of its user's alone, and leaves one alone that is there already.
func publish(path, text string) error {
	err := wholefile.Create(path, []byte(text), wholefile.Options{Prefix: ".new-", Synced: true})
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Sum is the HMAC-SHA-256, in hex, of parts for a purpose. Sums of two purposes
// have nothing to do with each other, and no part runs into the next.
func (k Key) Sum(purpose string, parts ...string) string {
	h := hmac.New(sha256.New, k.secret)
	for _, part := range append([]string{purpose}, parts...) {
		_, _ = h.Write([]byte(strconv.Itoa(len(part)) + ":" + part)) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}
