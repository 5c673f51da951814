package fakeserver

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// Roles of child processes.
const (
	roleBlock  = "block"  // stay for ever, ignore signals
	roleDaemon = "daemon" // start a block in a session of its own, and exit
	roleHydra  = "hydra"  // start oneself anew in a session of its own, and exit
)

// hydraLife is how long a hydra runs at most: nothing but this can be trusted
// to end it when the test that started it has lost track.
const hydraLife = 30 * time.Second

// spawnChild starts a process of the kind child (same process group), setsid
// (own session), daemon (double fork) or hydra (a new pid and session all the time).
func spawnChild(o options, kind string) error {
	args := []string{"--kind", kind, "--log", o.log, "--life", o.life.String()}
	if o.childPipes {
		args = append(args, "--child-pipes")
	}
	switch kind {
	case "child":
		return start(o, false, append(args, "--role", roleBlock))
	case "setsid":
		return start(o, true, append(args, "--role", roleBlock))
	case "daemon":
		return start(o, true, append(args, "--role", roleDaemon))
	case "hydra":
		until := strconv.FormatInt(time.Now().Add(hydraLife).UnixNano(), 10)
		return start(o, true, append(args, "--role", roleHydra, "--hydra-until", until))
	}
	return fmt.Errorf("unknown kind of child %q", kind)
}

func start(o options, session bool, args []string) error {
	cmd := exec.Command(self(), args...)
	if o.childPipes {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	}
	if session {
		newSession(cmd)
	}
	return cmd.Start()
}

func childMain(o options, log *logger) int {
	ignoreSignals()
	log.add(DirChild, o.kind)
	switch o.role {
	case roleDaemon:
		_ = start(o, true, childArgs(o, roleBlock))
		return 0
	case roleHydra:
		if time.Now().UnixNano() < o.hydraUntil {
			_ = start(o, true, childArgs(o, roleHydra))
		}
		return 0
	}
	for {
		time.Sleep(time.Hour)
	}
}

func childArgs(o options, role string) []string {
	args := []string{
		"--kind", o.kind, "--log", o.log, "--life", o.life.String(),
		"--role", role, "--hydra-until", strconv.FormatInt(o.hydraUntil, 10),
	}
	if o.childPipes {
		args = append(args, "--child-pipes")
	}
	return args
}
