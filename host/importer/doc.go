// Package importer reads the files in which MCP clients declare their servers, and
// writes what they say as providers of a configuration, with a report of what became
// of every entry.
//
// Start with neutral.go: Read gives an Import, which holds each entry of a file
// either as a Server, in a form that is no client's, or as the reason why there is
// none. What the clients' dialects differ in stands in client.go and reference.go;
// credential.go finds what must not be written out. Merge adds the servers to a
// configuration, and Apply puts the result in its place.
//
// Rules that hold throughout:
//
//   - Importing runs nothing, opens no connection, and reads neither a variable nor
//     a file that an entry names.
//   - Each entry ends as one server or as one error; what is left out of one is told,
//     with its path.
//   - A credential in a client's file goes to the secret store. Neither HCL nor report
//     nor error holds it.
//   - What a file allows (autoApprove, trust) never becomes a permission, and what is
//     unclear about being off means off.
//   - A text that cannot be written so that it reads back as it was is not written.
//
// The package starts no goroutine. It knows no plugin: the schemas of those that it
// writes providers for are handed to Merge.
package importer
