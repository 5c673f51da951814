package stdio

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// A server that others run is warned of by the name of what lets them, where that
// stands; and of flags, those that are there are not asked for.
func TestServersOutsideOfTheCleanUp(t *testing.T) {
	const command = -1
	for line, want := range map[string]struct {
		name     string
		at       int // the argument, or command
		says     []string
		saysNone []string
	}{
		"docker run mcp/server":                                {"docker run", command, []string{"--rm", "--init", "-i", "may run on"}, []string{"no -t", "mcp/server"}},
		"docker run -it --rm --init mcp/server":                {"docker run", command, []string{"no -t"}, []string{"--rm", "--init", "-i,"}},
		"docker run --rm=false -d -i --init x":                 {"docker run", command, []string{"--rm", "no -d"}, []string{"--init", "-i,"}},
		"docker run --rm -i --init x":                          {"docker run", command, []string{"belongs to the engine"}, []string{"What helps"}},
		"/usr/bin/podman --log-level error run -i x":           {"podman run", command, []string{"--rm"}, nil},
		`C:\Docker\Docker.exe run x`:                           {"docker run", command, nil, nil},
		"nerdctl container run x":                              {"nerdctl run", command, nil, nil},
		"docker exec -i box server":                            {"docker exec", command, []string{"ends at the end of its input"}, []string{"--rm"}},
		"docker --context far compose -f c.yml run s":          {"docker compose run", command, []string{"--rm", "-T", "--no-deps"}, []string{"--init"}},
		"docker compose up":                                    {"docker compose up", command, []string{"services that it starts along stay"}, nil},
		"docker-compose run --rm -T --no-deps s":               {"docker-compose run", command, nil, []string{"What helps"}},
		"kubectl run --image x p":                              {"kubectl run", command, []string{"-i", "--rm", "--restart=Never", "node of the cluster"}, nil},
		"kubectl -n tools exec -i p -- server":                 {"kubectl exec", command, nil, []string{"What helps"}},
		"systemd-run --user --pipe server":                     {"systemd-run", command, []string{"the program itself as command"}, nil},
		"ssh -T far server":                                    {"ssh", command, []string{"another machine"}, []string{"-T"}},
		"wsl.exe server":                                       {"wsl", command, nil, nil},
		"env A=docker sudo -u me timeout -k 5 60 docker run x": {"docker run", 8, []string{"--rm"}, nil},
		"distrobox enter box -- server":                        {"distrobox enter", command, nil, nil},
	} {
		words := strings.Fields(line)
		found := outsideOf(t, words[0], words[1:]...)
		if len(found) != 1 || found[0].Severity != provider.Warning || found[0].Summary != `"`+want.name+`" is outside of the clean-up` {
			t.Errorf("%s: %+v", line, found)
			continue
		}
		at := provider.Path{provider.AttributeStep("command")}
		if want.at != command {
			at = provider.Path{provider.AttributeStep("args"), provider.IndexStep(want.at)}
		}
		if !slices.Equal(found[0].Path, at) {
			t.Errorf("%s: at %v, want %v", line, found[0].Path, at)
		}
		for _, part := range want.says {
			if !strings.Contains(found[0].Detail, part) {
				t.Errorf("%s: it does not say %q: %s", line, part, found[0].Detail)
			}
		}
		for _, part := range want.saysNone {
			if strings.Contains(found[0].Detail, part) {
				t.Errorf("%s: it says %q: %s", line, part, found[0].Detail)
			}
		}
	}
	// A shell's text is one argument.
	for _, args := range [][]string{
		{"-c", "cd /tmp && exec docker run -i --rm --init x"}, {"-lc", "docker run -i --rm --init x"}, {"/C", "docker run -i --rm --init x"},
	} {
		found := outsideOf(t, "bash", args...)
		if len(found) != 1 || !strings.Contains(found[0].Summary, `"docker run"`) || strings.Contains(found[0].Detail, "What helps") ||
			!slices.Equal(found[0].Path, provider.Path{provider.AttributeStep("args"), provider.IndexStep(1)}) {
			t.Errorf("bash %q: %+v", args, found)
		}
	}
}

func TestServersBelowTheHostAreNotWarnedOf(t *testing.T) {
	for _, line := range []string{
		"npx -y @modelcontextprotocol/server-docker run", "python3 -m docker run", "docker version", "docker mcp serve", "kubectl mcp",
		"systemd-run --user --scope server", "env A=1", "timeout 60 server docker run", "sh docker.sh run", "sh start.sh ssh", "nice", "uvx ssh",
	} {
		words := strings.Fields(line)
		if found := outsideOf(t, words[0], words[1:]...); len(found) != 0 {
			t.Errorf("%s: %+v", line, found)
		}
	}
	if found := outsideOf(t, "sh", "-c", "exec server --with docker"); len(found) != 0 {
		t.Errorf("sh: %+v", found)
	}
}

// outsideOf is what Validate says of a command.
func outsideOf(t *testing.T, command string, args ...string) provider.Diagnostics {
	t.Helper()
	config, err := json.Marshal(map[string]any{"command": command, "args": args})
	if err != nil {
		t.Fatal(err)
	}
	found, err := New().Validate(t.Context(), provider.Config{JSON: config})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
