package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The places of a page in which a command line may stand: a block of a shell, a span in
// the text, and the entry of a client's file.
var (
	shellBlock = regexp.MustCompile("(?ms)^```(?:sh|console|bash|)\n(.*?)^```")
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	clientArgs = regexp.MustCompile(`"command": "[^"]*/drawbridge",\s*"args": (\[[^\]]*\])`)
	comment    = regexp.MustCompile(`\s#.*$`)
	command    = regexp.MustCompile(`^(?:\$ )?(?:\S*/)?drawbridge (.*)$`)
	quoted     = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)
)

// internal are the words after the program's name that are no command of a person's.
var internal = []string{"guard", "plugin"}

// TestCommandLinesOfThePages gives every command line of the README, the pages and the
// examples to the real commands, as far as their flags and arguments.
func TestCommandLinesOfThePages(t *testing.T) {
	lines := 0
	for name, text := range manualPages(t) {
		var whole []string
		for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
			whole = append(whole, commandsIn(block[1])...)
		}
		for _, m := range clientArgs.FindAllStringSubmatch(text, -1) {
			var args []string
			if err := json.Unmarshal([]byte(m[1]), &args); err != nil {
				t.Errorf("%s: %s: %v", name, m[1], err)
			}
			whole = append(whole, strings.Join(args, " "))
		}
		for _, line := range whole {
			lines++
			if err := parses(line, true); err != nil {
				t.Errorf("%s: drawbridge %s: %v", name, line, err)
			}
		}
		for _, span := range codeSpan.FindAllStringSubmatch(shellBlock.ReplaceAllString(text, ""), -1) {
			for _, line := range commandsIn(span[1]) {
				if strings.Contains(line, "…") { // a message that names a command
					continue
				}
				lines++
				if err := parses(line, false); err != nil {
					t.Errorf("%s: drawbridge %s: %v", name, line, err)
				}
			}
		}
	}
	if lines < 100 {
		t.Errorf("only %d command lines were found: the search is broken", lines)
	}
}

// TestAWrongCommandLineDoesNotParse keeps the test above able to fail.
func TestAWrongCommandLineDoesNotParse(t *testing.T) {
	for _, line := range []string{"serv", "serve --stdin", "client ad cursor", "call", "token new a b", "logs x -n many", "doctor now"} {
		if err := parses(line, true); err == nil {
			t.Errorf("drawbridge %s: taken", line)
		}
	}
}

// manualPages are the README, the pages of docs but what is decided and generated, and
// the examples, by name.
func manualPages(t *testing.T) map[string]string {
	t.Helper()
	const root = "../../.."
	found := map[string]string{}
	for _, part := range []string{"README.md", "docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains([]string{".md", ".json", ".service"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			found[filepath.ToSlash(name)] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// commandsIn are the command lines in a text, without the program's name and comments.
func commandsIn(text string) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		line = comment.ReplaceAllString(strings.TrimSpace(line), "")
		if m := command.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			lines = append(lines, m[1])
		}
	}
	return lines
}

// placeholders stand in a line for what has to be of another type than text.
var placeholders = strings.NewReplacer("[", "", "]", "", "LINES", "10")

// TestEveryMistakeInACommandLineHasARemedy makes every kind of mistake at every command,
// and looks the message up in the page; a row that none of them is for fails too.
func TestEveryMistakeInACommandLineHasARemedy(t *testing.T) {
	_, table, _ := strings.Cut(manualPages(t)["docs/troubleshoot/hosts.md"], "| message of the flags |")
	table, _, _ = strings.Cut(table, "\n\n")
	used := map[string]bool{}
	var forms []*regexp.Regexp
	for _, m := range codeSpan.FindAllStringSubmatch(table, -1) {
		if !strings.Contains(m[1], "…") { // what to do
			continue
		}
		form := strings.ReplaceAll(regexp.QuoteMeta(m[1]), "…", `.+`)
		forms = append(forms, regexp.MustCompile(`(?s)^drawbridge: `+form+`(\n\nDid you mean|; it is used as: |; see '|\n?$)`))
	}
	lines := append(mistakes(newRoot(process{}), nil),
		[]string{"nope"}, []string{"logs", "x", "-n", "many"}, []string{"plan", "--refresh", "--offline"}, []string{"calls", "settle", "x", "ok"})
	for _, args := range lines {
		var said strings.Builder
		if code := run(t.Context(), args, process{in: strings.NewReader(""), out: io.Discard, err: &said}); code != exitError {
			t.Errorf("%q ended with %d: %s", args, code, said.String())
		}
		if strings.Contains(said.String(), "; there are ") {
			continue // a message of our own
		}
		found := false
		for _, form := range forms {
			if form.MatchString(said.String()) {
				found, used[form.String()] = true, true
			}
		}
		if !found {
			t.Errorf("%q: no row is for %s", args, said.String())
		}
	}
	for _, form := range forms {
		if !used[form.String()] {
			t.Errorf("nothing says %s", form)
		}
	}
}

// mistakes are command lines that are refused before anything is done.
func mistakes(cmd *cobra.Command, path []string) (lines [][]string) {
	with := func(more ...string) { lines = append(lines, append(slices.Clone(path), more...)) }
	with("--no-such-flag")
	with("-Z")
	with("--config")
	if many := []string{"a", "b", "c", "d", "e"}; cmd.ValidateArgs(many) != nil {
		with(many...)
	}
	if cmd.ValidateArgs(nil) != nil {
		with()
	}
	for _, sub := range cmd.Commands() {
		lines = append(lines, mistakes(sub, append(slices.Clone(path), sub.Name()))...)
	}
	return lines
}

// parses gives a line to the commands. A line in the running text may only name a
// command, without its arguments.
func parses(line string, whole bool) error {
	words := quoted.FindAllString(placeholders.Replace(line), -1)
	if len(words) == 0 || slices.Contains(internal, words[0]) {
		return nil
	}
	for i, word := range words {
		words[i] = strings.Trim(word, `'"`)
	}
	root := newRoot(process{})
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if slices.Contains(rest, "--help") || !whole && len(rest) == 0 {
		return nil
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	args := cmd.Flags().Args()
	if cmd.HasSubCommands() && (len(args) > 0 || !cmd.Runnable()) {
		return fmt.Errorf("%s has no command %q", cmd.Name(), args)
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	if err := cmd.ValidateFlagGroups(); err != nil {
		return err
	}
	return cmd.ValidateArgs(args)
}
