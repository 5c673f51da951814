package rpc

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestFoldAgreesWithEqualFold: two characters fold to one exactly if
// strings.EqualFold takes them for equal.
func TestFoldAgreesWithEqualFold(t *testing.T) {
	byFold := map[string]rune{}
	for r := rune(1); r <= unicode.MaxRune; r++ {
		if 0xd800 <= r && r <= 0xdfff {
			continue
		}
		folded := string(appendFold(nil, string(r)))
		if first, ok := byFold[folded]; !ok {
			byFold[folded] = r
		} else if !strings.EqualFold(string(first), string(r)) {
			t.Fatalf("%U and %U fold to %q", first, r, folded)
		}
		if next := unicode.SimpleFold(r); string(appendFold(nil, string(next))) != folded {
			t.Fatalf("%U and %U are equal, but fold differently", r, next)
		}
	}
}

// TestEveryDefinedNameHasNoLookalike tries each name that the protocol defines
// in its place, as it is and disguised.
func TestEveryDefinedNameHasNoLookalike(t *testing.T) {
	disguises := []func(string) string{
		strings.ToUpper,
		strings.NewReplacer("s", "\u017f").Replace,
		strings.NewReplacer("k", "\u212a").Replace,
		func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
		func(s string) string { return s[:len(s)-1] + strings.ToUpper(s[len(s)-1:]) },
	}
	places := []struct {
		names         names
		before, after string
	}{
		{topNames, `{"jsonrpc":"2.0","id":1,"method":"x",`, `}`},
		{paramNames, `{"jsonrpc":"2.0","id":1,"method":"x","params":{`, `}}`},
		{metaNames, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{`, `}}}`},
	}
	for i, p := range places {
		for _, name := range p.names.folded {
			if i > 0 { // at the top, another of the same name is one too many
				text := p.before + `"` + name + `":{}` + p.after
				if _, err := Parse(FromClient, []byte(text)); err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
			for _, disguise := range disguises {
				if other := disguise(name); other != name {
					wantRefused(t, FromClient, p.before+`"`+other+`":{}`+p.after, refusal{CodeInvalidRequest, "1"})
				}
			}
		}
	}
}

// TestManyMembers takes the way that is not quadratic.
func TestManyMembers(t *testing.T) {
	var members []string
	for i := range 3000 {
		members = append(members, `"m`+strings.Repeat("x", i%10)+string(Number(int64(i)))+`":0`)
	}
	text := func(more string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"x","params":{` + strings.Join(members, ",") + more + `}}`
	}
	if _, err := Parse(FromClient, []byte(text(""))); err != nil {
		t.Error(err)
	}
	wantRefused(t, FromClient, text(`,"m0":1`), refusal{CodeInvalidRequest, "1"})
	wantRefused(t, FromClient, text(`,"\u006d0":1`), refusal{CodeInvalidRequest, "1"})
}

func TestAlike(t *testing.T) {
	m, err := Parse(FromServer, []byte(`{"jsonrpc":"2.0","id":1,"result":{"_META":{"_Meta":1},"_meta":{},"content":[],"_Meta":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Alike("_meta", "result"); !slices.Equal(got, []string{"_META", "_Meta"}) {
		t.Errorf("alike: %q", got)
	}
	if got := m.Alike("_meta", "error"); got != nil {
		t.Errorf("of nothing: %q", got)
	}
}

// TestNoPieceOfAName: a name is shown whole or not at all. Secrets are taken out of errors
// afterwards, and of a piece it is not told that it is one.
func TestNoPieceOfAName(t *testing.T) {
	for _, name := range []string{strings.Repeat("ab", 32), strings.Repeat("ab", 33), strings.Repeat("\u00e9", 100)} {
		asm := NewAssembler(FromServer, t.TempDir(), 0)
		if _, err := asm.Write([]byte(`{"jsonrpc":"2.0","id":1,"` + name + `":1,"` + name + `":2,"result":{}}`)); err != nil {
			t.Fatal(err)
		}
		_, err := asm.Finish()
		if err == nil {
			t.Fatalf("%s may occur twice", name)
		}
		if whole := strings.Contains(err.Error(), name); !whole && strings.Contains(err.Error(), name[:8]) {
			t.Errorf("it shows a piece: %v", err)
		}
	}
}
