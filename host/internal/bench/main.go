package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The transports and the sides.
const (
	stdio    = "stdio"
	overHTTP = "http"
	direct   = "direct"
	through  = "through"
	bare     = "bare" // the bare gateway, for comparison
)

// fakeTools keeps the server to the tools that are called: it looks a name up in
// its list at each call, and a long list would hide the host's share.
var fakeTools = []string{"--tools", "echo,big", "--life", "2h"}

func main() {
	b := &bench{out: os.Stdout, results: results{}}
	flag.StringVar(&b.host, "drawbridge", "bin/drawbridge", "`PATH` of the host")
	flag.StringVar(&b.fake, "fakeserver", "", "`PATH` of the fake server (default: build it)")
	only := flag.String("only", "stdio,http,list,guard,journal", "`PARTS` to measure, of these")
	withBare := flag.Bool("bare", true, "measure the bare gateway too")
	rounds := flag.Int("rounds", 3, "interleaved rounds")
	absolute := flag.Bool("absolute", false, "print times too; they hold for this machine and this moment only")
	strict := flag.Bool("strict", false, "exit 1 if a limit is missed")
	smoke := flag.Bool("smoke", false, "measure next to nothing, to see that the benchmark works")
	flag.Parse()
	b.plan, b.rounds = fullPlan, *rounds
	if *smoke {
		b.plan, b.rounds = smokePlan, 1
	}
	b.only = strings.Split(*only, ",")
	// Fewer collections of our own, on both sides alike.
	debug.SetGCPercent(400)
	met, err := b.run(*absolute, *withBare)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if *strict && !met {
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	out        io.Writer
	host, fake string
	// bare is the bare gateway; "" leaves it out. lacking are hosts that lack
	// something, by their build tag; they are built when they are measured.
	bare    string
	lacking map[string]string
	dir     string
	plan    plan
	rounds  int
	only    []string
	results results
	held    []weighed
}

// run measures everything and prints it; met says whether every limit was.
func (b *bench) run(absolute, withBare bool) (met bool, err error) {
	if b.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.host, err = filepath.Abs(b.host); err != nil {
		return false, err
	}
	if b.fake == "" {
		if b.fake, err = build(b.dir, "fakeserver/cmd"); err != nil {
			return false, err
		}
	}
	if withBare {
		if b.bare, err = build(b.dir, "bench/bare"); err != nil {
			return false, err
		}
	}
	began := time.Now()
	for round := range b.rounds {
		if err := b.round(round); err != nil {
			return false, fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	fmt.Fprintf(b.out, "%d rounds on %d cores, in %s. A ratio is the host's median divided by the direct one.\n\n",
		b.rounds, runtime.NumCPU(), time.Since(began).Round(time.Second))
	met = b.results.verdict(b.out)
	fmt.Fprintln(b.out)
	b.results.rest(b.out, absolute)
	fmt.Fprintln(b.out)
	weigh(b.out, b.held)
	return met, nil
}

// build builds a program of host/internal into dir.
func build(dir, program string) (string, error) { return buildWith("", dir, "internal/"+program) }

// buildWith builds a program of host, with a build tag or with none.
func buildWith(tag, dir, program string) (string, error) {
	path := filepath.Join(dir, strings.ReplaceAll(program+tag, "/", "-"))
	out, err := exec.Command("go", "build", "-tags", tag, "-o", path, "github.com/drawbridge-mcp/drawbridge/host/"+program).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return path, nil
}

// round measures every pair once; which side is first changes from round to round.
func (b *bench) round(n int) error {
	sides := []string{direct, through}
	if n%2 == 1 {
		sides = []string{through, direct}
	}
	all := sides
	if b.bare != "" {
		all = append(slices.Clone(sides), bare)
	}
	last := n == b.rounds-1
	for _, transport := range []string{stdio, overHTTP} {
		if !slices.Contains(b.only, transport) {
			continue
		}
		for _, side := range all {
			f, err := b.session(transport, side, last)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", transport, side, err)
			}
			if f[start], err = b.start(transport, side); err != nil {
				return fmt.Errorf("%s, %s, start: %w", transport, side, err)
			}
			b.results.add(transport, side, f)
		}
	}
	for _, w := range withouts {
		if !slices.Contains(b.only, w.part) {
			continue
		}
		if err := b.roundWithout(w, n); err != nil {
			return err
		}
	}
	if !slices.Contains(b.only, "list") {
		return nil
	}
	for _, side := range sides {
		took, err := b.list(side, last)
		if err != nil {
			return fmt.Errorf("list, %s: %w", side, err)
		}
		b.results.add(stdio, side, figures{list: took})
	}
	return b.roundOfFirstLists()
}

func (b *bench) roundOfFirstLists() error {
	cold, disk, err := b.firstLists()
	if err != nil {
		return fmt.Errorf("first list, %w", err)
	}
	b.results.add(fromDisk, direct, figures{firstList: cold})
	b.results.add(fromDisk, through, figures{firstList: disk})
	return nil
}

// session measures one open session, and with hold what its processes then hold.
func (b *bench) session(transport, side string, hold bool) (f figures, err error) {
	o, err := b.open(transport, side, b.providers(1, fakeTools...))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if f, err = measure(o.conn, o.names, b.plan); err != nil || side != through || !hold {
		return f, err
	}
	return f, b.hold(o.host, "over "+transport+", after the load")
}

// hold weighs a host and one of its plugins.
func (b *bench) hold(host *process, when string) error {
	pid := host.cmd.Process.Pid
	m, err := memoryOf(pid)
	if err != nil {
		return err
	}
	b.held = append(b.held, weighed{"host " + when, m})
	plugins, err := pluginsOf(pid)
	if err != nil {
		return err
	}
	if len(plugins) == 0 {
		return errors.New("the host has no plugin process")
	}
	if m, err = memoryOf(plugins[0]); err != nil {
		return err
	}
	b.held = append(b.held, weighed{"one plugin " + when, m})
	return nil
}

// start is the median time from starting a side's processes to the first answered call.
func (b *bench) start(transport, side string) (float64, error) {
	config := b.providers(1, fakeTools...)
	var took []float64
	for range b.plan.starts {
		began := time.Now()
		o, err := b.open(transport, side, config)
		if err != nil {
			return 0, err
		}
		_, err = o.conn.call(0, "tools/call", callTool(o.names.echo, echoText))
		took = append(took, time.Since(began).Seconds())
		if err := errors.Join(err, o.close()); err != nil {
			return 0, err
		}
	}
	return median(took), nil
}

const (
	listProviders = 20
	listTools     = 25
	// listBytes is the length of each description: a tool of a real server has about this much.
	listBytes = 700
)

// listArgs are those of a fake server with so many tools.
func listArgs(tools, bytes int) []string {
	return []string{"--tools", "none", "--life", "2h", "--tool-count", fmt.Sprint(tools), "--tool-bytes", fmt.Sprint(bytes)}
}

// list is the median time of a warm list. The other side is one server with as
// many tools and as many bytes, asked directly.
func (b *bench) list(side string, hold bool) (took float64, err error) {
	config := b.providers(listProviders, listArgs(listTools, listBytes)...)
	if side == direct {
		config = b.providers(1, listArgs(listProviders*listTools, listBytes+len("p00_"))...)
	}
	o, err := b.open(stdio, side, config)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	const least = listProviders * listTools * listBytes
	for deadline := time.Now().Add(answerLimit); ; { // until every provider is in it
		size, err := o.conn.call(0, "tools/list", "{}")
		if err != nil {
			return 0, err
		}
		if size >= least {
			break
		}
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("the list has %d bytes, want %d", size, least)
		}
	}
	all, err := latencies(o.conn, b.plan.lists, "tools/list", "{}")
	if err != nil {
		return 0, err
	}
	if side == through && hold {
		if err := b.hold(o.host, fmt.Sprintf("with %d providers", listProviders)); err != nil {
			return 0, err
		}
	}
	return quantile(all, 0.50), nil
}

// setup is what a side runs: fake servers with these arguments.
type setup struct {
	providers int
	args      []string
	// limits are lines of each provider's block of that name.
	limits string
}

func (b *bench) providers(n int, args ...string) setup { return setup{providers: n, args: args} }

// opened is an open session and what stands below it; host is nil on the direct side.
type opened struct {
	conn  conn
	names names
	host  *process
	// after ends what the conn does not.
	after func() error
}

func (o *opened) close() error {
	err := o.conn.close()
	if o.after != nil {
		err = errors.Join(err, o.after())
	}
	return err
}

// open starts the processes of a side and opens a session.
func (b *bench) open(transport, side string, s setup) (*opened, error) {
	switch side {
	case direct:
		return b.openServer(transport, b.fake, s.args...)
	case bare:
		return b.openBare(transport, s)
	}
	dir, err := os.MkdirTemp(b.dir, "host")
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "providers.hcl")
	if err := os.WriteFile(config, []byte(b.config(dir, s)), 0o600); err != nil {
		return nil, err
	}
	o := &opened{names: names{"p00_echo", "p00_big"}, after: func() error { return os.RemoveAll(dir) }}
	if transport == stdio {
		if o.host, err = startProcess(b.host, "serve", "--stdio", "--config", config, "--log-level", "error"); err != nil {
			return nil, err
		}
		if o.conn, err = openStdio(o.host); err != nil {
			return nil, fmt.Errorf("%w: %s", err, o.host.stderr)
		}
		return o, nil
	}
	host, url, token, err := startHost(b.host, config)
	if err != nil {
		return nil, err
	}
	o.host = host
	o.conn, err = openHTTP(url, token, func() error { return host.stop(syscall.SIGTERM) })
	return o, err
}

