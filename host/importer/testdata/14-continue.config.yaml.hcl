# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers[0] in 14-continue.config.yaml (continue).
# Before it can start: drawbridge secret set SQLITE_TOKEN
provider "sqlite-mcp" {
  plugin      = "stdio"
  description = "SQLite MCP"

  config {
    command = "npx"
    args = [
      "-y",
      "mcp-sqlite",
      "/srv/db/test.db",
      "0123",
      "1e3",
      "no",
    ]
    env = {
      LEVEL = "3"
      ON    = "yes"
      AT    = "12:30:45"
      TOKEN = secret("SQLITE_TOKEN")
    }
  }
}

# From mcpServers[1] in 14-continue.config.yaml (continue).
# Before it can start: drawbridge secret set DOCS
provider "docs" {
  plugin      = "http"
  description = "Docs"

  config {
    url = "http://127.0.0.1:7019/mcp"
    headers = {
      Authorization = "Bearer ${secret("DOCS")}"
    }
    transport = "http"
  }

  limits {
    call_timeout = "15s"
  }
}

# From mcpServers[2] in 14-continue.config.yaml (continue).
provider "docs-2" {
  plugin      = "http"
  description = "Docs-2"

  config {
    url       = "http://127.0.0.1:7020/sse"
    transport = "sse"
  }
}

# From mcpServers[4] in 14-continue.config.yaml (continue).
provider "anchored" {
  plugin      = "stdio"
  description = "Anchored"

  config {
    command = "npx"
    args = [
      "-y",
      "anchored-mcp",
      "folded text",
    ]
    env = {
      LOG = "1"
    }
  }
}
