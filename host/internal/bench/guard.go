package main

import (
	"errors"
	"fmt"
)

// guards stands in the place of a transport for what access and fence cost: a host
// as it is, against the same without either.
const guards = "stdio, guarded / unguarded"

// roundOfGuards measures the throughput of both hosts; the journal is on in both.
func (b *bench) roundOfGuards() (err error) {
	if b.unguarded == "" {
		if b.unguarded, err = buildWith("unguarded", b.dir, "cmd/drawbridge"); err != nil {
			return err
		}
	}
	for _, side := range []struct{ name, host string }{{direct, b.unguarded}, {through, b.host}} {
		rate, err := b.guardedRate(side.host)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", guards, side.host, err)
		}
		b.results.add(guards, side.name, figures{rate64: rate})
	}
	return nil
}

// guardedRate is a host's throughput with 64 callers.
func (b *bench) guardedRate(host string) (rate float64, err error) {
	one := *b
	one.host = host
	o, err := one.open(stdio, through, b.providers(1, fakeTools...))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	echo := callTool(o.names.echo, echoText)
	if _, err = latencies(o.conn, b.plan.warm, "tools/call", echo); err != nil {
		return 0, err
	}
	return throughput(o.conn, 64, b.plan.parallel, echo)
}
