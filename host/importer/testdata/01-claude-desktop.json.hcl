# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.filesystem in 01-claude-desktop.json (claude-desktop).
provider "filesystem" {
  plugin = "stdio"

  config {
    command = "npx"
    args = [
      "-y",
      "@modelcontextprotocol/server-filesystem@latest",
      "/home/ana/My Documents",
      "/srv/data",
    ]
  }
}

# From mcpServers.git in 01-claude-desktop.json (claude-desktop).
provider "git" {
  plugin = "stdio"

  config {
    command = "uvx"
    args = [
      "mcp-server-git",
      "--repository",
      "/home/ana/src/app",
    ]
  }
}

# From mcpServers.tracker in 01-claude-desktop.json (claude-desktop).
# Before it can start: drawbridge secret set tracker.TRACKER_TOKEN
provider "tracker" {
  plugin = "stdio"

  config {
    command = "docker"
    args = [
      "run",
      "-i",
      "--rm",
      "-e",
      "TRACKER_TOKEN",
      "-e",
      "TRACKER_URL=https://tracker.example.test",
      "--mount",
      "type=bind,src=/srv/data,dst=/data",
      "ghcr.io/example/tracker-mcp:1.4",
    ]
    env = {
      TRACKER_TOKEN = secret("tracker.TRACKER_TOKEN")
    }
  }
}

# From mcpServers.local-bin in 01-claude-desktop.json (claude-desktop).
provider "local-bin" {
  plugin = "stdio"

  config {
    command = "/opt/tools/mcp bin/server"
  }
}
