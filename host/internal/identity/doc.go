// Package identity tells which server a provider stands for, and what its process
// is made of, without telling what that is: an identity and a fingerprint are
// HMACs under a key of the state dir. Read identity.go first.
//
//	key.go         the key, one for all hosts of a state dir
//	identity.go    identities and fingerprints
//	generation.go  the ordinals of a provider's fingerprints, for people
//
// The package starts no goroutine. It knows neither what a config means nor which
// of its values are secret: what it is given as masked holds none.
package identity
