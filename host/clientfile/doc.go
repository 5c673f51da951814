// Package clientfile writes the entry of a host into the file of an MCP client, and
// takes it out again, while every other byte stays as it was: comments, order, white
// space, line ends. Read shape.go first.
//
//	shape.go   what the entry looks like to each client, and where it stands
//	edit.go    Put, Take and Names; each edit is read back before it is given out
//	change.go  one file replaced whole, and what it was before kept to put it back
//	json.go    JSON with comments, toml.go TOML, yaml.go YAML: where to cut and paste
//
// Put, Take and Look work on texts alone. The package never writes a token: an entry over
// HTTP names where the client finds it. A file in a form that cannot be edited so that
// nothing else changes gives an error, and stays. It starts no goroutine.
package clientfile
