package crossing

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// A test's secrets, by where they come from. Those of secret() may not be in
// results either.
const (
	keptPlain = "kept-plain-0123456789"
	keptOdd   = "kept \"odd\"\\ <v\u00e4lue>/+\U0001F511&x=1"
	fromEnv   = "from \"env\"/v\u00e4lue+1"
	literal   = "literal-s3cret/+value"
	fromFile  = "from-file-s3cret+/9"
)

// secretForms are the forms in which a secret may not be in a sink.
func secretForms(v string) []string {
	forms := plainForms(v)
	forms = append(forms, url.QueryEscape(v), url.PathEscape(v))
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		forms = append(forms, enc.EncodeToString([]byte(v)))
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// plainForms are those in which one of secret() may not be in a result.
func plainForms(v string) []string {
	var bare bytes.Buffer
	enc := json.NewEncoder(&bare)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a string always encodes
	text := strings.TrimSpace(bare.String())
	forms := []string{v, text[1 : len(text)-1], encoded(v)[1 : len(encoded(v))-1]}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// clean fails the test for each of these forms that a text holds.
func clean(t *testing.T, where, text string, secrets []string, forms func(string) []string) {
	t.Helper()
	for _, v := range secrets {
		for _, form := range forms(v) {
			if i := strings.Index(text, form); i >= 0 {
				t.Errorf("%s holds %q: …%.200s…", where, form, text[max(0, i-80):])
				return
			}
		}
	}
}

// keep sets a secret with the command.
func keep(t *testing.T, p hosttest.Place, config, name, value string) {
	t.Helper()
	cmd := p.Command(t, "secret", "set", name, "--config", config)
	cmd.Stdin = strings.NewReader(value)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), value) {
		t.Fatalf("secret set: %v: %s", err, out)
	}
}

// skipped is for a folder that is not to be looked into.
func skipped(err error, entry fs.DirEntry) error {
	if err == nil && entry.IsDir() {
		return filepath.SkipDir
	}
	return err
}
