package provider

// Constants of contract version 1.
const (
	// ProtocolVersion is the version that go-plugin negotiates.
	ProtocolVersion = 1
	// CookieKey and CookieValue are go-plugin's magic cookie. They keep a person
	// from running a plugin by hand; they protect nothing.
	CookieKey   = "DRAWBRIDGE_PROVIDER"
	CookieValue = "a-gate-not-a-tunnel"
	// PluginName is the key of the one plugin in go-plugin's set.
	PluginName = "provider"
	// TokenKey is the metadata key that carries the token on every RPC.
	TokenKey = "drawbridge-token"
	// MarkEnv is the environment variable that carries an instance's mark,
	// <host id>/<slug>/<n>, in every process of the instance.
	MarkEnv = "DRAWBRIDGE_INSTANCE"

	// MaxChunk is the most bytes a chunk may hold, SendChunk what this
	// implementation sends.
	MaxChunk  = 1 << 20
	SendChunk = 256 << 10
	// StreamWindow and ConnWindow are the HTTP/2 flow-control windows of both ends.
	StreamWindow = 4 << 20
	ConnWindow   = 8 << 20
	// MaxWire is the most bytes that any message of the contract may take on the
	// wire: a chunk and what stands around it.
	MaxWire = MaxChunk + 64<<10
	// MaxNoise is the most bytes of a line that a Noise event carries.
	MaxNoise = 1 << 10
	// MaxStderrTail is the most bytes of an ExitStatus's StderrTail; its end is kept.
	MaxStderrTail = 16 << 10
	// MaxID is the most bytes of the id of a TooLarge event.
	MaxID = 1 << 10
)
