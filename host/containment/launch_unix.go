//go:build unix

package containment

import (
	"os"
	"syscall"
)

// forkGuard starts the guard process of c. release is to be called once it has
// ended, or at once on an error.
func forkGuard(support Support, c Command, p *pipes) (guard *os.Process, release func(), err error) {
	self, err := executable()
	if err != nil {
		return nil, func() {}, err
	}
	options := guardOptions{
		tier: support.Tier, userns: support.userns, mark: c.mark(), path: c.Path, argv: c.Args,
	}
	files := []*os.File{p.end, p.stdout, p.stderr, p.report}
	if canRunOpenFiles && c.Image != nil {
		options.image = true
		files = append(files, c.Image)
	}
	release = onSpawnThread(func() {
		guard, err = os.StartProcess(self, options.args(), &os.ProcAttr{
			Env: c.environ(), Files: files, Sys: guardAttributes(support),
		})
	})
	return guard, release, err
}

// thaw continues a guard that somebody stopped, so that it can do its work. The
// guard's tree is signalled by the guard alone, the guard by us.
func thaw(guard *os.Process) { _ = guard.Signal(syscall.SIGCONT) }
