// Package e2e runs the real binary between real servers and real clients: MCP
// servers and clients from npm that others wrote, at the versions of
// testdata/npm/package-lock.json, and a browser. Its tests have the build tag
// e2e; `make e2e` builds and installs what they need and runs them.
//
// conformance_test.go runs the official conformance suite. testdata/conformance
// lists, check by check, what does not pass yet and why; whoever makes one pass
// takes it off the list, or the test fails.
//
// A test here never skips: what is missing is an error that says how to get it.
// Every process a test starts is its own, ends with it, and is looked for
// afterwards in the process table.
//
// What can be shown with the scripted server of host/internal/fakeserver is
// shown elsewhere; here stands what only strangers can show.
package e2e
