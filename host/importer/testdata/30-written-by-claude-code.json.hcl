# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.files in 30-written-by-claude-code.json (claude-code).
provider "files" {
  plugin = "stdio"

  config {
    command = "npx"
    args = [
      "-y",
      "files-mcp",
      "/home/ana/my files",
    ]
    env = {
      API_KEY = secret("files.API_KEY")
      LEVEL   = env("LEVEL", "info")
    }
  }
}

# From mcpServers.feed in 30-written-by-claude-code.json (claude-code).
provider "feed" {
  plugin = "http"

  config {
    url = "http://127.0.0.1:9/sse"
    headers = {
      "X-Api-Key" = secret("feed.X-Api-Key")
    }
    transport = "sse"
  }
}

# From projects["/home/ana/shop"].mcpServers.orders in 30-written-by-claude-code.json (claude-code).
provider "orders" {
  plugin = "http"

  config {
    url       = "http://127.0.0.1:9/mcp"
    transport = "http"
  }
}

# From projects["/home/ana/shop"].mcpServers.paused in 30-written-by-claude-code.json (claude-code).
# Off: disabledMcpServers names it.
provider "paused" {
  plugin  = "stdio"
  enabled = false

  config {
    command = "paused-mcp"
  }
}
