//go:build unix

package config

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"
)

// TestLanguageBounds gives the parser what makes it recurse or work without
// bound, on a stack made small so that the files can be. Without tooComplex the
// first of these ends the process, not the test.
func TestLanguageBounds(t *testing.T) {
	const n = 8_000
	defer debug.SetMaxStack(debug.SetMaxStack(16 << 20))
	repeat := func(s string) string { return strings.Repeat(s, n) }
	for name, text := range map[string]string{
		"parentheses":  "a = " + repeat("(") + "1" + repeat(")"),
		"lists":        "a = " + repeat("[") + "1" + repeat("]"),
		"maps":         "a = " + repeat("{a=") + "1" + repeat("}"),
		"calls":        "a = " + repeat("f(") + "1" + repeat(")"),
		"templates":    "a = " + repeat(`"${`) + "1" + repeat(`}"`),
		"heredocs":     "a = " + repeat("<<E\n${") + "1" + repeat("}\nE\n"),
		"blocks":       repeat("b {\n") + repeat("}\n"),
		"not":          "a = " + repeat("!") + "true",
		"minus":        "a = " + repeat("-") + "1",
		"sums":         "a = 1" + repeat("+1"),
		"conditions":   "a = " + repeat("true ? 1 : ") + "1",
		"over lines":   "a = (" + repeat("true ?\n 1 :\n ") + "1)",
		"indexes":      "a = b" + repeat("[0]"),
		"attributes":   "a = b" + repeat(".c"),
		"splats":       "a = b" + repeat("[*]"),
		"loops":        "a = " + strings.Repeat("[for x in [1,2,3,4,5,6,7,8,9] : ", 30) + "x" + strings.Repeat("]", 30),
		"no number":    `a = 1e31e3p0`,
		"big number":   `a = "${1e999999999}"`,
		"small number": `a = "${1e-999999999}"`,
	} {
		t.Run(name, func(t *testing.T) {
			start := cpuTime(t)
			c, diags := loadText("host {\n" + text + "\n}\nprovider \"p\" {\nplugin = \"stdio\"\nconfig {\n" + text + "\n}\n}\n")
			for _, p := range c.Providers {
				DecodeBody(p, testSchema, nil)
			}
			if !diags.HasErrors() {
				t.Error("it is taken")
			}
			if err := WriteDiagnostics(new(bytes.Buffer), c, diags, false); err != nil {
				t.Error(err)
			}
			if _, diags := Format("a.hcl", []byte(text)); name != "loops" && !strings.HasSuffix(name, "number") && !diags.HasErrors() {
				t.Error("it is formatted")
			}
			if d := cpuTime(t) - start; d > 10*time.Second {
				t.Errorf("it takes %v", d)
			}
		})
	}
}

// TestLanguageRoom: the bounds are far from what a person writes.
func TestLanguageRoom(t *testing.T) {
	long := strings.Repeat("    \"an argument ${1}\", # with a comment\n", 5000)
	lines := strings.Repeat("one more line of text\n", 5000)
	text := "provider \"p\" {\n  plugin = \"stdio\"\n  config {\n    command = <<EOT\n" + lines + "EOT\n    args = [\n" + long + "    ]\n  }\n}\n"
	c, diags := loadText(text)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if _, diags, _ := DecodeBody(c.Providers[0], testSchema, nil); diags.HasErrors() {
		t.Error(diags)
	}
}

// TestSpelling: a disguise survives cty alone and joined, and comes off whole.
func TestSpelling(t *testing.T) {
	odd := rapid.SampledFrom([]rune{'a', 'e', '\u0301', '\u0327', '\u00e9', '\u212b', '\u1100', '\u1161', '\u11a8', '\uac00', '\uf900', escape, '0', 'f', '\U0001d15e', '\u0344', '\u093c', '\u0915'})
	text := rapid.OneOf(rapid.StringOf(odd), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		joined := disguise(a) + disguise(b)
		if got := cty.StringVal(joined).AsString(); got != joined {
			t.Fatalf("cty changes %+q to %+q", joined, got)
		}
		if got := restore(joined); got != a+b {
			t.Fatalf("%+q becomes %+q", a+b, got)
		}
		if strings.Count(restore(a), string(escape)) > strings.Count(a, string(escape)) {
			t.Fatalf("restore adds to %+q", a)
		}
	})
}

func TestFormatMeasures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(maxDays*day/time.Millisecond)).Draw(t, "ms")) * time.Millisecond
		if got, err := parseDuration(formatDuration(d)); err != nil || got != d {
			t.Fatalf("%v is written %s and read %v, %v", d, formatDuration(d), got, err)
		}
		n := rapid.Int64Range(0, maxSize).Draw(t, "bytes")
		if got, err := parseSize(formatSize(n)); err != nil || got != n {
			t.Fatalf("%d is written %s and read %d, %v", n, formatSize(n), got, err)
		}
	})
	for d, want := range map[time.Duration]string{0: "0s", 90 * time.Second: "1m30s", time.Hour: "1h", 90 * day: "90d", 36 * time.Hour: "1d12h", 250 * time.Millisecond: "250ms", 10 * time.Minute: "10m"} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v is written %s, not %s", d, got, want)
		}
	}
}
