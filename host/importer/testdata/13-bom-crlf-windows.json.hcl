# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.files in 13-bom-crlf-windows.json (generic).
provider "files" {
  plugin = "stdio"

  config {
    command = "cmd"
    args = [
      "/c",
      "npx",
      "-y",
      "files-mcp@latest",
      "C:\\Users\\Ana\\My Files",
    ]
  }
}

# From mcpServers.exe in 13-bom-crlf-windows.json (generic).
provider "exe" {
  plugin = "stdio"

  config {
    command = "C:\\Program Files\\nodejs\\node.exe"
    args = [
      "D:\\srv\\s.js",
    ]
    env = {
      APPDATA_DIR = "%APPDATA%\\x"
      PYTHONPATH  = "C:\\a;C:\\b"
    }
  }
}

# From mcpServers.ümlaut in 13-bom-crlf-windows.json (generic).
provider "umlaut" {
  plugin      = "stdio"
  description = "ümlaut"

  config {
    command = "uvx"
    args = [
      "t-mcp",
      "--name",
      "Zoë",
    ]
  }
}
