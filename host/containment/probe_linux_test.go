package containment

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// opinion is what the probe says about this process's system, and what the kernel
// says when it is asked for the same without a guard.
type opinion struct {
	Tier        Tier
	PIDNS, Text string // errors of ProbeTier(TierPIDNS) and Probe, "" for none
	NoProc      string
	Unsupported bool // PIDNS is an UnsupportedError
	Required    bool // Require(TierPIDNS) passes
	Refused     []Tier

	Kernel, Mount string // the kernel's errors, "" for none
}

// namespaces are the clone flags of a pidns guard, and its maps.
func namespaces(withUsers bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if withUsers {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return attr
}

// playOpinion tells the opinion of this process.
func playOpinion() int {
	var o opinion
	best, err := Probe()
	if o.Tier = best.Tier; err != nil {
		o.Text = err.Error()
	}
	o.Required = best.Require(TierPIDNS) == nil
	for _, r := range best.Refused {
		o.Refused = append(o.Refused, r.Tier)
	}
	pidns, err := ProbeTier(TierPIDNS)
	if err != nil {
		o.PIDNS, o.Unsupported = err.Error(), errors.Is(err, ErrUnsupported)
	}
	if pidns.NoProc != nil {
		o.NoProc = pidns.NoProc.Error()
	}
	for _, withUsers := range []bool{false, true} {
		c := &exec.Cmd{
			Path: "/proc/self/exe", Args: []string{rolePrefix + "mount"}, SysProcAttr: namespaces(withUsers),
		}
		out, err := c.Output()
		if o.Kernel, o.Mount = "", string(out); err != nil {
			o.Kernel = err.Error()
			continue
		}
		break
	}
	text, _ := json.Marshal(o)
	fmt.Println(string(text))
	return 0
}

// playMount mounts a /proc, and says why not.
func playMount() int {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", 0, "")
	}
	if err != nil {
		fmt.Print(err)
	}
	return 0
}

// ask runs a role that tells an opinion.
func ask(t *testing.T, p *place, role string, attr *syscall.SysProcAttr) opinion {
	t.Helper()
	c := &exec.Cmd{Path: p.binary, Args: []string{rolePrefix + role}, Dir: "/", SysProcAttr: attr, Stderr: os.Stderr}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var o opinion
	if err := json.Unmarshal(out, &o); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return o
}

// Where the kernel makes such namespaces the probe must not say that it does not,
// and the other way round: else tests would be skipped, or hosts weaker, for no
// reason.
func TestProbeAgreesWithTheKernel(t *testing.T) {
	for _, uid := range users() {
		t.Run(fmt.Sprintf("uid=%d", uid), func(t *testing.T) {
			p := newPlace(t, uid)
			attr := &syscall.SysProcAttr{}
			if uid != os.Getuid() {
				attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
			}
			o := ask(t, p, "opinion", attr)
			if (o.PIDNS == "") != (o.Kernel == "") {
				t.Errorf("the probe says %q, the kernel %q", o.PIDNS, o.Kernel)
			}
			if o.PIDNS == "" && (o.NoProc == "") != (o.Mount == "") {
				t.Errorf("of /proc the probe says %q, the kernel %q", o.NoProc, o.Mount)
			}
			if o.Text != "" || (o.Tier == TierPIDNS) != (o.PIDNS == "") {
				t.Errorf("the best tier is %q, error %q", o.Tier, o.Text)
			}
			if _, err := ProbeTier(TierSubreaper); err != nil {
				t.Errorf("every Linux has subreapers: %v", err)
			}
		})
	}
}

// inUserNamespace starts a role as root of a user namespace, which may then take
// something away from itself.
func inUserNamespace(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	needTier(t, TierPIDNS)
	attr := namespaces(true)
	attr.Cloneflags &^= syscall.CLONE_NEWPID
	attr.UidMappings[0].ContainerID, attr.GidMappings[0].ContainerID, attr.AmbientCaps = 0, 0, nil
	return attr
}

