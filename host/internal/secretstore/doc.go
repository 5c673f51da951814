// Package secretstore keeps the values of secret(name) in a folder of the state
// dir: one file a secret, readable by its owner alone.
//
// A file is written under a temporary name, synced, and renamed, so that hosts
// which share the state dir find the old value or the new one and never a part;
// it carries its own name and a checksum, so that what was cut short, copied to
// another name or put there by something else is an error and no value. What is
// open to other users is an error too, and is left as it is: closing it again
// would hide that it was open.
//
// The package starts no goroutine, caches nothing and does not encrypt: who may
// read a file of this user may read these. It knows nothing of configurations.
package secretstore
