package importer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// System is where a user's clients keep their files.
type System struct {
	// Home is the user's home folder, GOOS the system.
	Home, GOOS string
	// Getenv answers for XDG_CONFIG_HOME, APPDATA and the variables by which clients are
	// told of another folder.
	Getenv func(string) string
}

// Place is where a client keeps its file.
type Place struct {
	Client Client
	Path   string
}

// Found is a client's file that is there and holds servers, or cannot be read.
type Found struct {
	Place
	// Servers is how many it holds.
	Servers int
	// Problem is why it cannot be used; "" where it can.
	Problem string
}

// Places are those of all clients whose files stand in one place for a user, whether
// they are there or not. Of a client with several the likeliest is first.
func (s System) Places() []Place {
	config, app := s.folder("XDG_CONFIG_HOME", s.home(".config")), ""
	switch s.GOOS {
	case "windows":
		app = s.folder("APPDATA", s.home("AppData", "Roaming"))
	case "darwin":
		app = s.home("Library", "Application Support")
	default:
		app = config
	}
	zed := filepath.Join(config, "zed")
	if s.GOOS == "windows" {
		zed = filepath.Join(app, "Zed")
	}
	cline := s.folder("CLINE_DATA_DIR", filepath.Join(s.folder("CLINE_DIR", s.home(".cline")), "data"))
	places := []Place{
		{ClaudeDesktop, filepath.Join(app, "Claude", "claude_desktop_config.json")},
		{ClaudeCode, filepath.Join(s.folder("CLAUDE_CONFIG_DIR", s.Home), ".claude.json")},
		{Cline, filepath.Join(cline, "settings", "cline_mcp_settings.json")},
	}
	places = append(places, editors(app)...)
	return append(places,
		Place{Cursor, s.home(".cursor", "mcp.json")},
		Place{Windsurf, s.home(".codeium", "windsurf", "mcp_config.json")},
		Place{Windsurf, s.home(".codeium", "mcp_config.json")},
		Place{Zed, filepath.Join(zed, "settings.json")},
		Place{Codex, filepath.Join(s.folder("CODEX_HOME", s.home(".codex")), "config.toml")},
		Place{Gemini, filepath.Join(s.folder("GEMINI_CLI_HOME", s.Home), ".gemini", "settings.json")},
		Place{Continue, filepath.Join(s.folder("CONTINUE_GLOBAL_DIR", s.home(".continue")), "config.yaml")},
		Place{OpenCode, filepath.Join(config, "opencode", "opencode.json")},
		Place{OpenCode, filepath.Join(config, "opencode", "opencode.jsonc")},
	)
}

// editors are the places of VS Code and its kin, below their folder of applications: their
// own, and those of their extensions. Cursor and Windsurf have their own elsewhere.
func editors(app string) []Place {
	var places []Place
	for _, editor := range []string{"Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"} {
		user := filepath.Join(app, editor, "User")
		settings := func(extension, name string) string {
			return filepath.Join(user, "globalStorage", extension, "settings", name)
		}
		if editor != "Cursor" && editor != "Windsurf" {
			places = append(places, Place{VSCode, filepath.Join(user, "mcp.json")}, Place{VSCode, filepath.Join(user, "settings.json")})
		}
		places = append(places,
			Place{Cline, settings("saoudrizwan.claude-dev", "cline_mcp_settings.json")},
			Place{Roo, settings("rooveterinaryinc.roo-cline", "mcp_settings.json")},
		)
	}
	return places
}

func (s System) home(names ...string) string {
	return filepath.Join(append([]string{s.Home}, names...)...)
}

// folder is what a variable says, where it says an absolute path.
func (s System) folder(variable, fallback string) string {
	if dir := s.Getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	return fallback
}

// Find looks for the files of the clients that are installed. What holds no servers is
// not among them.
func (s System) Find(opts Options) []Found {
	var found []Found
	for _, p := range s.Places() {
		if _, err := os.Stat(p.Path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		opts.Client = p.Client
		im, err := ReadFile(p.Path, opts)
		var broken *FileError
		switch {
		case errors.As(err, &broken) && broken.Empty:
		case errors.As(err, &broken):
			found = append(found, Found{Place: p, Problem: broken.Place()})
		case len(im.Entries) > 0:
			found = append(found, Found{Place: p, Servers: len(im.Entries)})
		}
	}
	return found
}

// ParseClient is the client of a name as --client has it.
func ParseClient(name string) (Client, bool) {
	for _, c := range Clients {
		if string(c) == strings.ToLower(name) {
			return c, true
		}
	}
	return "", false
}
