package containment

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// forkGuard starts the guard process of c.
func forkGuard(support Support, c Command, p *pipes) (guard *os.Process, release func(), err error) {
	release = func() {}
	self, err := executable()
	if err != nil {
		return nil, release, err
	}
	handle := windows.Handle(p.report.Fd())
	if err := windows.SetHandleInformation(handle, windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
		return nil, release, fmt.Errorf("status pipe: %w", err)
	}
	options := guardOptions{tier: support.Tier, status: uint(handle), mark: c.mark(), path: c.Path, argv: c.Args}
	guard, err = os.StartProcess(self, options.args(), &os.ProcAttr{
		Env: c.environ(), Files: []*os.File{p.end, p.stdout, p.stderr},
		Sys: &syscall.SysProcAttr{
			CreationFlags:              syscall.CREATE_NEW_PROCESS_GROUP,
			AdditionalInheritedHandles: []syscall.Handle{syscall.Handle(handle)},
		},
	})
	return guard, release, err
}

func executable() (string, error) { return os.Executable() }

func tiers() []Tier { return []Tier{TierJob} }

func variants(tier Tier) []Support {
	if tier != TierJob {
		return nil
	}
	return []Support{{Tier: tier}}
}

func prepareHost(Tier) error { return nil }

func collect(guard *os.Process) { _, _ = guard.Wait() }

// rescue has nothing to do: the system ends the members of a job whose last handle
// is gone.
func rescue(Tier, string, int) {}

func pluginPID(_, plugin int) int { return plugin }

// thaw has no counterpart: processes are not stopped by signals here.
func thaw(*os.Process) {}
