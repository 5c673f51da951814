package broker

import (
	"log/slog"
	"strings"
	"testing"
)

// TestALongNameIsFoundAgain: what a client was shown under it is known to the next run.
func TestALongNameIsFoundAgain(t *testing.T) {
	s := shownStore{dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	k := newRecollections("", slog.New(slog.DiscardHandler), Cleaner{}.text).keyOf(Caller{Principal: "p", Client: Client{Name: "x" + strings.Repeat("é", maxClientName), Version: "1"}})
	s.write(k, nothing.with("shop_pay", &item{Provider: "shop", Name: "pay", Digest: "d"}))
	if r := s.read(k); r.lossy || r.find("shop_pay") == nil {
		t.Errorf("read again: %+v", r)
	}
}
