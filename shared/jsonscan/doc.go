// Package jsonscan reads one JSON text that arrives in pieces, says whether it
// is valid, and remembers where a few chosen members stand. Read scanner.go
// first; string.go, number.go and record.go are its parts.
//
// It keeps no text, so a text of any length costs a fixed amount of memory: what
// it holds are the spans of the members that Options choose and, where asked
// for, copies of small values. Everything that is skipped is validated too.
//
// What it accepts is RFC 8259 in UTF-8: a raw control character in a string, a
// byte order mark and invalid UTF-8 are errors. With Options.PairedSurrogates it
// accepts exactly what jsontext accepts with duplicate names allowed; without, it
// also lets an escape of half a surrogate pair pass. On top of that it bounds
// nesting, recorded members and the length of recorded names.
//
// It starts no goroutine, and one goroutine uses a Scanner. It does not decide
// what a doubled member means: it records both.
package jsonscan
