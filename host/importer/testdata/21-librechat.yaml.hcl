# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.everything in 21-librechat.yaml (librechat).
provider "everything" {
  plugin = "http"

  config {
    url       = "http://localhost:7027/sse"
    transport = "auto"
  }
}

# From mcpServers.sheets in 21-librechat.yaml (librechat).
# Off: mcpServers.sheets.headers.X-User-ID: a value per end user, which one shared provider does not have, cannot be imported.
provider "sheets" {
  plugin  = "http"
  enabled = false

  config {
    url = "http://127.0.0.1:7028/sse"
    headers = {
      "X-User-ID" = "{{LIBRECHAT_USER_ID}}"
      "X-API-Key" = env("SOME_API_KEY")
    }
    transport = "sse"
  }
}

# From mcpServers.files in 21-librechat.yaml (librechat).
provider "files" {
  plugin = "stdio"

  config {
    command = "npx"
    args = [
      "-y",
      "@modelcontextprotocol/server-filesystem",
      "/home/user/LibreChat/",
    ]
  }

  limits {
    start_timeout = "10s"
    call_timeout  = "30s"
  }
}

# From mcpServers.per-user in 21-librechat.yaml (librechat).
# Off: mcpServers.per-user.headers.X-Auth-Token: a value per end user, which one shared provider does not have, cannot be imported.
provider "per-user" {
  plugin  = "http"
  enabled = false

  config {
    url = "http://127.0.0.1:7029/api/"
    headers = {
      "X-Auth-Token" = "{{MY_KEY}}"
    }
    transport = "http"
  }
}
