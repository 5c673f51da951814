# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.bridge in 17-remote-and-bridges.json (generic).
provider "bridge" {
  plugin = "stdio"

  config {
    command = "npx"
    args = [
      "-y",
      "mcp-remote@0.1.29",
      "https://mcp.example.test/sse",
      "--header",
      "Authorization:$${AUTH_HEADER}",
    ]
    env = {
      AUTH_HEADER = "Bearer ${secret("bridge.AUTH_HEADER")}"
    }
  }
}

# From mcpServers.loop6 in 17-remote-and-bridges.json (generic).
provider "loop6" {
  plugin = "http"

  config {
    url       = "http://[::1]:7021/mcp"
    transport = "http"
  }
}

# From mcpServers.loopname in 17-remote-and-bridges.json (generic).
provider "loopname" {
  plugin = "http"

  config {
    url       = "http://localhost:7022/mcp/"
    transport = "http"
  }
}
