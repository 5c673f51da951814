package importer

import (
	"runtime"
)

// Options say how a file is to be read.
type Options struct {
	// Client is whose file it is; "" to tell it from the file.
	Client Client
	// Self are the names and paths of this program, lower case: an entry that starts
	// it would be a loop. Listen is where its host answers over HTTP, and TokenEnv the
	// variable in which clients find its token.
	Self             []string
	Listen, TokenEnv string
	// GOOS is the system that the servers are to run on; "" for this one.
	GOOS string
}

func (o Options) goos() string {
	if o.GOOS == "" {
		return runtime.GOOS
	}
	return o.GOOS
}

// Import is what a client's file declares.
type Import struct {
	File   string
	Client Client
	// Entries are in the order of the file; each has a Server or an Error.
	Entries []*Entry
	// Inputs are the values that the client asked for, by id.
	Inputs map[string]Input
	// Notes are what the user is to know, in the order in which it was found.
	Notes []Note
}

// Note is something to know about a place of the file. It holds no value of it.
type Note struct {
	Path string `json:"path"`
	Text string `json:"text"`
	// Info says that nothing was lost or changed.
	Info bool `json:"info,omitempty"`
}

// Input is a value that a client asks its user for.
type Input struct {
	Secret bool
	// Default and Options are those that the file gives; Default is nil where there
	// is none.
	Default *string
	Options []string
	// Unsupported says why the value cannot be asked for; "" where it can.
	Unsupported string
}

// Entry is one server of a client's file.
type Entry struct {
	// Source is its name in the file; a second one with the same gets another.
	Source string
	// Path is where it stands, Line its line; 0 where that is not known.
	Path string
	Line int
	// Name is that of its provider: its label and its slug.
	Name string
	// Server is what it declares; nil with an Error, which says why there is none.
	Server *Server
	Error  string
	// Off are the reasons for which it is imported disabled.
	Off []string
	// Workspace is the folder that the file says the entry belongs to.
	Workspace string
	// Description is what the file says about it.
	Description string
}

// Transport is how a server is reached.
type Transport string

// The transports.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http"
	SSE   Transport = "sse"
)

// Server is what an entry declares, in a form that is no client's.
type Server struct {
	Transport Transport
	// Fallback is what to try second; "" for nothing.
	Fallback Transport
	Command  Text
	Args     []Text
	// Env and Headers are in the order of the file.
	Env, Headers []Variable
	UnsetEnv     []string
	EnvFile, Cwd Text
	URL          Text
	// StartTimeout and CallTimeout are durations; "" where the file has none.
	StartTimeout, CallTimeout string
	// ToolsAllow is nil where all tools are allowed.
	ToolsAllow, ToolsDeny []string
	Enabled               bool
}

// Variable is a name with a value.
type Variable struct {
	Name  string
	Value Text
}

// texts visits every text of a server.
func (s *Server) texts(visit func(*Text)) {
	for _, t := range []*Text{&s.Command, &s.EnvFile, &s.Cwd, &s.URL} {
		visit(t)
	}
	for i := range s.Args {
		visit(&s.Args[i])
	}
	for i := range s.Env {
		visit(&s.Env[i].Value)
	}
	for i := range s.Headers {
		visit(&s.Headers[i].Value)
	}
}

// Credential is a literal credential of an entry, by the name that it has in the
// secret store.
type Credential struct{ Name, Value string }

// Credentials are those of an entry, each once.
func (e *Entry) Credentials() []Credential {
	var out []Credential
	seen := map[string]bool{}
	e.parts(func(p *Part) {
		if name := secretName(p.Value); p.Kind == SecretRef && p.credential != "" && !seen[name] {
			seen[name] = true
			out = append(out, Credential{name, p.credential})
		}
	})
	return out
}

// ToSet are the names of the secrets that the user has to set before the server can
// start.
func (e *Entry) ToSet() []string {
	var out []string
	seen := map[string]bool{}
	e.parts(func(p *Part) {
		name := secretName(p.Value)
		if (p.Kind == Placeholder || p.Kind == SecretRef && p.credential == "") && !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	})
	return out
}

// parts visits every part of every text of the entry.
func (e *Entry) parts(visit func(*Part)) {
	if e.Server != nil {
		e.Server.texts(func(t *Text) { t.each(visit) })
	}
}

// Counts are how many entries became a server, and how many did not.
func (im *Import) Counts() (servers, failed int) {
	for _, e := range im.Entries {
		if e.Server != nil {
			servers++
		} else {
			failed++
		}
	}
	return servers, failed
}
