package redact

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
)

func TestTextRemovesEveryForm(t *testing.T) {
	const secret = `s3cr"et/<va lue>+1"`
	var r Redactor
	r.Add("", secret, secret+"-longer")
	for _, form := range []string{
		secret, `s3cr\"et/<va lue>+1\"`, `s3cr\"et/\u003cva lue\u003e+1\"`, url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), secret + "-longer",
	} {
		got := r.Text("<" + form + ">")
		if got != "<"+Mark+">" {
			t.Errorf("Text(%q) = %q", form, got)
		}
	}
}

func TestTextWithoutSecretsIsUnchanged(t *testing.T) {
	var r Redactor
	if got := r.Text("plain"); got != "plain" {
		t.Errorf("an empty redactor changed the text to %q", got)
	}
	r.Add("")
	if got := r.Text("plain"); got != "plain" || strings.Contains(got, Mark) {
		t.Errorf("the empty value changed the text to %q", got)
	}
}

func TestEachLineOfASecretIsOne(t *testing.T) {
	var r Redactor
	r.Add("-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7\r\nend\n")
	if got := r.Text("bad key: MIIEpAIBAAKCAQEA7 in the end"); got != "bad key: "+Mark+" in the end" {
		t.Errorf("one line of a secret became %q", got)
	}
}
