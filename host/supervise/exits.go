package supervise

import (
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/containment"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

const (
	// keptExits is how many ends of a provider's processes a Unit remembers.
	keptExits = 16
	// exitLines and exitBytes bound what an Exit keeps of standard error: what a
	// person reads to find the cause. All of it is in the log file.
	exitLines = 20
	exitBytes = 4 << 10
)

// Exit is how one instance of a provider ended.
type Exit struct {
	// Instance is its mark.
	Instance string
	// Time is when all of it was gone.
	Time time.Time
	// Code is -1 where Signal is set. They are the server's where the plugin could
	// say how its server ended, and else the plugin's.
	Code, Signal int
	// Asked says that it ran until a Stop or a Restart ended it.
	Asked bool
	// Stderr holds the last lines of its standard error, secrets removed.
	Stderr string
}

// exitOf is the end of an instance, now.
func exitOf(mark string, st provider.ExitStatus, stderr string) *Exit {
	if st.StderrTail != "" {
		stderr = st.StderrTail
	}
	return &Exit{Instance: mark, Time: time.Now(), Code: st.Code, Signal: st.Signal, Stderr: lastLines(stderr)}
}

// exit is the end of a process that is Done.
func (p *Process) exit() *Exit { return exitOf(p.mark, p.ended(), p.StderrTail()) }

// gone is the end of a process that never was of use.
func (p *Process) gone(e containment.Exit) *Exit {
	return exitOf(p.mark, exitStatus(e, ""), p.StderrTail())
}

// ended says how the server ended, as far as the plugin said so, and else how the
// plugin did. The process is Done.
func (p *Process) ended() provider.ExitStatus {
	p.mu.Lock()
	server := p.server
	p.mu.Unlock()
	if server != nil {
		return *server
	}
	st, _ := p.Exit()
	return st
}

// lastLines is the end of a text: whole lines, unless the last one alone is too long.
func lastLines(text string) string {
	text = strings.ToValidUTF8(strings.TrimRight(text, "\r\n"), "\uFFFD")
	if len(text) > exitBytes {
		text = strings.ToValidUTF8(text[len(text)-exitBytes:], "")
		if _, rest, more := strings.Cut(text, "\n"); more {
			text = rest
		}
	}
	lines := strings.Split(text, "\n")
	return strings.Join(lines[max(0, len(lines)-exitLines):], "\n")
}

// remember returns the exits with one more, the oldest gone where there are too
// many. The slices that were given out before stay as they are.
func remember(exits []Exit, one Exit) []Exit {
	return append(slices.Clone(exits[max(0, len(exits)+1-keptExits):]), one)
}
