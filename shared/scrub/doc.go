// Package scrub takes known secrets out of text, in the forms in which programs
// write them down: as they are, JSON-escaped, URL-encoded, in base64. Read set.go
// first; forms.go says what the forms are.
//
// A Set is an automaton over all forms of all secrets (Aho and Corasick, 1975): it
// looks at each byte of a text once, however many secrets there are, and a text
// that arrives in pieces can be looked at by the piece. What several secrets have
// in common, or share at their edges, is taken out as one.
//
// The package knows no policy: which values are secrets, and of which texts they
// are to be kept out, is for its users. It starts no goroutine; a Set is immutable
// and safe for concurrent use.
package scrub
