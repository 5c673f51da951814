// Package config reads the files in which the owner of a machine declares what
// the host may offer, and says everything that is wrong with them in one run.
//
// Start with blocks.go: it is the table of every block and attribute, with
// defaults and bounds, and decoding, checking, suggestions and the reference
// documentation (Reference) all come from it. pending.go names what the table
// holds and the host does not do yet.
//
// Load reads a file or a folder and gives a checked Config. The body of a
// `config` block belongs to a plugin, so it is kept as it stands until the
// plugin's schema is known; DecodeBody then turns it into the JSON that the
// plugin gets, and Locate turns what the plugin says about that JSON back into
// lines of the file.
//
// Rules that hold throughout:
//
//   - A value that cannot be used is an error, never a default. What protects
//     and is not in force is an error that says so.
//   - Every diagnostic has a place and says what to do. None holds a value of a
//     `config` block: print them with WriteDiagnostics or Findings, never with
//     HCL's own writer, which shows source lines and values of variables.
//   - A string reaches a plugin as it is spelled, though HCL and cty turn every
//     string into Unicode's form NFC; see spelling.go.
//   - Foreign text neither panics nor takes unbounded time; see language.go.
//
// The package starts no goroutine, holds no state, writes nothing, and reads
// nothing but the files it is given, those that file() names, and the
// environment. It imports no other package of the host. It does not start
// plugins, does not look whether paths exist, and does not know the lock file.
package config
