//go:build linux

package killtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	contract "github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// strangerArg as the first argument makes this test binary a stranger, who knocks at
// every socket below the folder that the second names.
const strangerArg = "stranger"

// services are what a plugin has, its own and go-plugin's.
var services = []string{
	"/drawbridge.provider.v1.Provider/Describe", "/drawbridge.provider.v1.Provider/Validate",
	"/drawbridge.provider.v1.Provider/Start", "/drawbridge.provider.v1.Provider/Exchange",
	"/drawbridge.provider.v1.Provider/Stop", "/grpc.health.v1.Health/Check",
	"/plugin.GRPCController/Shutdown", "/plugin.GRPCStdio/StreamStdio", "/plugin.GRPCBroker/StartStream",
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
}

// commands are what a host's command socket has, and something that it has not.
var commands = []string{"GET /v1/status", "GET /v1/tools", "POST /v1/call", "POST /v1/restart/p", "GET /v1/logs/p", "GET /"}

// knock is one attempt and what came of it.
type knock struct{ Socket, What, Answer string }

// strangerRole plays the stranger, if this is one, and says whether it is.
func strangerRole() bool {
	if len(os.Args) != 3 || os.Args[1] != strangerArg {
		return false
	}
	var all []knock
	_ = filepath.WalkDir(os.Args[2], func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			all = append(all, knock{path, "look", err.Error()})
		case d.Type()&fs.ModeSocket == 0:
		case strings.HasSuffix(path, ".sock"):
			for _, command := range commands {
				all = append(all, knock{path, command, ask(path, command)})
			}
		default:
			for _, service := range services {
				for name, token := range map[string]string{"no": "", "a made up": strings.Repeat("0", 64)} {
					all = append(all, knock{path, service + " with " + name + " token", dial(path, service, token)})
				}
			}
		}
		return nil
	})
	_ = json.NewEncoder(os.Stdout).Encode(all)
	return true
}

// dial calls a plugin, and returns the code of its answer.
func dial(socket, service, token string) string {
	cc, err := grpc.NewClient("passthrough:///plugin", append(contract.DialOptions(token),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}))...)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = cc.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience/4)
	defer cancel()
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, service)
	if err == nil {
		_ = stream.SendMsg(&emptypb.Empty{})
		_ = stream.CloseSend()
		err = stream.RecvMsg(&emptypb.Empty{})
	}
	return status.Code(err).String()
}

// ask asks a host, and returns the status of its answer.
func ask(socket, command string) string {
	client := &http.Client{Timeout: patience / 4, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	method, path, _ := strings.Cut(command, " ")
	req, err := http.NewRequest(method, "http://host"+path, strings.NewReader(`{"provider":"p"}`))
	if err != nil {
		return err.Error()
	}
	res, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	_ = res.Body.Close()
	return res.Status
}

// A stranger of the same user, a server of another provider of the same host, is
// refused by every plugin, whatever it calls and with whatever token, and by the
// host's command socket: as it is, and without its mark.
func TestStrangerIsRefused(t *testing.T) {
	t.Parallel()
	for _, uid := range users() {
		for _, tier := range append(slices.Clone(tiers), "pgroup") {
			t.Run(fmt.Sprintf("%s,uid=%d", tier, uid), func(t *testing.T) {
				t.Parallel()
				beStranger(t, newPlace(t, uid), tier)
			})
		}
	}
}

func beStranger(t *testing.T, p place, tier string) {
	log := p.path("p.log")
	config := p.config(t, "c.hcl", provider{"p", []string{"--life", "5m", "--log", log}, restarts}, provider{"q", []string{"--life", "5m"}, restarts})
	h := p.serve(t, config, "--containment-tier", tier).ready(t, p)
	h.answers(t, "p_inc")
	h.answers(t, "q_echo")
	before := marked(h.id + "/")
	dir := p.path("run/drawbridge")
	if got := ask(filepath.Join(dir, h.id+".sock"), commands[0]); got != "200 OK" {
		t.Errorf("the user's own program is told %q", got)
	}
	for _, bare := range []bool{false, true} {
		var all []knock
		text := h.runs(t, bare, filepath.Join(bin, "killtest"), strangerArg, dir)
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		plugins, hosts := 0, 0
		for _, k := range all {
			switch want := "Unauthenticated"; {
			case strings.HasSuffix(k.Socket, ".sock"):
				hosts++
				if k.Answer != "403 Forbidden" {
					t.Errorf("bare %v: %+v", bare, k)
				}
			default:
				plugins++
				if k.Answer != want {
					t.Errorf("bare %v: %+v", bare, k)
				}
			}
		}
		if plugins != 2*2*len(services) || hosts != len(commands) {
			t.Errorf("bare %v: %d calls of plugins and %d commands: %v", bare, plugins, hosts, all)
		}
		for _, args := range [][]string{{"status"}, {"restart", "p"}, {"call", "p", "inc"}} {
			args = append(append([]string{drawbridge()}, args...), "--host", h.id)
			env := "XDG_RUNTIME_DIR=" + p.path("run")
			if text := h.runs(t, bare, append([]string{"/usr/bin/env", env}, args...)...); !strings.Contains(text, "the host takes no commands from this process") {
				t.Errorf("bare %v: %v: %s", bare, args, text)
			}
		}
	}
	if after := marked(h.id + "/"); len(before) != 6 || !slices.Equal(alive(before), alive(after)) {
		t.Errorf("there were %v, there are %v", before, after)
	}
	if got := textOf(h.await(t, "get", h.call("p_get", `{}`))); got != "1" {
		t.Errorf("the one who was not to be reached has counted to %q", got)
	}
	if logged, _ := os.ReadFile(log); strings.Count(string(logged), "tools/call") != 2 {
		t.Errorf("it has received:\n%s", logged)
	}
	h.stop(t)
}

// alive are processes in an order of their own.
func alive(all []entry) (found []string) {
	for _, e := range all {
		found = append(found, fmt.Sprint(e, e.start))
	}
	slices.Sort(found)
	return found
}

// runs runs a program below the server of q, and returns what it printed.
func (h *host) runs(t *testing.T, bare bool, argv ...string) string {
	t.Helper()
	args, err := json.Marshal(map[string]any{"argv": argv, "bare": bare})
	if err != nil {
		t.Fatal(err)
	}
	r := h.await(t, "run", h.call("q_run", string(args)))
	if r.Error != nil {
		t.Fatalf("run: %+v", *r.Error)
	}
	return textOf(r)
}

// textOf is the text of a tool's result.
func textOf(r reply) string {
	var result struct {
		Content []struct{ Text string }
	}
	if json.Unmarshal(r.Result, &result) != nil || len(result.Content) == 0 {
		return ""
	}
	return result.Content[0].Text
}
