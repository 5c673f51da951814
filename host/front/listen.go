package front

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/drawbridge-mcp/drawbridge/host/rpc"
)

// listen holds a modern client's stream of notifications open until the client
// or the host ends it (MCP 2026-07-28, basic/patterns/subscriptions). What it
// asks for and we do not serve is left out of the acknowledgement; a stream
// that thereby has nothing to carry stays open, or its client would come again
// at once.
func (s *Server) listen(ctx context.Context, r *request) error {
	if _, kind, _ := r.FindKind("params", "notifications"); kind != '{' {
		return &rpc.Error{Code: rpc.CodeInvalidParams, Message: `invalid params: "notifications" must be an object`}
	}
	var asked mcp.SubscriptionFilter
	if err := json.Unmarshal(r.Get("params", "notifications"), &asked); err != nil {
		return &rpc.Error{Code: rpc.CodeInvalidParams, Message: `invalid params: "notifications" has a member of the wrong type`}
	}
	tag := `"_meta":{"` + mcp.MetaKeySubscriptionID + `":` + string(r.ID) + `}`
	n := s.newNotices(r.caller, nil)
	if asked.ToolsListChanged {
		// Before the acknowledgement: no change shall fall between the two.
		s.audience.join(n)
		defer s.audience.leave(n)
	}
	granted := encode(mcp.SubscriptionFilter{ToolsListChanged: asked.ToolsListChanged})
	acknowledged := json.RawMessage(`{"notifications":` + string(granted) + `,` + tag + `}`)
	if err := r.writer.Notify(rpc.NewNotification(mcp.MethodNotificationSubscriptionsAcknowledged, acknowledged)); err != nil {
		return err
	}
	changed := rpc.NewNotification("notifications/tools/list_changed", json.RawMessage(`{`+tag+`}`))
	if err := s.relay(ctx, n, n.attach(), changed, r.writer); err != nil {
		return err
	}
	// Ended by us, it ends with an answer. To a client that ended it nothing is said.
	if ctx.Err() != nil {
		return nil
	}
	return r.answer(rpc.NewResult(r.ID, json.RawMessage(`{"resultType":"complete",`+tag+`}`)))
}
