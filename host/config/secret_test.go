package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// noSecrets is a store that has none.
func noSecrets(string) (string, bool, error) { return "", false, nil }

// stored is a store that has these.
func stored(values map[string]string) Lookup {
	return func(name string) (string, bool, error) {
		v, ok := values[name]
		return v, ok, nil
	}
}

// everywhere puts env() and secret() wherever a config can hold them.
const everywhere = `
    command = "x"
    args    = ["--token", "Bearer ${secret("A")}", secret("B"), "${env("DRAWBRIDGE_TEST_LONG")}/sub", "plain-value"]
    env     = { KEY = secret("C"), URL = "https://u:${secret("A")}@host/" }
    size    = secret("N")
    any     = [{ deep = ["<${secret("D")}>"] }, secret("A") == "" ? "" : env("DRAWBRIDGE_TEST_LONG")]
    rule {
      path = "${path.config}:${secret("B")}"
    }`

// TestDecodeBody_KeepsTrackOfSecrets through templates, lists, maps, conditions and
// conversions: the parts are known, and so is what was made of them.
func TestDecodeBody_KeepsTrackOfSecrets(t *testing.T) {
	t.Setenv("DRAWBRIDGE_TEST_LONG", "from-environment")
	secrets := map[string]string{"A": "a-token", "B": "line one\nline two\n", "C": `q"uote\`, "D": "ünïcødé \u0065\u0301", "N": "0123456789"}
	d, diags, missing := DecodeBody(bodyOf(t, everywhere), testSchema, stored(secrets))
	if len(diags)+len(missing) > 0 {
		t.Fatal(diags, missing)
	}
	want := []string{"a-token", "line one\nline two\n", `q"uote\`, "ünïcødé \u0065\u0301", "0123456789"}
	slices.Sort(want)
	if diff := cmp.Diff(want, d.FromSecret); diff != "" {
		t.Errorf("values of secret() (-want +got):\n%s", diff)
	}
	for _, v := range append(want, "from-environment", "Bearer a-token", "from-environment/sub", "123456789", "https://u:a-token@host/") {
		if !slices.Contains(d.Secrets, v) {
			t.Errorf("%q is not among the secrets", v)
		}
	}
	if slices.Contains(d.Secrets, "plain-value") {
		t.Error("a plain value is taken for a secret")
	}
	if !strings.Contains(string(d.Config.JSON), `"line one\nline two\n"`) || !strings.Contains(string(d.Config.JSON), "ünïcødé \u0065\u0301") {
		t.Errorf("the plugin does not get the values as they are kept: %s", d.Config.JSON)
	}
}

// TestDecodeBody_MaskedOutlivesARotation: it says what the provider is, and nothing
// that a new secret or variable changes.
func TestDecodeBody_MaskedOutlivesARotation(t *testing.T) {
	t.Setenv("DRAWBRIDGE_TEST_LONG", "from-environment")
	decode := func(lines string, secrets map[string]string) string {
		d, diags, missing := DecodeBody(bodyOf(t, lines), testSchema, stored(secrets))
		if len(diags)+len(missing) > 0 {
			t.Fatal(diags, missing)
		}
		return string(d.Masked)
	}
	before := decode(everywhere, map[string]string{"A": "a1", "B": "b1", "C": "c1", "D": "d1", "N": "1"})
	t.Setenv("DRAWBRIDGE_TEST_LONG", "another-environment")
	if after := decode(everywhere, map[string]string{"A": "a2", "B": "b2", "C": "c2", "D": "d2", "N": "2"}); after != before {
		t.Errorf("a rotation changed it:\n%s\n%s", before, after)
	}
	for _, other := range []string{
		strings.Replace(everywhere, "plain-value", "other-value", 1),
		strings.Replace(everywhere, "Bearer", "Basic", 1),
		strings.Replace(everywhere, "/sub", "/other", 1),
	} {
		if changed := decode(other, map[string]string{"A": "a1", "B": "b1", "C": "c1", "D": "d1", "N": "1"}); changed == before {
			t.Errorf("it does not tell another config from the first:\n%s", changed)
		}
	}
	literal := decode("command = \"x\"\ntoken = \"hunter2\"", nil)
	if other := decode("command = \"x\"\ntoken = \"hunter3\"", nil); other != literal || strings.Contains(literal, "hunter") {
		t.Errorf("a sensitive value is in it:\n%s\n%s", literal, other)
	}
}

func TestDecodeBody_SecretsThatCannotBeHad(t *testing.T) {
	for name, c := range map[string]struct {
		lookup Lookup
		says   []string
	}{
		"not set": {noSecrets, []string{`"API"`, "drawbridge secret set API"}},
		"unreadable": {func(string) (string, bool, error) {
			return "", false, errors.New("/state/secrets/API.secret is open to others")
		}, []string{"/state/secrets/API.secret is open to others"}},
		"no text": {stored(map[string]string{"API": "\xff\xfe-binary"}), []string{"not valid UTF-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, diags, missing := DecodeBody(bodyOf(t, `command = secret("API")`), testSchema, c.lookup)
			if diags.HasErrors() || len(missing) != 1 || d.Config.JSON != nil {
				t.Fatalf("want one fault of this provider and no config: %v, %v, %s", diags, missing, d.Config.JSON)
			}
			for _, part := range c.says {
				if !strings.Contains(missing[0].Detail, part) {
					t.Errorf("%q does not say %q", missing[0].Detail, part)
				}
			}
		})
	}
	// The name of a secret may be one itself.
	_, _, missing := DecodeBody(bodyOf(t, `command = secret(secret("API"))`), testSchema, stored(map[string]string{"API": "hidden-name"}))
	if len(missing) != 1 || strings.Contains(missing[0].Detail, "hidden-name") {
		t.Errorf("%v", missing)
	}
}

func TestLoad_SecretOutsideOfAConfig(t *testing.T) {
	for text, says := range map[string]string{
		"host {\n  state_dir = secret(\"DIR\")\n}\n":                                                  "state_dir",
		"host {\n  http {\n    listen = secret(\"L\")\n  }\n}\n":                                      "state_dir",
		"provider \"p\" {\n  plugin = \"stdio\"\n  description = secret(\"D\")\n  config {\n  }\n}\n": "config block of a provider",
	} {
		_, diags := loadText(text)
		if len(diags) != 1 || diags[0].Summary != "No secret() here" || !strings.Contains(diags[0].Detail, says) {
			t.Errorf("%s: %v", text, diags)
		}
	}
}

// TestLoad_SecretsOfTheEnvironment outside of config blocks are known; what the
// host block has from there is what the host says of itself.
func TestLoad_SecretsOfTheEnvironment(t *testing.T) {
	t.Setenv("DRAWBRIDGE_TEST_DIR", "/tmp/state-folder")
	t.Setenv("DRAWBRIDGE_TEST_LONG", "long-enough")
	c, diags := loadText("host {\n  state_dir = env(\"DRAWBRIDGE_TEST_DIR\")\n}\n" +
		"provider \"p\" {\n  plugin = \"stdio\"\n  description = \"${env(\"DRAWBRIDGE_TEST_LONG\")} ${env(\"DRAWBRIDGE_TEST_DIR\")}\"\n  config {\n  }\n}\n")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if diff := cmp.Diff([]string{"long-enough"}, c.Secrets); diff != "" {
		t.Error(diff)
	}
}