// openServer opens a session with a fake server, or with what stands for one: it
// serves on stdio, or with --http.
func (b *bench) openServer(transport, program string, args ...string) (*opened, error) {
	o := &opened{names: names{"echo", "big"}}
	if transport == stdio {
		p, err := startProcess(program, args...)
		if err != nil {
			return nil, err
		}
		o.conn, err = openStdio(p)
		return o, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := startServer(addr, program, append(slices.Clone(args), "--http", addr)...)
	if err != nil {
		return nil, err
	}
	o.conn, err = openHTTP("http://"+addr+"/mcp", "", func() error { return p.stop() })
	return o, err
}

// openBare opens a session with the bare gateway in front of a fake server on stdio.
func (b *bench) openBare(transport string, s setup) (*opened, error) {
	below := append([]string{b.fake}, s.args...)
	if transport == stdio {
		return b.openServer(stdio, b.bare, append([]string{stdio}, below...)...)
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := startServer(addr, b.bare, append([]string{addr}, below...)...)
	if err != nil {
		return nil, err
	}
	o := &opened{names: names{"echo", "big"}}
	o.conn, err = openHTTP("http://"+addr+"/mcp", "", func() error { return p.stop() })
	return o, err
}

// config declares the fake servers, with default limits but for inline_result:
// the large result is to pass, not to become an artifact.
func (b *bench) config(dir string, s setup) string {
	var text strings.Builder
	fmt.Fprintf(&text, "host {\n  state_dir = %q\n  http {\n    listen = \"127.0.0.1:0\"\n  }\n}\n", filepath.Join(dir, "state"))
	for i := range s.providers {
		fmt.Fprintf(&text, "provider \"p%02d\" {\n  plugin = \"stdio\"\n  config {\n    command = %q\n    args = [\"%s\"]\n  }\n  limits {\n    inline_result = \"64MiB\"\n%s  }\n}\n",
			i, b.fake, strings.Join(s.args, `", "`), s.limits)
	}
	return text.String()
}
