# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.remote-a in 07-windsurf.mcp_config.json (windsurf).
provider "remote-a" {
  plugin = "http"

  config {
    url = "http://127.0.0.1:7006/mcp"
    headers = {
      "X-Api-Key" = env("WS_KEY")
    }
    transport = "auto"
  }
}

# From mcpServers.remote-b in 07-windsurf.mcp_config.json (windsurf).
# Off: mcpServers.remote-b.disabled = true.
provider "remote-b" {
  plugin  = "http"
  enabled = false

  config {
    url       = "http://127.0.0.1:7006/sse?pat=${secret("remote-b.pat")}"
    transport = "auto"
  }
}

# From mcpServers.tools in 07-windsurf.mcp_config.json (windsurf).
provider "tools" {
  plugin = "stdio"
  except = ["delete_all", "reset"]

  config {
    command = "npx"
    args = [
      "-y",
      "tools-mcp",
    ]
    env = {
      K = env("WS_PLAIN")
    }
  }
}
