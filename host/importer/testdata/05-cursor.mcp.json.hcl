# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.bare-url in 05-cursor.mcp.json (cursor).
provider "bare-url" {
  plugin = "http"

  config {
    url       = "http://localhost:7003/sse"
    transport = "auto"
  }
}

# From mcpServers.stream in 05-cursor.mcp.json (cursor).
provider "stream" {
  plugin = "http"

  config {
    url = "http://localhost:7003/mcp"
    headers = {
      Authorization = "Bearer ${env("CUR_TOKEN")}"
    }
    transport = "auto"
  }
}

# From mcpServers.transport-key in 05-cursor.mcp.json (cursor).
provider "transport-key" {
  plugin = "http"

  config {
    url       = "http://127.0.0.1:7004/"
    transport = "http"
  }
}

# From mcpServers.node in 05-cursor.mcp.json (cursor).
provider "node" {
  plugin = "stdio"

  config {
    command = "node"
    args = [
      "${env("WORKSPACE_FOLDER")}/tools/s.js",
      env("WORKSPACE_FOLDER_BASENAME"),
    ]
    env = {
      T = env("CUR_TOKEN")
    }
    env_file = "${env("WORKSPACE_FOLDER")}/.env.local"
  }
}

# From mcpServers.shell in 05-cursor.mcp.json (cursor).
provider "shell" {
  plugin = "stdio"

  config {
    command = "/bin/bash"
    args = [
      "-lc",
      "source ~/.nvm/nvm.sh && exec npx -y some-mcp@1.2.3",
    ]
  }
}
