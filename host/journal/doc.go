// Package journal writes down each call before it is sent and after it has ended,
// so that what happened can be told whatever dies in between. Read entry.go first,
// then journal.go.
//
// # The file is the truth
//
// A run of a host appends to a file of its own under STATE_DIR/journal, and to the
// next when that one is large or old: HOST_ID.000001.jsonl and on. A line is one
// JSON object that ends with a checksum over all before it; a line that is cut or
// damaged is found, and costs no other. A call is
//
//	begin   before it is handed to a server
//	end     before its answer is handed to the caller
//
// or one line (call) if it was refused and never begun. The goroutine that carries
// the call writes them, each with one write, many at a time: the mutex is held
// exclusively only where something is to be done about the file. With sync = "full"
// it also waits until the line is on the disk; those who wait at the same time share
// one fdatasync.
//
// A file needs none of those before it: the begins that are open when it is made
// are repeated in it. So an old file can be removed whole, and no call in flight is
// forgotten by that.
//
// # The index
//
// Commands find calls through an Index: a SQLite database beside the files, which
// the command brings to them before it reads, from where the last one stopped. The
// host itself never opens it. It is made from the files alone and can be removed at
// any time. There, the open calls of runs that have ended are closed as unknown.
//
// What a person finds out about an unknown call is a line of settled.jsonl.
//
// # Call ids
//
// A caller may give a call an id of its own, so that to repeat it does not run it
// twice. They are in a table of their own, which is no index: it decides who runs,
// and to lose it is to forget what has run. See CallIDs.
//
// # What is not in it
//
// Arguments, results and secrets (the table of call ids holds answers for five
// minutes, and a keyed digest of arguments). Strings that a caller or a server chose are
// shortened to 256 bytes.
//
// # Owners
//
// A Journal has one goroutine, which removes files that are too old or too many;
// CallIDs have one from their first use on, which removes answers that are held no
// longer. Close waits for it. Everything else runs on the goroutine of whoever calls. The
// package does not know which calls may be made, nor what an outcome means: both
// are the broker's.
package journal
