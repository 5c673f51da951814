// Package doctor judges what was found out about a configuration and the machine it is
// to run on: each finding has a verdict and, unless all is well, a remedy.
//
// It is pure. Facts are gathered elsewhere (host/cmd/drawbridge), so that each verdict
// can be tested without the machine that would give it; this package reads no file,
// starts no process and knows no other package of the host. checks.go is to be read
// first: it has the groups in the order in which a person would look.
package doctor
