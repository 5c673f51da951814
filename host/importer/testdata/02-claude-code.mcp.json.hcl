# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.db in 02-claude-code.mcp.json (claude-code).
provider "db" {
  plugin = "stdio"

  config {
    command = "uvx"
    args = [
      "--with",
      "pymysql",
      "db-mcp",
    ]
    env = {
      DB_URL = "mysql://${env("DB_USER", "reader")}:${env("DB_PASS")}@127.0.0.1:3306/app"
    }
  }
}

# From mcpServers.api in 02-claude-code.mcp.json (claude-code).
provider "api" {
  plugin = "http"

  config {
    url = "${env("API_BASE", "http://127.0.0.1:8931")}/mcp"
    headers = {
      Authorization = "Bearer ${env("API_TOKEN")}"
      "X-Team"      = "blue"
    }
    transport = "http"
  }
}

# From mcpServers.old-sse in 02-claude-code.mcp.json (claude-code).
provider "old-sse" {
  plugin = "http"

  config {
    url       = "http://127.0.0.1:8099/sse"
    transport = "sse"
  }
}

# From mcpServers.plugin-tool in 02-claude-code.mcp.json (claude-code).
provider "plugin-tool" {
  plugin = "stdio"

  config {
    command = "${env("CLAUDE_PLUGIN_ROOT")}/bin/tool"
    args = [
      "--config",
      "${env("CLAUDE_PLUGIN_ROOT")}/config.json",
    ]
  }
}

# From mcpServers.wrong-keys in 02-claude-code.mcp.json (claude-code).
provider "wrong-keys" {
  plugin = "stdio"

  config {
    command = "npx"
    args = [
      "-y",
      "ctx-mcp",
    ]
    env = {
      IDLE_MS = "60000"
    }
  }
}
