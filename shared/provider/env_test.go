package provider

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBaseEnv(t *testing.T) {
	in := []string{
		"SECRET=1", "PATH=/bin", "HOME=/h", "LANG=C", "LC_ALL=C", "LC_TIME=", "TMPDIR=/t", "TZ=UTC", "USER=u", "SHELL=/bin/sh",
		"HTTP_PROXY=A", "PATHEXT=.x", "PATH_INFO=x", "LCALL=x", CookieKey + "=" + CookieValue, "PLUGIN_MIN_PORT=1",
		MarkEnv + "=h/s/1", "PATH=/usr/bin", "broken", "path=lower",
	}
	want := []string{
		"PATH=/usr/bin", "HOME=/h", "LANG=C", "LC_ALL=C", "LC_TIME=", "TMPDIR=/t", "TZ=UTC", "USER=u", "SHELL=/bin/sh",
	}
	if diff := cmp.Diff(want, baseEnv(in, false)); diff != "" {
		t.Error(diff)
	}
	windows := []string{"Path=C:\\x", "SystemRoot=C:\\W", "SECRET=1", "TEMP=t", "ProgramFiles(x86)=p", "HOME=/h"}
	want = []string{"Path=C:\\x", "SystemRoot=C:\\W", "TEMP=t", "ProgramFiles(x86)=p"}
	if diff := cmp.Diff(want, baseEnv(windows, true)); diff != "" {
		t.Error(diff)
	}
}
