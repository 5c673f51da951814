package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/drawbridge-mcp/drawbridge/host/config"
	"github.com/drawbridge-mcp/drawbridge/host/importer"
	"github.com/drawbridge-mcp/drawbridge/host/internal/secretstore"
	"github.com/drawbridge-mcp/drawbridge/shared/provider"
)

// initFlags are those of init.
type initFlags struct {
	from             []string
	client           string
	out, workspace   string
	dryRun           bool
	importer.Options // what the flags come to
	importer.Target  // where it goes
}

func newInit(g *globals) *cobra.Command {
	f := new(initFlags)
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Import the servers that MCP clients have in their files",
		Long: `Reads the files in which MCP clients declare their servers, writes each server as a
provider, and says what became of every entry. Without --from it looks for the files
of the clients that are installed, and asks of each whether to import it; where
nobody can be asked it lists them.

Nothing is run and nothing is connected to. A credential that stands in a client's
file goes to the secret store, and the configuration refers to it. The client's own
file stays as it is. What is there already is never written over: a provider of the
same name that says something else is a conflict, and is reported.

The servers are added to the configuration (see --config), or to a new file in
$XDG_CONFIG_HOME/drawbridge/ where there is none yet; --out names another file.

Clients: ` + strings.Join(clientNames(), ", ") + `.

Exit codes: 0 all imported, 2 some entries were not, 1 no file could be used and
nothing was written.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return g.init(cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.from, "from", nil, "a client's `FILE` to import; may be given more than once")
	flags.StringVar(&f.client, "client", "", "the `KIND` of client that the file is of, where that is not told by it")
	flags.StringVar(&f.out, "out", "", "the `FILE` to write")
	flags.StringVar(&f.workspace, "workspace", "", "the `FOLDER` that stands for the client's workspace (${workspaceFolder})")
	flags.BoolVar(&f.dryRun, "dry-run", false, "say what would become of every entry, and write nothing")
	return g.wantsJSON(cmd)
}

func clientNames() []string {
	names := make([]string, len(importer.Clients))
	for i, c := range importer.Clients {
		names[i] = string(c)
	}
	return names
}

// init imports what the flags or the user name.
func (g *globals) init(cmd *cobra.Command, f *initFlags) error {
	if err := g.prepareInit(cmd.Context(), f); err != nil {
		return err
	}
	files := f.from
	if len(files) == 0 {
		chosen, done, err := g.choose(cmd, f)
		if done || err != nil {
			return err
		}
		files = chosen
	}
	report, err := g.importAll(files, f)
	if err != nil && len(report.Files) == 0 {
		return err
	}
	if g.json {
		err = errors.Join(err, writeJSON(cmd.OutOrStdout(), report))
	} else {
		err = errors.Join(err, report.Write(cmd.OutOrStdout()))
	}
	if err == nil && report.Exit != importer.ExitAll {
		return exit(report.Exit)
	}
	return err
}

// prepareInit turns flags into what the importer takes.
func (g *globals) prepareInit(ctx context.Context, f *initFlags) error {
	if f.client != "" {
		client, ok := importer.ParseClient(f.client)
		if !ok {
			return fmt.Errorf("--client %q: the clients are %s", f.client, strings.Join(clientNames(), ", "))
		}
		f.Client = client
	}
	f.Self, f.TokenEnv = []string{"drawbridge"}, tokenEnv
	if self, err := os.Executable(); err == nil {
		f.Self = append(f.Self, strings.ToLower(self))
	}
	if f.workspace != "" {
		dir, err := filepath.Abs(f.workspace)
		if err != nil {
			return fmt.Errorf("--workspace: %w", err)
		}
		f.Workspace = dir
	}
	f.Schemas = map[string]provider.Schema{}
	for name, make := range builtin {
		about, err := make().Describe(ctx)
		if err != nil {
			return err
		}
		f.Schemas[name] = about.Config
	}
	if err := g.target(f); err != nil {
		return err
	}
	cfg, _ := config.Load(f.Config) // what is wrong with it is told when it is added to
	f.Listen = cfg.Host.HTTP.Listen
	return nil
}

// newFile is the name of a configuration that init begins.
const newFile = "providers.hcl"

// target finds the file to write, and the configuration that it belongs to.
func (g *globals) target(f *initFlags) error {
	path, err := g.configPath()
	if err != nil { // there is none yet
		dir, err := configFolder()
		if err != nil && f.out == "" {
			return fmt.Errorf("where to write is not known; name a file with --out: %w", err)
		}
		path = dir
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	f.Config, f.File = path, path
	info, err := os.Stat(path)
	folder := err == nil && info.IsDir() || errors.Is(err, fs.ErrNotExist) && filepath.Ext(path) == ""
	if folder {
		f.File = filepath.Join(path, newFile)
	}
	if f.out == "" {
		return nil
	}
	if f.File, err = filepath.Abs(f.out); err != nil {
		return err
	}
	if info, err := os.Stat(f.File); err == nil && info.IsDir() {
		f.Config, f.File = f.File, filepath.Join(f.File, newFile)
		return nil
	}
	if !folder || filepath.Dir(f.File) != path || filepath.Ext(f.File) != ".hcl" {
		f.Config = f.File
	}
	return nil
}

// configFolder is the user's folder of configurations.
func configFolder() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "drawbridge"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".config", "drawbridge"), err
}

// importAll imports one file after the other. One that cannot be used does not keep
// the others; a configuration that cannot be added to ends it.
func (g *globals) importAll(files []string, f *initFlags) (*importer.Report, error) {
	report := importer.NewReport()
	report.DryRun = f.dryRun
	hints := hints{}
	for _, file := range files {
		im, err := importer.ReadFile(file, f.Options)
		var broken *importer.FileError
		if errors.As(err, &broken) {
			fmt.Fprintf(g.std.err, "drawbridge: %v\n", err)
			report.Add(importer.Unusable(broken))
			continue
		}
		if err != nil {
			return report, err
		}
		for _, e := range im.Entries {
			for _, c := range e.Credentials() {
				g.std.redactor.AddSecret(c.Value)
			}
		}
		merged, err := importer.Merge(im, f.Target)
		if err == nil {
			err = g.place(merged, f, report)
		}
		var bad *importer.TargetError
		if errors.As(err, &bad) {
			if err := config.WriteDiagnostics(g.std.err, bad.Config, bad.Diags, false); err != nil {
				return report, err
			}
		}
		if err != nil {
			return report, err
		}
		report.Add(importer.ReportOf(im, merged))
		hints.of(merged)
	}
	report.Next = append(report.Next, hints.list(g, f, report)...)
	return report, nil
}

// place puts a merge in place, unless it is a rehearsal.
func (g *globals) place(m *importer.Merged, f *initFlags, report *importer.Report) error {
	report.Config, report.Store = f.File, secretstore.In(m.Config.Host.StateDir).Dir()
	if f.dryRun {
		return nil
	}
	written, kept, err := m.Apply()
	report.Written = report.Written || written
	report.Secrets = append(report.Secrets, kept...)
	return err
}

// hints gather what is to be said at the end.
type hints struct {
	added, http int
	config      *config.Config
	grant       string
}

func (h *hints) of(m *importer.Merged) {
	h.config = m.Config
	for _, r := range m.Results {
		if r.Outcome != importer.Added {
			continue
		}
		h.added++
		if r.Entry.Server.Transport != importer.Stdio && r.Entry.Server.Enabled {
			h.http++
		}
		if h.grant == "" {
			h.grant = r.Entry.Name
		}
	}
}

// list says what to do next.
func (h *hints) list(g *globals, f *initFlags, report *importer.Report) []string {
	var out []string
	if f.dryRun {
		return append(out, "nothing was written (--dry-run)")
	}
	if h.http > 0 {
		out = append(out, fmt.Sprintf("%d of the providers speak HTTP: this version checks them and does not run them yet", h.http))
	}
	if h.added > 0 && len(h.config.Projects) > 0 {
		out = append(out, fmt.Sprintf(`no grant names what was added, so nobody may call it; in a project: grant { principals = ["local"], provider = %q, tools = ["*"] }, each on a line`, h.grant))
	}
	if _, err := os.Stat(f.File); err != nil || report.Config == "" {
		return out
	}
	with, given := "", *g
	given.config = ""
	if path, err := given.configPath(); err != nil || !samePath(path, f.Config) {
		with = " --config " + f.Config
	}
	return append(out, "drawbridge validate"+with, "drawbridge plan"+with)
}

func samePath(a, b string) bool {
	absolute, err := filepath.Abs(a)
	return err == nil && absolute == b
}

// choose finds the files of the clients that are installed, and asks of each. done says
// that there is nothing more to do.
func (g *globals) choose(cmd *cobra.Command, f *initFlags) (files []string, done bool, err error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, true, fmt.Errorf("no home folder to look in for clients' files; name one with --from: %w", err)
	}
	system := importer.System{Home: home, GOOS: runtime.GOOS, Getenv: os.Getenv}
	var found []importer.Found
	for _, one := range system.Find(f.Options) {
		if f.Client == "" || f.Client == one.Client {
			found = append(found, one)
		}
	}
	if len(found) == 0 {
		return nil, true, fmt.Errorf("no client's file with servers was found below %s; name one with --from FILE", home)
	}
	terminal, ok := g.std.in.(*os.File)
	if g.json || !ok || !term.IsTerminal(int(terminal.Fd())) {
		return nil, true, g.listFound(cmd, found)
	}
	answers := lines(terminal)
	for _, one := range found {
		if one.Problem != "" {
			fmt.Fprintf(g.std.err, "%s (%s) cannot be imported: %s\n", one.Path, one.Client, one.Problem)
			continue
		}
		fmt.Fprintf(g.std.err, "Import %d servers from %s (%s)? [y/N] ", one.Servers, one.Path, one.Client)
		select {
		case answer := <-answers:
			if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
				files = append(files, one.Path)
			}
		case <-cmd.Context().Done():
			fmt.Fprintln(g.std.err)
			return nil, true, cmd.Context().Err()
		}
	}
	if len(files) == 0 {
		fmt.Fprintln(g.std.err, "Nothing was imported.")
		return nil, true, nil
	}
	return files, false, nil
}

// listFound says which files there are, where nobody can be asked.
func (g *globals) listFound(cmd *cobra.Command, found []importer.Found) error {
	if g.json {
		type file struct {
			File    string          `json:"file"`
			Client  importer.Client `json:"client"`
			Servers int             `json:"servers"`
			Problem string          `json:"problem,omitempty"`
		}
		list := make([]file, len(found))
		for i, one := range found {
			list[i] = file{one.Path, one.Client, one.Servers, one.Problem}
		}
		return writeJSON(cmd.OutOrStdout(), map[string]any{"found": list})
	}
	out := cmd.OutOrStdout()
	for _, one := range found {
		if one.Problem != "" {
			fmt.Fprintf(out, "%s (%s): %s\n", one.Path, one.Client, one.Problem)
			continue
		}
		fmt.Fprintf(out, "%s (%s): %d servers\n", one.Path, one.Client, one.Servers)
	}
	fmt.Fprintln(out, "\nNobody can be asked here, so nothing was imported. Name the files:")
	for _, one := range found {
		if one.Problem == "" {
			fmt.Fprintf(out, "  drawbridge init --from '%s'\n", one.Path)
		}
	}
	return nil
}

// lines reads answers. Its goroutine ends with the input, or with the process.
func lines(from *os.File) <-chan string {
	out := make(chan string)
	go func() {
		defer close(out)
		for scanner := bufio.NewScanner(from); scanner.Scan(); {
			out <- scanner.Text()
		}
	}()
	return out
}
