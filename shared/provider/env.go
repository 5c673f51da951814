package provider

import (
	"runtime"
	"slices"
	"strings"
)

// The base set: what a program of a user's needs to find its way, and nothing
// that tells it a secret.
var (
	baseUnix = []string{"PATH", "HOME", "LANG", "TMPDIR", "TZ", "USER", "SHELL"}
	// Windows programs do not start without some of these.
	baseWindows = []string{
		"PATH", "PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "TEMP", "TMP", "TZ", "LANG",
		"USERNAME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
		"PROGRAMFILES", "PROGRAMFILES(X86)", "COMMONPROGRAMFILES", "PROCESSOR_ARCHITECTURE", "NUMBER_OF_PROCESSORS",
	}
)

// BaseEnv returns what a server and a plugin get of their parent's environment,
// as KEY=value in the order it came: PATH, HOME, LANG, LC_*, TMPDIR, TZ, USER
// and SHELL, on Windows their equals. A name that occurs twice keeps its last
// value. Everything else has to be declared.
func BaseEnv(environ []string) []string { return baseEnv(environ, runtime.GOOS == "windows") }

func baseEnv(environ []string, windows bool) []string {
	var out []string
	at := map[string]int{}
	for _, kv := range environ {
		name, _, ok := strings.Cut(kv, "=")
		if windows {
			name = strings.ToUpper(name)
		}
		if !ok || !inBase(name, windows) {
			continue
		}
		if i, twice := at[name]; twice {
			out[i] = kv
			continue
		}
		at[name] = len(out)
		out = append(out, kv)
	}
	return out
}

func inBase(name string, windows bool) bool {
	if windows {
		return slices.Contains(baseWindows, name)
	}
	return slices.Contains(baseUnix, name) || strings.HasPrefix(name, "LC_")
}
