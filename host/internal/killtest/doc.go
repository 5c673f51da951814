// Package killtest kills the processes of real hosts, whichever and whenever, and
// looks at what is left: at least 100 rounds a containment tier in CI, and as many
// a cell as one likes in `make soak`.
//
// Start with table_test.go, which says who is killed when and prints how it ended;
// round_test.go plays one round; process_test.go reads the machine's process table,
// by mark and time of start and never by name alone, and signals nothing else.
// goplugin_test.go shows what plain go-plugin does where the host does better;
// ledger_test.go, that the journal tells the truth about every call;
// recovery_test.go, what those who call are told, and when; foreign_test.go and
// stranger_test.go, who is spared and who is refused; idle_test.go, what it costs.
//
// The hosts are the real ones, with one file more, testdata/goroutines.go, by which a
// host that lives on tells of its goroutines.
//
// It has no code of its own but tests, and they run on Linux.
package killtest
