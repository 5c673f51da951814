// Package redact removes secrets from what leaves the host. One Redactor serves a
// host, and is told values as configs are decoded. It finds no secrets by itself
// but credentials where they always stand: in an Authorization header and in a URL.
//
// Three kinds of text leave a host, and each has its own measure:
//
//   - Sinks (logs, tails of standard error, status, errors, crash reports) are for
//     people: Text takes out every value, in every form.
//   - Lists (definitions of tools) outlive a secret in catalogs and digests:
//     Definition takes out the values of secret(), in every form. It works on
//     strings, names and numbers and leaves JSON whole.
//   - Results are a server's truth, which a caller has a right to: Results takes
//     out the values of secret() alone, plain and JSON-escaped.
//
// Values of env() and of sensitive attributes stay in lists and results: most are
// no secrets but settings (a folder, a mode), and what a server says of its
// settings is what a model needs to know.
//
// The package starts no goroutine. Where it is told no value it costs a comparison.
package redact
