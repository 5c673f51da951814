package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/drawbridge-mcp/drawbridge/host/clientfile"
	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/control"
	"github.com/drawbridge-mcp/drawbridge/host/front"
	"github.com/drawbridge-mcp/drawbridge/host/importer"
	"github.com/drawbridge-mcp/drawbridge/host/internal/redact"
	"github.com/drawbridge-mcp/drawbridge/host/supervise"
)

const (
	// tokenEnv is the variable in which clients over HTTP find the token.
	tokenEnv = "DRAWBRIDGE_TOKEN"
	// defaultEntry is the name of the entry in a client's file.
	defaultEntry = "drawbridge"
	// clientsFolder in the state dir holds what clients' files were before.
	clientsFolder = "clients"
)

// clientFlags are those of the commands below client.
type clientFlags struct {
	file, name   string
	http, dryRun bool
}

func newClient(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "client",
		Short: "Write this host into the files of MCP clients, and take it out again",
		Long: `Shows which MCP clients of this user know this host, and writes it into a client's own
file or takes it out. Comments, order and everything else in the file stay as they are.

Clients: ` + strings.Join(clientfile.Kinds(), ", ") + `.`,
	}
	cmd.AddCommand(newClientList(g), newClientAdd(g), newClientRemove(g))
	return cmd
}

func (f *clientFlags) flags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&f.file, "file", "", "the client's `FILE`, where it is not in its usual place")
	cmd.Flags().StringVar(&f.name, "name", defaultEntry, "the `NAME` of the entry")
	return cmd
}

func (f *clientFlags) edits(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would change, and write nothing")
	return f.flags(cmd)
}

func newClientAdd(g *globals) *cobra.Command {
	f := new(clientFlags)
	cmd := &cobra.Command{
		Use:   "add KIND",
		Short: "Write an entry for this host into a client's file",
		Long: `Writes an entry by which the client starts ` + "`drawbridge connect --start`" + ` with this
configuration, or with --http one with the host's URL, in which the client finds the token
by reference: in the environment variable ` + tokenEnv + `, or by asking for it. The token
itself is never written. What the file was before is kept, for ` + "`drawbridge client remove`" + `.

Exit codes: 0 it is there, 1 it could not be written.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return g.addToClient(cmd, args[0], f) },
	}
	cmd.Flags().BoolVar(&f.http, "http", false, "over HTTP, with the token by reference")
	return g.inProject(f.edits(cmd))
}

func newClientRemove(g *globals) *cobra.Command {
	f := new(clientFlags)
	return f.edits(&cobra.Command{
		Use:   "remove KIND",
		Short: "Take the entry for this host out of a client's file",
		Long: `Takes the entry out again. A file that nothing else has changed since is put back as it
was, to the byte; in any other the entry alone is taken out.

Exit codes: 0 it is not there, 1 it could not be taken out.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return g.removeFromClient(cmd, args[0], f) },
	})
}

// system is where this user's clients keep their files.
func system() importer.System {
	home, _ := os.UserHomeDir()
	return importer.System{Home: home, GOOS: runtime.GOOS, Getenv: os.Getenv}
}

