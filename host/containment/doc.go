// Package containment starts plugin processes so that they, and what they
// started, can be ended.
//
// Read containment.go first: [Containment] is the seam. [Direct] is the one
// implementation so far: the plugin is a child of the host in a process group of
// its own. It ends what stays in that group; a process that detaches itself
// (setsid) escapes it, which the tiers of design section 5 are for.
//
// The package alone forks processes for plugins and signals them. A goroutine
// per tree waits for the plugin and ends with it; on Linux one more goroutine
// holds the thread that forks, and lives as long as a tree does. The package
// does not read a plugin's output, restart anything, or know what a plugin is
// for.
package containment
