package main

import (
	"errors"
	"fmt"
	"slices"
)

// without is a host that lacks something which every call pays for, to be measured
// against the host as it is.
type without struct {
	// name stands in the place of a transport.
	name string
	// tag is that of the build.
	tag  string
	part string // of -only
	// callers are how many there are at a time.
	callers map[metric]int
}

const (
	// guards is what access and fence cost; the journal is on in both.
	guards = "stdio, guarded / unguarded"
	// journals is what the journal costs.
	journals = "stdio, journal on / off"
)

var withouts = []without{
	{guards, "unguarded", "guard", map[metric]int{rate64: 64}},
	{journals, "unjournaled", "journal", map[metric]int{rate16: 16, rate64: 64}},
}

// roundWithout measures the throughput of both hosts; which is first changes from
// round to round, as a machine that gets warmer does not.
func (b *bench) roundWithout(w without, round int) (err error) {
	if b.lacking[w.tag] == "" {
		path, err := buildWith(w.tag, b.dir, "cmd/drawbridge")
		if err != nil {
			return err
		}
		if b.lacking == nil {
			b.lacking = map[string]string{}
		}
		b.lacking[w.tag] = path
	}
	sides := []struct{ name, host string }{{direct, b.lacking[w.tag]}, {through, b.host}}
	if round%2 == 1 {
		slices.Reverse(sides)
	}
	for _, side := range sides {
		f, err := b.rates(side.host, w.callers)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", w.name, side.host, err)
		}
		b.results.add(w.name, side.name, f)
	}
	return nil
}

// rates are a host's throughputs.
func (b *bench) rates(host string, callers map[metric]int) (f figures, err error) {
	one := *b
	one.host = host
	o, err := one.open(stdio, through, b.providers(1, fakeTools...))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	echo := callTool(o.names.echo, echoText)
	if _, err = latencies(o.conn, b.plan.warm, "tools/call", echo); err != nil {
		return nil, err
	}
	f = figures{}
	for m, n := range callers {
		if f[m], err = throughput(o.conn, n, b.plan.parallel, echo); err != nil {
			return nil, err
		}
	}
	return f, nil
}
