# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From context_servers.flat in 10-zed.settings.json (zed).
provider "flat" {
  plugin = "stdio"

  config {
    command = "uv"
    args = [
      "run",
      "/home/ana/mcp/main.py",
    ]
  }
}

# From context_servers.nested in 10-zed.settings.json (zed).
provider "nested" {
  plugin = "stdio"

  config {
    command = "node"
    args = [
      "/srv/n.js",
      "--stdio",
    ]
    env = {
      A = "1"
    }
  }
}

# From context_servers.off in 10-zed.settings.json (zed).
# Off: context_servers.off.enabled = false.
provider "off" {
  plugin  = "stdio"
  enabled = false

  config {
    command = "off-mcp"
  }
}

# From context_servers.remote in 10-zed.settings.json (zed).
provider "remote" {
  plugin = "http"

  config {
    url = "http://127.0.0.1:7012/mcp"
    headers = {
      Authorization = "Bearer ${secret("remote.Authorization")}"
    }
    transport = "http"
  }
}
