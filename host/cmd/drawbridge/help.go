package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// The groups of `drawbridge --help`, in its order.
var helpGroups = []*cobra.Group{
	{ID: "configure", Title: "Write a configuration, and check it:"},
	{ID: "run", Title: "Run it:"},
	{ID: "look", Title: "Look at what runs, and use it:"},
	{ID: "allow", Title: "Say who may do what:"},
	{ID: "more", Title: "More:"},
}

// helpGroup is the group of each command; one that is not here is under "more".
var helpGroup = map[string]string{
	"init": "configure", "validate": "configure", "fmt": "configure", "plan": "configure", "doctor": "configure",
	"serve": "run", "connect": "run", "client": "run", "reload": "run", "restart": "run",
	"status": "look", "tools": "look", "call": "look", "calls": "look", "logs": "look", "artifacts": "look",
	"access": "allow", "token": "allow", "secret": "allow", "lock": "allow",
}

const rootLong = `Drawbridge starts the MCP servers that its owner declares in HCL, keeps each in a
supervised process of its own, and is the one MCP server that clients know.

What crosses the bridge is what the file on disk declares, and nothing else.`

const rootExample = `  drawbridge init                      bring the servers that your clients have in their files
  drawbridge client add cursor         let a client use this host
  drawbridge validate                  every mistake in providers.hcl, with its place
  drawbridge doctor                    what is wrong, and what to do about it
  drawbridge serve                     run the host; it prints its URL and where the token is
  drawbridge serve --stdio             run it for the one client that starts it
  drawbridge tools                     what a client sees
  drawbridge call notebook note_add '{"text": "mind the gap"}'
  drawbridge logs notebook -f          what a server writes to its standard error`

// exitCodes stands at the end of the root's help.
const exitCodes = `
Exit codes:
  0  done
  1  an error, or the answer is no
  2  done, with something to look at: fmt --check, plan, doctor
  3  call: the tool answered with an error of its own
  4  access: denied
  The help of each command says what its codes mean.
`

// group puts every command under its heading.
func group(root *cobra.Command) {
	root.AddGroup(helpGroups...)
	for _, cmd := range root.Commands() {
		cmd.GroupID = helpGroup[cmd.Name()]
		if cmd.GroupID == "" {
			cmd.GroupID = "more"
		}
	}
	root.SetHelpCommandGroupID("more")
	root.SetCompletionCommandGroupID("more")
	usage := root.UsageTemplate()
	root.SetUsageTemplate(usage + "{{if not .HasParent}}" + exitCodes + "{{end}}")
}

// explain makes a mistake in a command line say what the command takes.
func explain(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath())
	})
	for _, cmd := range root.Commands() {
		explainArguments(cmd)
	}
}

func explainArguments(cmd *cobra.Command) {
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = knownCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	} else if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return fmt.Errorf("%w; it is used as: %s", err, cmd.UseLine())
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		explainArguments(sub)
	}
}

// knownCommand refuses a word that is none of a command's own.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return fmt.Errorf("unknown command %q for %q; there are %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
}
