package fakeserver

import (
	"flag"
	"io"
	"strings"
	"time"
)

// options are the flags of the program. They combine freely.
type options struct {
	log    string
	ledger string
	life   time.Duration

	// The process.
	role, kind     string
	wrapper        bool
	child          string
	childPipes     bool
	exitAtStart    int
	stderr         string
	exitAfter      time.Duration
	exitAfterCalls int
	bind           string
	ignoreEOF      bool
	ignoreTerm     bool
	eofDelay       time.Duration
	noRead         bool
	stderrFlood    int
	stderrBytes    int
	noise          bool
	crlf           bool
	startDelay     time.Duration
	dropAfter      time.Duration
	pingEvery      time.Duration
	hydraUntil     int64

	// The protocol.
	version       string
	capabilities  string
	instructions  string
	mute          bool
	initDelay     time.Duration
	initError     int
	silentProbe   bool
	discoverError int
	modern, dual  bool
	modernSlow    time.Duration
	supported     string
	listChanged   bool
	askRoots      bool

	// The lists.
	tools       string
	toolCount   int
	toolBytes   int
	toolsFile   string
	stamp       bool
	pages       int
	pagesFailAt int
	pagesLoop   bool
	listFailFor time.Duration
	listDelay   time.Duration
	listSilent  bool
	resources   string
	prompts     string

	// HTTP.
	http        string
	httpSSE     bool
	http401     bool
	http503     time.Duration
	httpHang    time.Duration
	httpOldOnly bool
	httpStrict  bool
}

func parse(args []string, errs io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("fakeserver", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&o.log, "log", "", "append what happens to `FILE` as JSON lines")
	f.StringVar(&o.ledger, "ledger", "", "the tool pay appends a line to `FILE`")
	f.DurationVar(&o.life, "life", 10*time.Minute, "end by itself after `D`, whatever happens")
	processFlags(f, &o)
	protocolFlags(f, &o)
	listFlags(f, &o)
	httpFlags(f, &o)
	return o, f.Parse(args)
}

func processFlags(f *flag.FlagSet, o *options) {
	f.StringVar(&o.role, "role", "", "internal: what a child process is for")
	f.StringVar(&o.kind, "kind", "", "internal: the child's name in the log")
	f.Int64Var(&o.hydraUntil, "hydra-until", 0, "internal: unix time at which the hydra stops")
	f.BoolVar(&o.wrapper, "wrapper", false, "be a launcher that starts the server as its child and passes no signal on")
	f.StringVar(&o.child, "child", "", "start these at once, comma separated: child, setsid, daemon, hydra; they ignore TERM, HUP and INT")
	f.BoolVar(&o.childPipes, "child-pipes", false, "children hold the server's stdout and stderr")
	f.IntVar(&o.exitAtStart, "exit-at-start", -1, "exit with `CODE` at the start, after --stderr and --exit-after")
	f.StringVar(&o.stderr, "stderr", "", "write `TEXT` and a newline to stderr at the start")
	f.DurationVar(&o.exitAfter, "exit-after", 0, "wait `D` before --exit-at-start; alone: exit 0 after D")
	f.IntVar(&o.exitAfterCalls, "exit-after-calls", 0, "exit 0 once `N` tool calls were answered")
	f.StringVar(&o.bind, "bind", "", "bind 127.0.0.1:`PORT` for the whole life; exit 98 if it is taken")
	f.BoolVar(&o.ignoreEOF, "ignore-eof", false, "stay when stdin ends")
	f.BoolVar(&o.ignoreTerm, "ignore-term", false, "ignore SIGTERM, SIGINT and SIGHUP")
	f.DurationVar(&o.eofDelay, "eof-delay", 0, "exit `D` after stdin ended")
	f.BoolVar(&o.noRead, "no-read", false, "never read stdin")
	f.IntVar(&o.stderrFlood, "stderr-flood", 0, "write `BYTES` without a newline to stderr before each answer")
	f.IntVar(&o.stderrBytes, "stderr-bytes", 0, "write `BYTES` in lines to stderr at the start")
	f.BoolVar(&o.noise, "noise", false, "print four lines of noise and an empty one before each frame")
	f.BoolVar(&o.crlf, "crlf", false, "end frames with CR LF")
	f.DurationVar(&o.startDelay, "start-delay", 0, "read nothing for `D`")
	f.DurationVar(&o.pingEvery, "ping-every", 0, "send a ping every `D` once initialized")
	f.DurationVar(&o.dropAfter, "drop-after", 0, "with --ping-every: end the session after `D` without a word of the client")
}

