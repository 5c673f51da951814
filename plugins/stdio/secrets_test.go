package stdio

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStderrWithoutSecrets(t *testing.T) {
	const secret = "s3cr3t-of-the-file"
	for name, line := range map[string]string{
		"in a line":              "token=" + secret + ".",
		"across a cut":           strings.Repeat("x", headKept-5) + secret + strings.Repeat("y", 8<<10) + secret + "THE END",
		"at the end's beginning": strings.Repeat("x", 8<<10) + secret + strings.Repeat("y", endKept-9),
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			l := newStderrLog(&out)
			l.hide = newSecrets([]string{secret, "short"})
			for _, piece := range []string{line[:len(line)/2], line[len(line)/2:] + "\n"} {
				_, _ = l.Write([]byte(piece))
			}
			l.close(soonEnough)
			for where, text := range map[string]string{"the tail": l.tail(), "the log": out.String()} {
				for n := leastSecret; n <= len(secret); n++ {
					if strings.Contains(text, secret[:n]) || strings.Contains(text, secret[len(secret)-n:]) {
						t.Fatalf("%s has %d characters of the secret: %.60q…%q", where, n, text, text[max(0, len(text)-60):])
					}
				}
				if text == "" {
					t.Errorf("%s is empty", where)
				}
			}
		})
	}
}

func TestSecretsAreThoseOfEnvAndItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("FROM_FILE=file-value-1\nSHORT=on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	declared := "declared-value"
	_, hidden, diags := environment(config{EnvFile: &file, Env: map[string]*string{"A": &declared}}, "", "", []string{"PATH=/a/long/enough/path"})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	s := newSecrets(hidden)
	got := s.from("file-value-1 declared-value on /a/long/enough/path")
	if want := fmt.Sprintf("%s %s on /a/long/enough/path", redacted, redacted); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
