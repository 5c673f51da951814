// Package shape finds results of tools that do not fit the outputSchema of their
// definition, and outputSchemas that are none. It is for warnings alone: nothing it
// finds changes what a caller gets. Read schema.go first.
//
//	tree.go      a JSON text as a tree, within bounds
//	number.go    numbers, as far as they can be told apart for sure
//	schema.go    a schema, its dialect, where its references lead
//	fault.go     what surely keeps a schema from being one
//	judge.go     a value held against a schema, within a budget of steps
//	keywords.go  what each keyword says of a value
//	watch.go     who is told, once for each definition, and when
//
// Schemas and results are a server's, and the process is one that all providers
// share. So everything has a bound: the bytes that are read, the nesting, the values,
// the steps of one comparison. There is no arithmetic but on numbers of a few digits,
// no regular expression is run, and nothing is fetched: of `$ref` only what points
// into the same document is followed.
//
// It never warns of what fits. A comparison ends in one of three ways: it fits, it
// does not, or that is not known. Whatever is not understood, or out of bounds, is
// not known, and what is not known is not told.
//
// A Watch has one goroutine while there is something to look at, and none else.
package shape
