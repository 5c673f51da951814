// Package broker takes a caller's request to the server that may answer it, and
// says how that ended. It is the one place where a name becomes a provider's
// tool, where a call is admitted, and where what happened becomes an outcome.
// Read call.go first.
//
// A call goes: resolve → fence → admit → start if cold → wait until the list is current →
// resolve and fence again on what the instance lists now → begin → dispatch →
// classify → end. It runs on the goroutine of whoever called; the broker starts
// none but those that warm providers for a list, which end with the provider's
// start.
//
//	view.go        what a caller sees: the policy and the catalog of one moment
//	fence.go       whether a tool is what its caller was shown, as a pure decision
//	shown.go       what one caller was shown; recollect.go that of all of them,
//	               shownstore.go on disk
//	refusal.go     what a stale call is told; outcome.go, ending.go how calls end
//	admit.go       whether there is room for a call; admission.go how those that wait
//	               take turns
//	callid.go      calls that carry an id and run once
//	redact.go      secrets out of answers; bound.go what of a large one is passed on;
//	               look.go who compares one with its outputSchema
//	record.go      the journal's lines
//	guarded.go     the one place where a build may leave the fence out: the benchmark's
//
// The broker changes of a request the name, and takes out `drawbridge/…` keys;
// everything else of the message is the session's (ids, tokens) or the front's.
// It does not know transports, client sessions or processes.
package broker
