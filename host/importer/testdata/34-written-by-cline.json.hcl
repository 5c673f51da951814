# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.web in 34-written-by-cline.json (cline).
provider "web" {
  plugin = "http"

  config {
    url = "http://127.0.0.1:9/mcp"
    headers = {
      Authorization = "Bearer ${secret("web.Authorization")}"
    }
    transport = "http"
  }
}

# From mcpServers.feed in 34-written-by-cline.json (cline).
# Off: mcpServers.feed.disabled = true.
provider "feed" {
  plugin  = "http"
  enabled = false

  config {
    url       = "http://127.0.0.1:9/sse"
    transport = "sse"
  }
}

# From mcpServers.files in 34-written-by-cline.json (cline).
provider "files" {
  plugin = "stdio"

  config {
    command = "node"
    args = [
      "files mcp.js",
    ]
  }

  limits {
    call_timeout = "90s"
  }
}
