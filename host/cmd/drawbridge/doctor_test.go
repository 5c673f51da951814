package main

import (
	"context"
	"net"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/doctor"
)

func TestDoctorFindsWhoListens(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	look := func(hosts ...doctor.Host) doctor.Listen {
		x := &examination{cfg: new(config.Config)}
		x.cfg.Host.HTTP.Listen = address
		x.facts.Hosts = hosts
		x.listen(context.Background())
		return *x.facts.Listen
	}
	if got, want := look(), (doctor.Listen{Address: address, Busy: true}); got != want {
		t.Errorf("a stranger listens: %+v, want %+v", got, want)
	}
	ours := doctor.Host{ID: "a", URL: "http://" + address + "/mcp"}
	if got := look(doctor.Host{ID: "b"}, ours); got.Holder != "a" {
		t.Errorf("a host of ours listens: %+v", got)
	}
	_ = taken.Close()
	if got, want := look(), (doctor.Listen{Address: address}); got != want {
		t.Errorf("nobody listens: %+v, want %+v", got, want)
	}
}

func TestVersionOfACommandThatIsNotThere(t *testing.T) {
	if got := (nodeVersions{}).of(context.Background(), t.TempDir(), "node"); got != "" {
		t.Errorf("it is %q", got)
	}
}
