// Package broker takes a caller's request to the server that may answer it, and
// says how that ended. It is the one place where a name becomes a provider's
// tool, where a call is admitted, and where what happened becomes an outcome.
//
// A call goes: resolve → start if cold → resolve again on what is there now →
// dispatch → classify. It runs on the goroutine of whoever called; the broker
// starts none but those that warm providers for a list, which end with the
// provider's start.
//
// The broker changes of a request the name, and takes out `drawbridge/…` keys;
// everything else of the message is the session's (ids, tokens) or the front's.
// It does not know transports, client sessions or processes.
package broker
