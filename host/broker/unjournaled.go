//go:build unjournaled

package broker

// journaled is false: no call is written down. This build exists to be measured
// against, by `make bench`, and for nothing else.
const journaled = false
