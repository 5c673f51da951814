//go:build !unjournaled

package broker

// journaled says that calls are written down. It is false in a build that measures
// what that costs; see unjournaled.go.
const journaled = true