func protocolFlags(f *flag.FlagSet, o *options) {
	f.StringVar(&o.version, "version", "", "answer initialize with protocol version `V` whatever is asked")
	f.StringVar(&o.capabilities, "capabilities", "", "raw `JSON` of the capabilities")
	f.StringVar(&o.instructions, "instructions", "", "`TEXT` of instructions")
	f.BoolVar(&o.mute, "mute", false, "answer nothing, ever")
	f.DurationVar(&o.initDelay, "init-delay", 0, "answer initialize after `D`")
	f.IntVar(&o.initError, "init-error", 0, "answer initialize with error `CODE`")
	f.BoolVar(&o.silentProbe, "legacy-silent-discover", false, "at server/discover write 6 KB to stderr and never answer it")
	f.IntVar(&o.discoverError, "discover-error", -32601, "answer server/discover with error `CODE` (legacy)")
	f.BoolVar(&o.modern, "modern", false, "speak 2026-07-28 only")
	f.BoolVar(&o.dual, "dual", false, "speak 2026-07-28 and the older revisions; after a discover, initialize is refused")
	f.DurationVar(&o.modernSlow, "modern-slow", 0, "answer server/discover after `D`")
	f.StringVar(&o.supported, "supported", "", "supportedVersions of server/discover, comma separated")
	f.BoolVar(&o.listChanged, "list-changed", false, "declare tools.listChanged")
	f.BoolVar(&o.askRoots, "ask-roots", false, "send roots/list once initialized")
}

func listFlags(f *flag.FlagSet, o *options) {
	f.StringVar(&o.tools, "tools", "", "only these tools, comma separated; \"none\": none of the built-in ones")
	f.IntVar(&o.toolCount, "tool-count", 0, "list `N` more tools, filler_0001 … (they behave like echo)")
	f.IntVar(&o.toolBytes, "tool-bytes", 0, "`BYTES` of description for each of --tool-count")
	f.StringVar(&o.toolsFile, "tools-file", "", "`FILE` with a JSON array of definitions, listed verbatim; read anew at each list")
	f.BoolVar(&o.stamp, "stamp", false, "a tool of --tools-file answers with its definition as it is listed in that moment")
	f.IntVar(&o.pages, "pages", 0, "lists come in pages of `N`")
	f.IntVar(&o.pagesFailAt, "pages-fail-at", 0, "the `K`th page of each list is an error")
	f.BoolVar(&o.pagesLoop, "pages-endless", false, "the last page leads to the first again")
	f.DurationVar(&o.listFailFor, "list-fail-for", 0, "tools/list is an error for the first `D`")
	f.DurationVar(&o.listDelay, "list-delay", 0, "answer tools/list after `D`")
	f.BoolVar(&o.listSilent, "list-silent", false, "never answer tools/list")
	f.StringVar(&o.resources, "resources", "", "declare resources: a number of them, \"error\" (-32601) or \"silent\" (no answer)")
	f.StringVar(&o.prompts, "prompts", "", "declare prompts, as --resources")
}

func httpFlags(f *flag.FlagSet, o *options) {
	f.StringVar(&o.http, "http", "", "serve streamable HTTP on `ADDR` instead of stdio; the log's listen entry has the URL")
	f.BoolVar(&o.httpSSE, "http-sse", false, "answer every POST with an event stream")
	f.BoolVar(&o.http401, "http-401", false, "answer everything with 401")
	f.DurationVar(&o.http503, "http-503", 0, "answer everything with 503 for the first `D`")
	f.DurationVar(&o.httpHang, "http-hang", 0, "after --http-503: hold each request of the next `D` for D")
	f.BoolVar(&o.httpOldOnly, "http-version-400", false, "answer 400 with a list of versions to an MCP-Protocol-Version after 2025-06-18")
	f.BoolVar(&o.httpStrict, "http-strict", false, "answer 400 to a request after initialize that lacks session id or protocol version")
}

// has says whether the comma separated list names the item.
func has(list, item string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(one) == item {
			return true
		}
	}
	return false
}
