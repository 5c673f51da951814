// Package checksum computes the checksum by which a third-party plugin is declared,
// so that whoever writes a declaration and whoever checks it mean the same.
//
// That of an executable is the SHA-256 of its bytes, as sha256sum prints it. That of
// a plugin which is a script is one SHA-256 over all the files that its declaration
// names, in the order in which it names them: over a line for each, with the file's
// SHA-256 in lower case, two spaces, and the name as it is declared. In the folder
// of the declaration,
//
//	sha256sum acme.py lib/wire.py | sha256sum
//
// gives the same for names without a backslash. So a change of a file, of a name,
// of the order, or of where one file ends and the next begins changes the checksum,
// and the same files under the same names have the same one on every machine.
//
// The package reads files, and remembers nothing: what a file holds when it is read
// again is not its concern.
package checksum
