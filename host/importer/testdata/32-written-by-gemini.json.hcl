# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.files in 32-written-by-gemini.json (gemini).
provider "files" {
  plugin      = "stdio"
  description = "My files"
  tools       = ["read", "list", "rm"]
  except      = ["rm"]

  config {
    command = "npx"
    args = [
      "-y",
      "files-mcp@1",
    ]
    env = {
      TOKEN = env("FILES_TOKEN")
    }
  }

  limits {
    call_timeout = "5s"
  }
}

# From mcpServers.feed in 32-written-by-gemini.json (gemini).
provider "feed" {
  plugin = "http"

  config {
    url = "http://127.0.0.1:9/sse"
    headers = {
      "X-Api-Key" = secret("feed.X-Api-Key")
    }
    transport = "sse"
  }
}

# From mcpServers.web in 32-written-by-gemini.json (gemini).
provider "web" {
  plugin = "http"

  config {
    url       = "http://127.0.0.1:9/mcp"
    transport = "http"
  }
}
