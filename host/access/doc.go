// Package access says who a caller is, and what he may see and call.
//
// Start with policy.go. A Policy is what the files say of principals, projects and
// grants, and never changes; Decide is the one place where anything is allowed.
// Its table test is the policy's manual. Rules that hold throughout:
//
//   - What no grant names is denied. An empty list allows nothing.
//   - Deny wins: what one grant excepts, no other gives to the same principal of
//     the same project.
//   - A caller sees exactly what he may call.
//   - With neither principals nor projects declared, the principal "local" has
//     everything: whoever speaks over stdio, and whoever has the token that the
//     first start puts into the state directory. With principals, each has what
//     grants name it, "local" too, and that token is void.
//
// A Gate tells principals by their bearer tokens and holds the policy in force; a
// reload swaps it. Neither starts a goroutine or knows a transport, and neither
// looks at definitions: whether a tool is there, and still the one that a caller
// was shown, is the broker's to ask.
package access
