// Package catalog holds the last complete list of definitions of each provider,
// and the names under which clients see them. Read catalog.go first, then
// names.go.
//
// A Store is written by whoever reads lists (one Put for each complete list) and
// read on every call. Reading takes no lock: Put builds a new immutable Snapshot
// and swaps it in. A Snapshot, the tools in it and their bytes are never changed
// afterwards and may be kept as long as one likes.
//
// The bytes of a definition are the server's own. What the catalog changes in
// them is the value of `name`, and nothing else; what it finds out about them
// (digest, whether a call may have an effect, which arguments HTTP headers must
// repeat: headers.go) stands beside them. A definition that cannot be shown or
// called without guessing hides itself and no other.
//
// A View is what one caller sees of a snapshot (view.go). Who that is, and what it
// may see, is decided above: the view is told by a function. Views of one naming
// share the definitions under their names, so that many callers cost little.
//
// On disk stands the last complete list of each identity (disk.go), so that a host
// that starts can answer while every server is cold. What is there is as good as
// what was listed last, and never more: a file that is not whole counts as none.
//
// The package starts no goroutine.
package catalog
