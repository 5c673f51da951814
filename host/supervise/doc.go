// Package supervise starts plugin processes, keeps them going and ends them.
//
// Read supervise.go first, then launch.go. A [Launcher] starts one plugin and
// returns a [Process]; a [Unit] keeps one provider going: it owns one Process at
// a time, starts it when somebody needs it, and restarts it by the provider's
// policy (machine.go is that policy as a pure function).
//
// go-plugin speaks to a plugin through a runner of ours (runner.go), which owns
// the plugin's input, output, environment and end. What go-plugin 1.8.0 does not
// bear is kept from it: it never sees the plugin's standard error (one line of
// JSON there can panic the host), its Kill (which may block for ever on a stopped
// plugin) is called when the process is gone, and a client serves one start.
//
// Goroutines: a Process has one that watches its end, one for each of the
// plugin's two outputs, and those of go-plugin and gRPC; all have ended when Done
// is closed. A Unit has one that owns its state and, during a start, one more;
// Stop waits for both.
//
// The package does not speak MCP: what makes a process ready is an [Opener] that
// the session gives. It decides no configuration and contains no process tree by
// itself, see host/containment.
package supervise
