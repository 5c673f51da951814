//go:build unix

package crossing

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
	"github.com/drawbridge-mcp/drawbridge/host/internal/hosttest"
)

// never is a call that does not end by itself while a test runs.
const never = `{"ms":600000}`

// stubborn is a server that only SIGKILL ends.
func stubborn(name, grace string) provider {
	return provider{name: name, args: []string{"--ignore-eof", "--ignore-term"}, body: limits(`stop_grace = "` + grace + `"`)}
}

// cpuOf is the processor time of a running process.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks int
	for _, f := range fields[11:13] { // utime and stime, 14 and 15 with what was cut off
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // 100 ticks a second on every Linux
}

// ends waits for the end of a client's host, which is asked for and so code 0.
func ends(t testing.TB, c client) {
	t.Helper()
	if err := c.host().Wait(t); err != nil {
		t.Errorf("the host ended with %v", err)
	}
	if h, ok := c.(overHTTP); ok {
		h.Abandon() // there is nobody to take its DELETE
	}
}

// TestC012_EndOfInputEndsEverything: the client's end, with a call in flight and
// without a signal, ends the host soon, by itself, with code 0; servers that do not
// care are ended too. The place looks for what is left.
func TestC012_EndOfInputEndsEverything(t *testing.T) {
	t.Parallel()
	p := hosttest.NewPlace(t)
	c := setting{}.stdio(t, p, config(t, p, "", provider{name: "polite"}, stubborn("stubborn", "2s")))
	hosttest.CallTool(t, c, "stubborn_echo", "{}")
	c.begin(t, `"never"`, called(`"never"`, "polite_slow", never))
	waitCalls(t, p, "polite", 1)
	before, began := cpuOf(t, c.PID()), time.Now()
	c.Close(t) // which fails the test if the host ends with another code
	if took := time.Since(began); took > 2*(2*time.Second+time.Second)+atOnce {
		t.Errorf("the host took %v to end", took)
	}
	if used := c.CPU() - before; used > time.Second && !hosttest.Race {
		t.Errorf("the host used %v of the processor after the end of its input", used)
	}
	log := logged(t, p, "polite")
	if len(fakeserver.Dir(log, fakeserver.DirEOF)) == 0 && len(fakeserver.Method(log, "notifications/cancelled")) == 0 {
		t.Error("the server with a call in flight heard neither of its cancel nor the end of its input")
	}
}

// TestStopLetsCallsEnd: SIGTERM ends the host once the calls in flight are answered;
// new ones are not taken.
func TestStopLetsCallsEnd(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, `stop_budget = "5m"`, provider{name: "fake", body: limits(`stop_grace = "2m"`)}))
		var waits []func() hosttest.Reply
		for i := range 10 {
			id := fmt.Sprint(1000 + i)
			waits = append(waits, c.begin(t, id, called(id, "fake_slow", `{"ms":4000}`)))
		}
		waitCalls(t, p, "fake", len(waits))
		c.host().Signal(t, syscall.SIGTERM)
		for _, wait := range waits {
			if got := textOf(t, wait()); got != "slept" {
				t.Errorf("a call in flight: %q", got)
			}
		}
		ends(t, c)
		log := logged(t, p, "fake")
		if len(fakeserver.Method(log, "notifications/cancelled")) != 0 || len(fakeserver.Dir(log, fakeserver.DirSignal)) != 0 {
			t.Errorf("a server that ends with its input was told more: %+v", log)
		}
	})
}

// TestStopEndsWhatDoesNot: a call that does not end within stop_grace is ended with
// its server, and the host ends with code 0.
func TestStopEndsWhatDoesNot(t *testing.T) {
	waiting(t, func(t *testing.T, p hosttest.Place, open func(string) client) {
		c := open(config(t, p, "", stubborn("fake", "1s")))
		wait := c.begin(t, `"never"`, called(`"never"`, "fake_slow", never))
		waitCalls(t, p, "fake", 1)
		began := time.Now()
		c.host().Signal(t, syscall.SIGTERM)
		ends(t, c)
		if took := time.Since(began); took > atOnce {
			t.Errorf("the host took %v to end", took)
		}
		if e := errorOf(t, wait()); e.Data.Outcome != "unknown" || !e.Data.Dispatched {
			t.Errorf("the call in flight: %+v", e)
		}
	})
}

// TestC114_CtrlC: a terminal's signal to the whole foreground group reaches the host
// alone. The call in flight goes on, until a second one ends every wait. (The
// case's pty is a process group here: what a terminal does is to signal one.)
func TestC114_CtrlC(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"stdio": {"serve", "--stdio"}, "http": {"serve"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := hosttest.NewPlace(t)
			path := config(t, p, `stop_budget = "10m"`, provider{name: "polite"}, stubborn("stubborn", "5m"))
			cmd := setting{}.command(t, p, append(args, "--config", path)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			var c client
			if name == "stdio" {
				s := hosttest.StartStdio(t, cmd)
				c = overStdio{s, hosttest.Hello(t, s, hosttest.Initialize)}
			} else {
				c = dial(t, hosttest.StartHTTP(t, cmd))
			}
			hosttest.CallTool(t, c, "stubborn_echo", "{}")
			c.begin(t, `"lost"`, called(`"lost"`, "polite_slow", never))
			short := c.begin(t, `"short"`, called(`"short"`, "polite_slow", `{"ms":3000}`))
			waitCalls(t, p, "polite", 2)
			group := -c.host().PID()
			if err := syscall.Kill(group, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if got := textOf(t, short()); got != "slept" {
				t.Errorf("a call in flight that fits stop_grace: %q", got)
			}
			if !c.host().Running() {
				t.Fatal("the host ended with a call in flight")
			}
			// That call was answered after the first signal, which has thus been taken:
			// the next is not the same one.
			began := time.Now()
			if err := syscall.Kill(group, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			ends(t, c)
			if took := time.Since(began); took > atOnce {
				t.Errorf("the host took %v to end after the second signal", took)
			}
			for _, one := range []string{"polite", "stubborn"} {
				for _, e := range fakeserver.Dir(logged(t, p, one), fakeserver.DirSignal) {
					if e.Raw == os.Interrupt.String() {
						t.Errorf("the signal reached the server %s", one)
					}
				}
			}
		})
	}
}
