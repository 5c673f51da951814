# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.web in 06-commented.mcp.json (generic).
provider "web" {
  plugin = "stdio"

  config {
    command = "npx"
    args = [
      "@playwright/mcp@latest",
      "--cdp-endpoint",
      "http://127.0.0.1:9222",
      "--caps=vision",
    ]
  }
}

# From mcpServers.tricky in 06-commented.mcp.json (generic).
provider "tricky" {
  plugin = "stdio"

  config {
    command = "echo"
    args = [
      "// not a comment",
      "/* neither */",
      "a,]",
      "\"q\" // x",
      "\\",
    ]
  }
}
