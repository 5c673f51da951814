// Package arrows holds the module to the picture in docs/architecture.md: which
// package may import which. Its test reads the import graph from the go command
// and fails where an arrow points up, sideways or out of its room.
//
// It judges direct imports of this module's own packages only. Which foreign
// modules a package uses is none of its business.
package arrows
