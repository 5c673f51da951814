package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// series is what all rounds measured of one metric over one transport.
type series struct{ direct, through, bare []float64 }

// ratio of the medians, through against direct.
func (s series) ratio() float64 { return median(s.through) / median(s.direct) }

// bareRatio is that of the bare gateway; 0 if it was not measured.
func (s series) bareRatio() float64 { return median(s.bare) / median(s.direct) }

// spread is the lowest and the highest ratio of any one round.
func (s series) spread() (low, high float64) {
	var all []float64
	for i := range min(len(s.direct), len(s.through)) {
		all = append(all, s.through[i]/s.direct[i])
	}
	if len(all) == 0 {
		return 0, 0
	}
	return slices.Min(all), slices.Max(all)
}

// limit is what a ratio is held against: at most for times, at least for rates.
type limit struct {
	transport string
	metric    metric
	bound     float64
}

// limits are the overhead that was set as a goal, against the same server over
// the same transport in the same run.
var limits = []limit{
	{stdio, p50, 2.6},
	{stdio, rate64, 0.55},
	{overHTTP, p50, 2.3},
	{overHTTP, rate64, 0.65},
	{stdio, big, 1.7},
	{overHTTP, big, 1.7},
	{guards, rate64, 0.90},
	{journals, rate16, 0.90},
	{journals, rate64, 0.90},
}

func (l limit) met(ratio float64) bool {
	if l.metric.isRate() {
		return ratio >= l.bound
	}
	return ratio <= l.bound
}

func (l limit) String() string {
	if l.metric.isRate() {
		return fmt.Sprintf("at least %.2f", l.bound)
	}
	return fmt.Sprintf("at most %.1f", l.bound)
}

// results are the series of a whole run, by transport and metric.
type results map[string]map[metric]*series

func (r results) at(transport string, m metric) *series {
	if r[transport] == nil {
		r[transport] = map[metric]*series{}
	}
	if r[transport][m] == nil {
		r[transport][m] = &series{}
	}
	return r[transport][m]
}

func (r results) add(transport, side string, f figures) {
	for m, v := range f {
		s := r.at(transport, m)
		switch side {
		case direct:
			s.direct = append(s.direct, v)
		case through:
			s.through = append(s.through, v)
		case bare:
			s.bare = append(s.bare, v)
		}
	}
}

// verdict prints the ratios that have a limit, and says whether all are met. It
// prints no times: those depend on the machine, and nobody should quote them.
func (r results) verdict(w io.Writer) bool {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TRANSPORT\tFIGURE\tRATIO\tLIMIT\t\tBARE GATEWAY\t")
	all := true
	for _, l := range limits {
		if len(r.at(l.transport, l.metric).through) == 0 {
			continue // not measured in this run
		}
		ratio := r.at(l.transport, l.metric).ratio()
		word := "met"
		if !l.met(ratio) { // also when it is no number
			word, all = "MISSED", false
		}
		fmt.Fprintf(table, "%s\t%s\t%.2f\t%s\t%s\t%s\t\n", l.transport, l.metric, ratio, l, word, bareCell(r.at(l.transport, l.metric)))
	}
	_ = table.Flush()
	return all
}

func bareCell(s *series) string {
	if len(s.bare) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", s.bareRatio())
}

// rest prints the ratios of everything, with the spread of the rounds.
func (r results) rest(w io.Writer, absolute bool) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := "TRANSPORT\tFIGURE\tRATIO\tLOWEST\tHIGHEST\tBARE GATEWAY\t"
	if absolute {
		head += "DIRECT\tTHROUGH\tBARE\t"
	}
	fmt.Fprintln(table, head)
	for _, transport := range slices.Sorted(maps.Keys(r)) {
		for _, m := range slices.Sorted(maps.Keys(r[transport])) {
			s := r[transport][m]
			if len(s.through) == 0 {
				continue // not measured in this run
			}
			low, high := s.spread()
			fmt.Fprintf(table, "%s\t%s\t%.2f\t%.2f\t%.2f\t%s\t", transport, m, s.ratio(), low, high, bareCell(s))
			if absolute {
				fmt.Fprintf(table, "%s\t%s\t%s\t", unit(m, median(s.direct)), unit(m, median(s.through)), unit(m, median(s.bare)))
			}
			fmt.Fprintln(table)
		}
	}
	_ = table.Flush()
}

func unit(m metric, v float64) string {
	if m.isRate() {
		return fmt.Sprintf("%.0f/s", v)
	}
	return fmt.Sprintf("%.0f us", v*1e6)
}

// weigh prints what processes hold.
func weigh(w io.Writer, held []weighed) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MEMORY\tRSS\tPSS\t")
	for _, one := range held {
		fmt.Fprintf(table, "%s\t%.1f MiB\t%.1f MiB\t\n", one.what, float64(one.rss)/1024, float64(one.pss)/1024)
	}
	_ = table.Flush()
}

// weighed is a process and what it held.
type weighed struct {
	what string
	memory
}
