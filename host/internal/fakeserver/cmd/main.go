// Command cmd is the fake MCP server as a program.
package main

import (
	"os"

	"github.com/drawbridge-mcp/drawbridge/host/internal/fakeserver"
)

func main() { os.Exit(fakeserver.Main(os.Args[1:])) }
