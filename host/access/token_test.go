package access

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func TestTokenIsMadeOnceAndKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := LoadOrCreateToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(first.Path())
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("mode of the token file = %v, want 0600", mode)
	}
	secret := read(t, first.Path())
	if len(secret) != 43 { // 32 bytes in unpadded base64
		t.Errorf("token has %d characters, want 43", len(secret))
	}
	second, err := LoadOrCreateToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, second.Path()); got != secret {
		t.Errorf("the second start made a new token")
	}
	for _, tok := range []*Token{first, second} {
		if p, ok := tok.Check(secret); !ok || p != Local {
			t.Errorf("Check(the token) = %q, %v; want %q, true", p, ok, Local)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("state directory holds %v, want only the token", entries)
	}
}

func TestTokenRefusesWhatIsNotIt(t *testing.T) {
	tok, err := LoadOrCreateToken(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	secret := read(t, tok.Path())
	for _, wrong := range []string{"", secret[:len(secret)-1], secret + "x", strings.ToUpper(secret), " " + secret} {
		if p, ok := tok.Check(wrong); ok {
			t.Errorf("Check(%q) = %q, true", wrong, p)
		}
	}
}

func TestTokenFileThatIsNotFitIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want error
	}{
		"readable by others": {strings.Repeat("A", 43) + "\n", 0o644, ErrTokenReadable},
		"empty":              {"", 0o600, ErrTokenMalformed},
		"too short":          {"c2hvcnQ\n", 0o600, ErrTokenMalformed},
		"no base64":          {strings.Repeat("!", 43), 0o600, ErrTokenMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, tokenFile)
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := LoadOrCreateToken(dir)
			if !errors.Is(err, c.want) {
				t.Fatalf("error = %v, want %v", err, c.want)
			}
			if !strings.Contains(err.Error(), path) {
				t.Errorf("error %q does not name the file", err)
			}
			if got, _ := os.ReadFile(path); string(got) != c.text {
				t.Errorf("the file was changed to %q", got)
			}
		})
	}
}

// TestATokenThatAnotherPutThere: through a link, or as a file of its own.
func TestATokenThatAnotherPutThere(t *testing.T) {
	known := strings.Repeat("A", 43) + "\n"
	dir := t.TempDir()
	path := filepath.Join(dir, tokenFile)
	if err := os.WriteFile(filepath.Join(dir, "other"), []byte(known), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func() error{
		"a link":            func() error { return os.Symlink("other", path) },
		"a link to nowhere": func() error { return os.Symlink("nowhere", path) },
		"a folder":          func() error { return os.Mkdir(path, 0o700) },
		"another's file": func() error {
			if os.Geteuid() != 0 {
				t.Log("only root can give files away")
				return os.WriteFile(path, []byte(known), 0o644)
			}
			return errors.Join(os.WriteFile(path, []byte(known), 0o600), os.Chown(path, 65534, 65534))
		},
	} {
		if err := put(); err != nil {
			t.Fatal(name, err)
		}
		if _, err := LoadOrCreateToken(dir); !errors.Is(err, ErrTokenReadable) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error = %v, want %v with the file", name, err, ErrTokenReadable)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTokenOfHostsThatStartAtOnce(t *testing.T) {
	dir := t.TempDir()
	tokens := make([]*Token, 16)
	var all sync.WaitGroup
	for i := range tokens {
		all.Go(func() {
			tok, err := LoadOrCreateToken(dir)
			if err != nil {
				t.Error(err)
			}
			tokens[i] = tok
		})
	}
	all.Wait()
	secret := read(t, filepath.Join(dir, tokenFile))
	for i, tok := range tokens {
		if _, ok := tok.Check(secret); !ok {
			t.Errorf("host %d has another token than the file", i)
		}
	}
}
