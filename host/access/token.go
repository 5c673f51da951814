package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/internal/identity"
	"github.com/drawbridge-mcp/drawbridge/shared/wholefile"
)

// Local is the reserved principal: whoever speaks over stdio, and while no principal
// is declared whoever has the token of the first start.
const Local = config.Local

// What is wrong with a token file that is there already.
var (
	// ErrTokenReadable: someone other than this user may read or write it.
	ErrTokenReadable = errors.New("token file is open to others")
	// ErrTokenMalformed: it holds no token of this host's making.
	ErrTokenMalformed = errors.New("token file holds no token")
)

const (
	tokenFile = "token"
	// tokenBytes is 256 bit: beyond guessing, and one line on screen.
	tokenBytes = 32
)

// Token is the bearer token of the first start. Only its hash stays in memory.
type Token struct {
	path string
	hash [sha256.Size]byte
}

// LoadOrCreateToken reads the token in dir, or makes one (0600) if there is none.
// Hosts that share a state directory and start at once end up with one token.
func LoadOrCreateToken(dir string) (*Token, error) {
	path := filepath.Join(dir, tokenFile)
	t, err := loadToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if err := createToken(path); err != nil {
		return nil, err
	}
	return loadToken(path)
}

// NewSecret makes a bearer token, which nobody but who gets it will know.
func NewSecret() string {
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // never fails: the process would end instead
	return base64.RawURLEncoding.EncodeToString(secret)
}

// HashOf is the SHA-256 of a token in hexadecimal, as token_sha256 has it.
func HashOf(secret string) string {
	hash := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(hash[:])
}

func loadToken(path string) (*Token, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	// Windows has no such bits; there the folder's rights protect what is in it.
	if mode := info.Mode(); !mode.IsRegular() || runtime.GOOS != "windows" && mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s has mode %v; run chmod 600 on it, or delete it to get a new token", ErrTokenReadable, path, mode)
	}
	if !identity.Own(info) {
		return nil, fmt.Errorf("%w: %s belongs to another user, who knows the token; delete it to get a new one", ErrTokenReadable, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if raw, err := base64.RawURLEncoding.DecodeString(secret); err != nil || len(raw) != tokenBytes {
		return nil, fmt.Errorf("%w: %s; delete it to get a new one", ErrTokenMalformed, path)
	}
	return &Token{path: path, hash: sha256.Sum256([]byte(secret))}, nil
}

// createToken writes a new token beside path and links it there, so that nobody
// sees half of it and the first of several hosts wins.
func createToken(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	err := wholefile.Create(path, []byte(NewSecret()+"\n"), wholefile.Options{Synced: true})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("token: %w", err)
	}
	return nil
}

// Path is the file that the token stands in.
func (t *Token) Path() string { return t.path }

// Check says whose token this is. How long it takes tells nothing about how much
// of it was right.
func (t *Token) Check(presented string) (principal string, ok bool) {
	hash := sha256.Sum256([]byte(presented))
	if subtle.ConstantTimeCompare(hash[:], t.hash[:]) != 1 {
		return "", false
	}
	return Local, true
}
