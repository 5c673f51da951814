package supervise

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/go-plugin"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// checkHandshake reads the line that a plugin prints first,
//
//	CORE|VERSION|NETWORK|ADDRESS|grpc|CERTIFICATE
//
// and says what go-plugin's own message would not. name is the plugin's path.
func checkHandshake(name, line string) error {
	parts := strings.Split(strings.TrimSpace(line), "|")
	core, err := strconv.Atoi(parts[0])
	if len(parts) < 4 || err != nil {
		return notHandshake(name, line)
	}
	version, err := strconv.Atoi(parts[1])
	if err != nil {
		return notHandshake(name, line)
	}
	if core != plugin.CoreProtocolVersion {
		return fmt.Errorf("%s speaks version %d of go-plugin's core protocol, this host version %d",
			name, core, plugin.CoreProtocolVersion)
	}
	if version != provider.ProtocolVersion {
		return fmt.Errorf("%s speaks version %d of the provider contract, this host version %d",
			name, version, provider.ProtocolVersion)
	}
	if protocol := append(parts, "netrpc")[4]; protocol != string(plugin.ProtocolGRPC) {
		return fmt.Errorf("%s speaks %q, a provider plugin speaks gRPC", name, clean(protocol, 40))
	}
	return nil
}

func notHandshake(name, line string) error {
	return fmt.Errorf("%s printed %q on its standard output before its handshake", name, clean(line, 200))
}
