// Package docs holds the tests that keep README.md and docs/ true: links lead somewhere,
// pieces of configuration are valid, and every message that the code can print stands on
// a page of docs/troubleshoot with a remedy. There is nothing in it to import.
//
// # When the test of messages fails
//
// `go test ./host/internal/docs` reads the code, collects the messages in it, and
// compares them with the tables of docs/troubleshoot whose first column is headed
// "message". It knows three mistakes:
//
//   - A message has no row. The test prints the place in the code and the message as it
//     has to stand in the page: "…" for what is only known when it is printed, ' for a
//     backquote, / for a bar. Put it into the page of its area (docs/troubleshoot.md has
//     the list), in backquotes: in a row of its own, or, behind a <br>, in that of
//     messages with the same remedy. The last column says what the reader is to do.
//   - A row has a message that nothing prints any more. Reword the row, or take it out.
//   - A message stands twice, or has no remedy.
//
// Where the text that it found is no message, such as a question or a name that is put
// into messages, add it to questions (seeds_test.go) or names (texts_test.go). Where a
// new function or field tells people what is wrong, and is none of those that the search
// begins with, add it there (seeds_test.go): else what it tells is not found.
//
// # What is collected
//
// The search begins where people, models and clients are told that something is wrong
// (told, shown and givers in seeds_test.go): errors, diagnostics with their details, what
// is written to standard error and logged as a warning or an error, the errors of
// JSON-RPC, HTTP and gRPC, what doctor finds and advises, what an import says of an
// entry, why access is denied. From there it goes back through variables, fields,
// parameters and results to the texts that may end there, in the code as it is built for
// every system. What is put together of pieces is one message, and its pieces are
// messages where they have two words.
//
// # What is left out
//
//   - A format in which nothing else stands ("%w: %w"), or no word that says something:
//     it only joins texts that have rows of their own.
//   - What the operating system and servers say: it stands behind a "…".
//   - What HCL and the flags' parser say by themselves: that has tables and tests of its
//     own (language_test.go, host/cmd/drawbridge/docs_test.go).
//   - What an attribute is for, which a message about its absence repeats: docs/reference
//     has it.
//   - Results, the log below a warning, and the code that is only for tests and
//     measurements (aside in source_test.go).
//
// # Where to read on
//
//	messages_test.go   the comparison, in both directions
//	seeds_test.go      where the search begins
//	texts_test.go      how it goes from there to texts
//	flow_test.go       where every variable, field, parameter and result gets its values
//	source_test.go     the code with its types, for each system
//	fixture_test.go    a package with a message in every form, all of which are found
package docs
