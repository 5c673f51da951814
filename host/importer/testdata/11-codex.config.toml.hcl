# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcp_servers.files in 11-codex.config.toml (codex).
provider "files" {
  plugin = "stdio"
  tools  = ["read", "list"]
  except = ["list"]

  config {
    command = "npx"
    args = [
      "-y",
      "files-mcp@latest",
      "/srv/my files",
    ]
    env = {
      LOG_LEVEL = "debug"
    }
    cwd = "/srv"
  }

  limits {
    start_timeout = "20s"
    call_timeout  = "90.5s"
  }
}

# From mcp_servers["team.docs"] in 11-codex.config.toml (codex).
provider "team-docs" {
  plugin      = "http"
  description = "team.docs"

  config {
    url = "http://127.0.0.1:7013/mcp"
    headers = {
      Authorization = "Bearer ${env("DOCS_TOKEN")}"
      "X-Region"    = "eu"
      "X-Trace"     = env("TRACE_ID")
    }
    transport = "http"
  }
}

# From mcp_servers.off in 11-codex.config.toml (codex).
# Off: mcp_servers.off.enabled = false.
provider "off" {
  plugin  = "stdio"
  enabled = false

  config {
    command = "/opt/app/start"
  }
}

# From mcp_servers.sub in 11-codex.config.toml (codex).
provider "sub" {
  plugin = "stdio"

  config {
    command = "uvx"
    args = [
      "--from",
      "git+https://git.example.test/owner/repo",
      "entry",
    ]
    env = {
      MODE    = "ro"
      LANG    = env("LANG")
      SUB_KEY = env("SUB_KEY")
    }
  }
}
