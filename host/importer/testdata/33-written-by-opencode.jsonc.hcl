# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcp.web in 33-written-by-opencode.jsonc (opencode).
provider "web" {
  plugin = "http"

  config {
    url = "http://127.0.0.1:9/mcp"
    headers = {
      Authorization = "Bearer ${env("WEB_TOKEN")}"
    }
    transport = "auto"
  }
}

# From mcp.files in 33-written-by-opencode.jsonc (opencode).
provider "files" {
  plugin = "stdio"

  config {
    command = "npx"
    args = [
      "-y",
      "files-mcp",
    ]
    env = {
      API_KEY = secret("files.API_KEY")
    }
  }
}
