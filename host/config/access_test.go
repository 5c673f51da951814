package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/hcl/v2"
)

// TestAccessIsKept: what principals, projects and grants say is in the model, with
// the places that tell people which block decides.
func TestAccessIsKept(t *testing.T) {
	c, diags := loadText(`principal "laptop" {
  token_sha256 = "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"
  expires      = "2027-01-31T12:00:00+02:00"
}

provider "Web Browser" {
  plugin = "stdio"
  session {
    scope = "shared"
  }
}

project "site" {
  names    = "bare"
  name_max = 48
  grant {
    principals = ["laptop", "local"]
    provider   = "Web Browser"
    tools      = ["browser_*"]
    except     = ["browser_install"]
    methods    = ["vendor/*"]
  }
  grant {
    principals      = ["laptop"]
    provider        = "web-browser"
    resources       = ["file:///*"]
    prompts         = ["p"]
    server_requests = []
  }
}
`)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	var notices []string
	for _, n := range c.Notices {
		notices = append(notices, n.Summary)
	}
	// Of the empty server_requests there is nothing to tell.
	if diff := cmp.Diff([]string{
		"project.grant.methods is not in force yet", "project.grant.resources is not in force yet", "project.grant.prompts is not in force yet",
	}, notices, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Error(diff)
	}
	wantPrincipals := []*Principal{{
		Name: "laptop", TokenSHA256: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		Expires: time.Date(2027, 1, 31, 10, 0, 0, 0, time.UTC),
	}}
	wantProjects := []*Project{{Name: "site", Names: "bare", NameMax: 48, Grants: []*Grant{
		{
			Principals: []string{"laptop", "local"}, Provider: "web-browser", Tools: []string{"browser_*"}, Except: []string{"browser_install"},
			Methods: []string{"vendor/*"}, ServerRequests: []string{"elicitation", "sampling", "roots"},
		},
		{
			Principals: []string{"laptop"}, Provider: "web-browser", Resources: []string{"file:///*"}, Prompts: []string{"p"},
			Methods: []string{}, ServerRequests: []string{},
		},
	}}}
	places := cmpopts.IgnoreTypes(hcl.Range{})
	if diff := cmp.Diff(wantPrincipals, c.Principals, places, cmpopts.EquateApproxTime(0)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(wantProjects, c.Projects, places); diff != "" {
		t.Error(diff)
	}
	if line := c.Projects[0].Grants[1].Range.Start.Line; line != 23 {
		t.Errorf("the second grant stands at line %d", line)
	}
}

// TestListenerOffLoopback: it needs TLS and principals, both.
func TestListenerOffLoopback(t *testing.T) {
	const (
		listen    = "host {\n  http {\n    listen = \"0.0.0.0:7420\"\n  }\n}\n"
		listenTLS = "host {\n  http {\n    listen = \"0.0.0.0:7420\"\n    tls {\n      cert = \"c\"\n      key = \"k\"\n    }\n  }\n}\n"
		people    = "principal \"a\" {\n  token_sha256 = \"" + aDigest + "\"\n}\nproject \"p\" {\n}\n"
	)
	for name, c := range map[string]struct {
		text  string
		wrong bool
	}{
		"neither": {listen, true}, "TLS alone": {listenTLS, true}, "principals alone": {listen + people, true}, "both": {listenTLS + people, false},
	} {
		_, diags := loadText(c.text)
		found := false
		for _, d := range diags {
			found = found || d.Summary == "Listener off loopback" && d.Subject.Start.Line == 3
		}
		if found != c.wrong {
			t.Errorf("%s: refused is %v: %v", name, found, diags)
		}
	}
}
