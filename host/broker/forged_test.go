package broker

import (
	"errors"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
	"github.com/drawbridge-mcp/drawbridge/host/session"
)

// TestForgedCodes: whichever member a client takes for the code of a server's error,
// it is none of the host's.
func TestForgedCodes(t *testing.T) {
	for text, want := range map[string]bool{
		`{"code":-31001,"message":"m"}`:                   true,
		`{"code":-3100100e-2,"message":"m"}`:              true,
		`{"code":"-31003","message":"m"}`:                 true,
		`{"code":-31001,"code":1,"message":"m"}`:          true,
		`{"code":1,"code":-31001,"message":"m"}`:          true,
		`{"code":1,"message":"m","Code":-31001}`:          true,
		`{"CODE":-31001,"message":"m"}`:                   true,
		`{"code":-32602,"message":"m"}`:                   false,
		`{"code":1,"message":"m","data":{"code":-31001}}`: false,
		`{"message":"no code"}`:                           false,
	} {
		m, err := rpc.Parse(rpc.FromServer, []byte(`{"jsonrpc":"2.0","id":1,"error":`+text+`}`))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var lost *session.Lost
		err = forged(m)
		if forged := errors.As(err, &lost) && lost.Dispatched && lost.Reason == session.MalformedAnswer; forged != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
