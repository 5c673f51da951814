// Package containment starts plugin processes so that nothing of them, and of what
// they start, outlives the host. It alone starts, signals and looks for processes.
//
// Read containment.go first: [Containment] is the seam. Two stand behind it.
//
// [Guarded] puts a guard between the host and each plugin: the host's own binary
// ([Guard]), which kills the tree when its lifeline, a pipe from the host, ends, and
// ends itself when the tree is empty. By what means depends on the [Tier], which a
// probe finds by starting a guard. docs/containment.md says what each tier promises
// and what it does not. A [Run] keeps a record of every tree on disk, and [Sweep]
// ends what the trees of dead hosts have left.
//
// [Direct] makes the plugin a child in a process group of its own. It ends what
// stays in that group; a process that detaches itself (setsid) escapes it.
//
// A goroutine per tree waits for it and ends with Done; on Linux one more holds the
// thread that forks, and lives as long as a tree does. In a guard everything happens
// on one goroutine, but for the one that reads the lifeline.
//
// The package does not read a plugin's output, restart anything, decide what may run,
// or know what a plugin is for.
package containment
