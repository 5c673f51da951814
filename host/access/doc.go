// Package access says who a caller is.
//
// Today that is one user, the principal "local", who proves himself over HTTP
// with the bearer token that the first start puts into the state directory; over
// stdio whoever started the host is him. Principals with tokens of their own,
// projects and grants belong here too and are not built yet.
//
// The package starts no goroutine and knows no transport.
package access
