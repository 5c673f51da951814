//go:build !unguarded

package broker

import "context"

// bypass is for a build that measures what access and fence cost; see unguarded.go.
// In this one, which is the one that is used, nothing goes past them.
func (x *crossing) bypass(context.Context) (reply Reply, done bool) { return Reply{}, false }
