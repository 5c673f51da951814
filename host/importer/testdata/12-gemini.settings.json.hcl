# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.files in 12-gemini.settings.json (gemini).
provider "files" {
  plugin = "stdio"
  tools  = ["read", "write"]
  except = ["write"]

  config {
    command = "npx"
    args = [
      "-y",
      "files-mcp",
    ]
    env = {
      TOKEN = env("FILES_TOKEN")
      OTHER = env("OTHER", "x")
      WIN   = env("USERNAME")
      BAD   = "$${env:NOT_SUPPORTED}"
      TILDE = "~/x"
      BRACE = "{{NAME}}"
    }
    cwd = "${env("WORKSPACE_FOLDER")}/sub"
  }

  limits {
    call_timeout = "60s"
  }
}

# From mcpServers.stream in 12-gemini.settings.json (gemini).
provider "stream" {
  plugin = "http"

  config {
    url = "http://127.0.0.1:7014/mcp"
    headers = {
      Authorization = "Bearer ${env("STREAM_TOKEN")}"
    }
    transport = "http"
  }

  limits {
    call_timeout = "5s"
  }
}

# From mcpServers.legacy in 12-gemini.settings.json (gemini).
# Off: mcp.excluded names it.
# Off: mcp.allowed does not name it.
provider "legacy" {
  plugin  = "http"
  enabled = false

  config {
    url       = "http://127.0.0.1:7015/sse"
    transport = "sse"
  }
}

# From mcpServers.typed in 12-gemini.settings.json (gemini).
provider "typed" {
  plugin = "http"

  config {
    url       = "http://127.0.0.1:7016/mcp"
    transport = "http"
  }
}

# From mcpServers.both-urls in 12-gemini.settings.json (gemini).
provider "both-urls" {
  plugin = "http"

  config {
    url       = "http://127.0.0.1:7017/mcp"
    transport = "http"
  }
}

# From mcpServers.not-listed in 12-gemini.settings.json (gemini).
# Off: mcp.allowed does not name it.
provider "not-listed" {
  plugin  = "stdio"
  enabled = false

  config {
    command = "nl-mcp"
  }
}
