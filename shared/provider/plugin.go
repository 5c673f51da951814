package provider

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/drawbridge-mcp/drawbridge/shared/providerpb"
)

// Handshake is go-plugin's handshake of the contract.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   CookieKey,
		MagicCookieValue: CookieValue,
	}
}

// VersionedPlugins is go-plugin's set by contract version. p is nil on the host's
// side, where dispensing PluginName gives a Remote.
func VersionedPlugins(p Provider) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{
		ProtocolVersion: {PluginName: &GRPCPlugin{Impl: p}},
	}
}

// GRPCPlugin is the contract as go-plugin sees it.
type GRPCPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	// Impl is what a plugin serves; nil on the host's side.
	Impl Provider
}

var _ plugin.GRPCPlugin = (*GRPCPlugin)(nil)

// GRPCServer registers the Provider on a plugin's server, which was made with
// ServerOptions.
func (p *GRPCPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	providerpb.RegisterProviderServer(s, newServer(p.Impl))
	return nil
}

// GRPCClient returns a Remote.
func (p *GRPCPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, cc *grpc.ClientConn) (any, error) {
	return NewRemote(cc), nil
}
