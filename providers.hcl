# What `make run` serves. Relative paths are relative to this file.

host {
  http {
    listen = "127.0.0.1:7420"
  }
}

# A small server of ours that remembers notes while it lives; `make build` puts it into bin.
provider "notebook" {
  plugin      = "stdio"
  description = "Notes and a counter that last as long as the server's process"

  config {
    command = "./bin/notebook"
  }
}

# The providers below need Node 20 and, for the browser, Debian's chromium. Remove the # in front of one to have it.

# provider "files" {
#   plugin = "stdio"
#   config {
#     command = "npx"
#     args    = ["-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "${path.config}/docs"]
#   }
# }

# provider "memory" {
#   plugin = "stdio"
#   config {
#     command = "npx"
#     args    = ["-y", "@modelcontextprotocol/server-memory@2026.8.31"]
#     env     = { MEMORY_FILE_PATH = "${path.home}/.local/share/drawbridge-memory.jsonl" }
#   }
# }

# provider "browser" {
#   plugin = "stdio"
#   config {
#     command = "npx"
#     args    = ["-y", "@playwright/mcp@0.0.83", "--headless", "--isolated", "--executable-path", "/usr/bin/chromium"]
#   }
#   limits {
#     start_timeout = "2m" # npx downloads it the first time
#   }
# }
