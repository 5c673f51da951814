// Package plan says what a configuration comes to, before anyone relies on it:
// what would start, who would see what, what clashes, who shares a server, and
// what is not as the lock file has it. Read plan.go first.
//
//	plan.go         the report, and how it is made
//	locked.go       the difference to the lock file, and the lock file for what is there
//	definitions.go  approved definitions, kept to show what has changed in them
//	write.go        the report for people
//
// The package starts no process and no goroutine: what servers list it is given.
package plan
