# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcp_servers.api in 31-written-by-codex.toml (codex).
provider "api" {
  plugin = "http"

  config {
    url = "http://127.0.0.1:9/mcp"
    headers = {
      Authorization = "Bearer ${env("API_TOKEN")}"
    }
    transport = "http"
  }
}

# From mcp_servers.docs in 31-written-by-codex.toml (codex).
provider "docs" {
  plugin = "stdio"

  config {
    command = "uvx"
    args = [
      "docs",
      "--root",
      "/home/ana/my docs",
    ]
    env = {
      A = "1"
      B = "two words"
    }
  }
}
