# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers["github.com/example/linear-mcp"] in 08-cline_mcp_settings.json (cline).
# Off: mcpServers["github.com/example/linear-mcp"].disabled = true.
provider "linear" {
  plugin      = "stdio"
  description = "github.com/example/linear-mcp"
  enabled     = false

  config {
    command = "node"
    args = [
      "/home/ana/Cline/MCP/linear/build/index.js",
    ]
    env = {
      LINEAR_KEY = secret("linear.LINEAR_KEY")
    }
  }

  limits {
    call_timeout = "60s"
  }
}

# From mcpServers.search in 08-cline_mcp_settings.json (cline).
provider "search" {
  plugin = "http"

  config {
    url       = "http://127.0.0.1:7009/mcp"
    transport = "http"
  }

  limits {
    call_timeout     = "1800s"
    call_timeout_max = "1800s"
  }
}

# From mcpServers.events in 08-cline_mcp_settings.json (cline).
provider "events" {
  plugin = "http"

  config {
    url       = "http://127.0.0.1:7010/sse"
    transport = "sse"
  }

  limits {
    call_timeout = "30s"
  }
}