// Without namespaces there is the next tier, with the reason; and who requires more
// gets an error.
func TestWithoutNamespaces(t *testing.T) {
	o := ask(t, newPlace(t, os.Getuid()), "withoutnamespaces", inUserNamespace(t))
	if o.Kernel == "" {
		t.Skip("namespaces cannot be taken away here")
	}
	if o.Tier != TierSubreaper || !o.Unsupported || o.Required || len(o.Refused) != 1 || o.Refused[0] != TierPIDNS {
		t.Errorf("%+v", o)
	}
	if !strings.Contains(o.PIDNS, `"pidns" is not available`) || !strings.Contains(o.PIDNS, "no space left") {
		t.Errorf("the reason is %q", o.PIDNS)
	}
}

// playWithoutNamespaces takes PID and user namespaces from itself.
func playWithoutNamespaces() int {
	for _, kind := range []string{"pid", "user"} {
		_ = os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0)
	}
	return playOpinion()
}

// Where parts of /proc are hidden, as in many containers, a new one is refused.
// The namespace holds all the same, and is shown as what it is.
func TestWithoutProc(t *testing.T) {
	o := ask(t, newPlace(t, os.Getuid()), "hideproc", inUserNamespace(t))
	if o.Mount == "" {
		t.Skip("/proc cannot be taken away here")
	}
	if o.Tier != TierPIDNS || o.PIDNS != "" || o.NoProc == "" || !o.Required {
		t.Errorf("%+v", o)
	}
}

// playHideProc hides a part of /proc from a namespace below this one.
func playHideProc() int {
	if err := unix.Mount("/dev/null", "/proc/version", "", unix.MS_BIND, ""); err != nil {
		panic(err)
	}
	attr := namespaces(true)
	attr.Cloneflags &^= syscall.CLONE_NEWPID
	attr.AmbientCaps = nil
	c := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{rolePrefix + "withoutproc"}, SysProcAttr: attr,
		Stdout: os.Stdout, Stderr: os.Stderr,
	}
	if err := c.Run(); err != nil {
		panic(err)
	}
	return 0
}

// playWithoutProc tells its opinion once a tree has proven that the tier holds.
func playWithoutProc() int {
	g, err := Open(Options{Use: TierPIDNS})
	if err != nil {
		panic(err)
	}
	if g.Tier() != "pidns without proc" || g.Support().Why() == "" {
		panic(g.Tier())
	}
	tree, err := g.Spawn(Command{
		Path: "/proc/self/exe", Args: []string{rolePrefix + "family"}, Env: []string{"DRAWBRIDGE_INSTANCE=" + deadID + "/x/1"},
	})
	if err != nil {
		panic(err)
	}
	tree.Kill()
	<-tree.Done()
	if left := withMark(deadID); len(left) > 0 {
		panic(fmt.Sprint("left: ", left))
	}
	return playOpinion()
}

func TestRequire(t *testing.T) {
	why := &UnsupportedError{Tier: TierPIDNS, Reason: syscall.ENOSPC}
	for _, test := range []struct {
		has  Tier
		want Tier
		ok   bool
	}{
		{TierPIDNS, "", true},
		{TierPGroup, "", true},
		{TierPIDNS, TierPIDNS, true},
		{TierPIDNS, TierSubreaper, true},
		{TierSubreaper, TierSubreaper, true},
		{TierSubreaper, TierPIDNS, false},
		{TierPGroup, TierSubreaper, false},
		{TierPIDNS, "cgroup", false},
	} {
		err := Support{Tier: test.has, Refused: []*UnsupportedError{why}}.Require(test.want)
		var unsupported *UnsupportedError
		if (err == nil) != test.ok || err != nil && !errors.As(err, &unsupported) {
			t.Errorf("%s for %q: %v", test.has, test.want, err)
		}
		if test.want == TierPIDNS && err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("no reason in %v", err)
		}
	}
}
