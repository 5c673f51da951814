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

// roundWithout measures the throughput of both hosts, in turns; which is first
// changes from round to round.
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
	sides := []*pair{{name: direct, host: b.lacking[w.tag]}, {name: through, host: b.host}}
	if round%2 == 1 {
		slices.Reverse(sides)
	}
	for _, side := range sides {
		if err := side.open(b); err != nil {
			return fmt.Errorf("%s, %s: %w", w.name, side.host, err)
		}
		defer func() { err = errors.Join(err, side.close()) }()
	}
	for m, callers := range w.callers {
		for n := range slicesOfRate {
			for _, side := range sides {
				if err := side.slice(m, callers, b.plan.parallel/slicesOfRate); err != nil {
					return fmt.Errorf("%s, %s, slice %d: %w", w.name, side.host, n, err)
				}
			}
		}
	}
	for _, side := range sides {
		b.results.add(w.name, side.name, side.figures())
	}
	return nil
}

// slicesOfRate is how many turns the two hosts take in a round: what the machine
// does beside is then shared by both.
const slicesOfRate = 16

// pair is one of two hosts that are up side by side, and measured in turns.
type pair struct {
	name, host string
	*opened
	echo  string
	rates map[metric][]float64
}

func (p *pair) open(b *bench) (err error) {
	one := *b
	one.host = p.host
	config := b.providers(1, fakeTools...)
	config.limits = "    max_concurrent = 64\n" // every call is on its way, none waits to be let in
	if p.opened, err = one.open(stdio, through, config); err != nil {
		return err
	}
	p.echo, p.rates = callTool(p.names.echo, echoText), map[metric][]float64{}
	if _, err = latencies(p.conn, b.plan.warm, "tools/call", p.echo); err != nil {
		return errors.Join(err, p.close())
	}
	return nil
}

// slice measures one turn.
func (p *pair) slice(m metric, callers, calls int) error {
	rate, err := throughput(p.conn, callers, calls, p.echo)
	p.rates[m] = append(p.rates[m], rate)
	return err
}

func (p *pair) figures() figures {
	f := figures{}
	for m, rates := range p.rates {
		f[m] = median(rates)
	}
	return f
}
