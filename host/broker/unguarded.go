//go:build unguarded

package broker

import (
	"context"
	"strings"
)

// bypass takes a call to its server as if everybody might call everything, and
// every definition were as it was shown; how many calls run at a time is bounded as
// ever. It exists to be measured against, by `make bench`, and is in no build but
// that of the benchmark.
func (x *crossing) bypass(ctx context.Context) (reply Reply, done bool) {
	if problem := x.read(); problem != "" {
		return x.malformed(problem), true
	}
	slug, _, _ := strings.Cut(x.exposed, "_")
	in, err := x.opts.Sessions.Get(ctx, slug)
	if err != nil {
		return notStarted(ctx, slug, x.exposed, err), true
	}
	t, ok := x.opts.Catalog.Snapshot().Find(x.exposed)
	if !ok {
		return unknownTool(x.exposed), true
	}
	ctx, cancel := withLimit(ctx, x.arrived, x.providers[slug])
	defer cancel()
	leave, refused := x.room(ctx, t)
	if refused != nil {
		return *refused, true
	}
	defer leave()
	x.entry.Provider, x.entry.Tool, x.entry.Digest, x.entry.Instance = t.Provider, t.Name, t.Digest, in.Mark()
	reply, _ = x.dispatch(ctx, in, t, func() error {
		if err := x.opts.Journal.Begin(&x.entry); err != nil {
			return &unjournaled{err}
		}
		x.begun = true
		return nil
	}, func() error { return nil })
	return reply, true
}
