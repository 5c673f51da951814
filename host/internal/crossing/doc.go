// Package crossing tests what must hold when a message crosses the whole bridge:
// the real binary, with real plugin processes, in front of the scripted server of
// host/internal/fakeserver, whose log is the only witness of what was received.
// Each test runs over both transports. With the race detector on, the host has
// it too.
//
// What one room of the host does is tested in that room; what only servers and
// clients of others can show, in host/internal/e2e.
package crossing