// clientFiles are the places of a client's file, the likeliest first: those that are there
// before those whose folder is, and an editor's settings last.
func clientFiles(kind string) []string {
	var files []string
	for _, p := range system().Places() {
		if string(p.Client) == kind {
			files = append(files, p.Path)
		}
	}
	rank := func(path string) int {
		_, missing := os.Stat(path)
		_, nowhere := os.Stat(filepath.Dir(path))
		switch {
		case kind == string(importer.VSCode) && filepath.Base(path) == "settings.json":
			return 3
		case missing == nil:
			return 0
		case nowhere == nil:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(files, func(a, b string) int { return rank(a) - rank(b) })
	return files
}

// fileOf is the file that is meant of a client: the one that is named, the one that has
// the entry, or the likeliest.
func (f *clientFlags) fileOf(kind string) (path string, text []byte, err error) {
	if !slices.Contains(clientfile.Kinds(), kind) {
		return "", nil, fmt.Errorf("client %q: %w; there are %s", kind, clientfile.ErrKind, strings.Join(clientfile.Kinds(), ", "))
	}
	candidates := []string{f.file}
	if f.file == "" {
		if candidates = clientFiles(kind); len(candidates) == 0 {
			return "", nil, fmt.Errorf("the file of a %q client has no usual place; name it with --file", kind)
		}
	}
	for _, one := range candidates {
		if text, err := clientfile.Read(one); err == nil && text != nil {
			found, err := clientfile.Look(kind, one, text)
			if err == nil && slices.ContainsFunc(found, func(s clientfile.Server) bool { return s.Name == f.name }) {
				return absolute(one), text, nil
			}
		}
	}
	text, err = clientfile.Read(candidates[0])
	return absolute(candidates[0]), text, err
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func (g *globals) addToClient(cmd *cobra.Command, kind string, f *clientFlags) error {
	cfg, err := g.readable()
	if err != nil {
		return err
	}
	if err := g.checkProject(cfg, f); err != nil {
		return err
	}
	path, before, err := f.fileOf(kind)
	if err != nil {
		return err
	}
	entry, err := g.entryFor(cmd, cfg, f)
	if err != nil {
		return err
	}
	found, err := clientfile.Look(kind, path, before)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if slices.Contains(found, clientfile.Server{Name: f.name}) {
		return fmt.Errorf("%s has an entry %q that is not of a host; choose another name with --name", path, f.name)
	}
	after, err := clientfile.Put(kind, path, before, entry)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	w := cmd.OutOrStdout()
	switch {
	case before != nil && string(before) == string(after):
		fmt.Fprintf(w, "%s has the entry %q already\n", path, f.name)
		return nil
	case f.dryRun:
		return printDiff(cmd, kind, path, before, after)
	}
	backups := clientfile.Backups{Dir: filepath.Join(cfg.Host.StateDir, clientsFolder)}
	if err := backups.Write(path, f.name, before, after); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fmt.Fprintf(w, "wrote the entry %q into %s\n", f.name, path)
	if kept := backups.Backup(path); kept != "" {
		fmt.Fprintf(w, "what it was before is kept in %s\n", kept)
	}
	if f.http {
		fmt.Fprintln(w, g.whereToken(cfg, kind))
	}
	fmt.Fprintf(w, "start the client again; to undo it: %s\n", g.undo(kind, f))
	return nil
}

// undo is the command that takes the entry out again.
func (g *globals) undo(kind string, f *clientFlags) string {
	command := "drawbridge client remove " + kind
	for _, flag := range []struct{ name, value string }{{"name", f.name}, {"file", f.file}, {"config", g.config}} {
		if flag.value != "" && (flag.name != "name" || flag.value != defaultEntry) {
			command += fmt.Sprintf(" --%s '%s'", flag.name, strings.ReplaceAll(flag.value, "'", `'\''`))
		}
	}
	return command
}

// checkProject says what is wrong with --project. Where it is left out the client is not
// told of a project either: there may be more of them one day.
func (g *globals) checkProject(cfg *config.Config, f *clientFlags) error {
	if f.http {
		if g.project != "" && !slices.ContainsFunc(cfg.Projects, func(p *config.Project) bool { return p.Name == g.project }) {
			return fmt.Errorf("%w: the configuration declares no project %q", control.ErrProject, g.project)
		}
		return nil
	}
	asked := g.project
	err := g.settleProject(cfg, true)
	g.project = asked
	return err
}

// whereToken says how a client over HTTP gets its token.
func (g *globals) whereToken(cfg *config.Config, kind string) string {
	token := "what " + filepath.Join(cfg.Host.StateDir, "token") + " holds"
	if len(cfg.Principals) > 0 {
		token = "the token of a principal (drawbridge token)"
	}
	if clientfile.Asks(kind) {
		return "the client asks for the token: give it " + token
	}
	return "the client finds the token in the variable " + tokenEnv + ": set it to " + token
}

// entryFor is what the client is told of this host.
func (g *globals) entryFor(cmd *cobra.Command, cfg *config.Config, f *clientFlags) (clientfile.Entry, error) {
	e := clientfile.Entry{Name: f.name}
	if !f.http {
		command, err := selfPath()
		e.Command, e.Args = command, []string{"connect", "--start", "--config", absolute(cfg.Path)}
		if !control.Supported { // each client has a host of its own there
			e.Args = []string{"serve", "--stdio", "--config", absolute(cfg.Path)}
		}
		if g.project != "" {
			e.Args = append(e.Args, "--project", g.project)
		}
		return e, err
	}
	e.TokenEnv = tokenEnv
	base := ""
	hosts, err := control.Hosts(cmd.Context(), supervise.RunBases(), ofConfig(cfg.Path))
	if err != nil {
		return e, err
	}
	for _, host := range hosts {
		if at, err := url.Parse(host.Info().URL); err == nil && at.Host != "" {
			base = at.Scheme + "://" + at.Host
		}
	}
	if base == "" {
		scheme := "http://"
		if cfg.Host.HTTP.TLSCert != "" {
			scheme = "https://"
		}
		if base = scheme + cfg.Host.HTTP.Listen; strings.HasSuffix(base, ":0") {
			return e, errors.New("no host is running, and host.http.listen leaves the port open; start `drawbridge serve` first")
		}
	}
	if g.project == "" && len(cfg.Projects) > 1 {
		return e, errors.New("there are several projects; say which one with --project")
	}
	e.URL = front.Endpoint(base, g.project)
	return e, nil
}

// selfPath is this program by the name that it was started by, if that is it: a link to a
// version that is installed outlives the version.
func selfPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if named, err := exec.LookPath(os.Args[0]); err == nil && canonical(named) == canonical(self) {
		return absolute(named), nil
	}
	return self, nil
}

func (g *globals) removeFromClient(cmd *cobra.Command, kind string, f *clientFlags) error {
	path, now, err := f.fileOf(kind)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	after, err := clientfile.Take(kind, path, now, f.name)
	if errors.Is(err, clientfile.ErrNoEntry) {
		fmt.Fprintf(w, "%s has no entry %q\n", path, f.name)
		return nil
	}
	backups, exact := clientfile.Backups{}, false
	// Without a configuration nothing is known of what was before.
	if cfg, _, failed := g.load(); failed == nil && cfg.Host.StateDir != "" {
		backups.Dir = filepath.Join(cfg.Host.StateDir, clientsFolder)
		if before, ok := backups.Before(path, f.name, now); ok {
			after, err, exact = before, nil, true
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if f.dryRun {
		return printDiff(cmd, kind, path, now, after)
	}
	if err := backups.Undo(path, f.name, now, after); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case !exact:
		fmt.Fprintf(w, "took the entry %q out of %s\n", f.name, path)
	case after == nil:
		fmt.Fprintf(w, "removed %s, which was not there before\n", path)
	default:
		fmt.Fprintf(w, "%s is as it was before\n", path)
	}
	return nil
}

// printDiff prints what would change in a client's file, without the credentials of
// other servers that stand beside it.
func printDiff(cmd *cobra.Command, kind, path string, before, after []byte) error {
	hidden := new(redact.Redactor)
	client, _ := importer.ParseClient(kind)
	for _, text := range [][]byte{before, after} {
		im, err := importer.Read(path, text, importer.Options{Client: client})
		if err != nil {
			continue // it has no servers
		}
		for _, e := range im.Entries {
			for _, c := range e.Credentials() {
				hidden.Add(c.Value)
			}
		}
	}
	_, err := io.WriteString(cmd.OutOrStdout(), hidden.Text(string(diff.Diff(path, before, path+" (new)", after))))
	return err
}

// clientLine is what list says of a client's file.
type clientLine struct {
	Kind string `json:"kind"`
	File string `json:"file"`
	// Found says that the file is there; Entry that it holds one of a host, by any name.
	Found  bool     `json:"found"`
	Entry  bool     `json:"entry"`
	Others []string `json:"others"`
	Error  string   `json:"error,omitempty"`
}

func newClientList(g *globals) *cobra.Command {
	return g.wantsJSON(&cobra.Command{
		Use:   "list",
		Short: "Show the MCP clients of this user, and which of them know this host",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var lines []clientLine
			for _, kind := range clientfile.Kinds() {
				lines = append(lines, lookAt(kind)...)
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), lines)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "CLIENT\tDRAWBRIDGE\tOTHER SERVERS\tFILE")
			for _, l := range lines {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Kind, l.state(), strings.Join(l.Others, ", "), l.File)
			}
			return w.Flush()
		},
	})
}

func (l clientLine) state() string {
	switch {
	case l.Error != "":
		return l.Error
	case !l.Found:
		return "no file"
	case l.Entry:
		return "yes"
	}
	return "no"
}

// lookAt is what there is of a client: its files that are there, or where one would be.
func lookAt(kind string) (lines []clientLine) {
	files := clientFiles(kind)
	for i, path := range files {
		line := clientLine{Kind: kind, File: path, Others: []string{}}
		text, err := clientfile.Read(path)
		var found []clientfile.Server
		if line.Found = text != nil; line.Found && err == nil {
			found, err = clientfile.Look(kind, path, text)
		}
		if err != nil {
			line.Error = err.Error()
		}
		for _, server := range found {
			if server.Ours {
				line.Entry = true
			} else {
				line.Others = append(line.Others, server.Name)
			}
		}
		// Of several places, and of an editor's settings, only what says something is told.
		last := i == len(files)-1 && len(lines) == 0
		if line.Found && (len(found) > 0 || i == 0) || err != nil || last {
			if last && !line.Found {
				line.File = files[0]
			}
			lines = append(lines, line)
		}
	}
	return lines
}
