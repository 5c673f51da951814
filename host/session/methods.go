package session

// The methods that a session itself sends or understands; all others are only
// carried. (MCP 2024-11-05 to 2026-07-28.)
const (
	methodDiscover    = "server/discover"
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodListTools   = "tools/list"
	methodListen      = "subscriptions/listen"
	methodListening   = "notifications/subscriptions/acknowledged"
	methodSetLevel    = "logging/setLevel"
	methodCancelled   = "notifications/cancelled"
	methodProgress    = "notifications/progress"
	methodMessage     = "notifications/message"
	methodToolsChange = "notifications/tools/list_changed"
	methodPing        = "ping"
	methodListRoots   = "roots/list"
)
