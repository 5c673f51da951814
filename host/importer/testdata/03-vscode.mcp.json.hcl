# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From servers.docs in 03-vscode.mcp.json (vscode).
# Before it can start: drawbridge secret set docs-key
provider "docs" {
  plugin = "http"

  config {
    url = "http://127.0.0.1:7001/mcp"
    headers = {
      "X-Key"    = secret("docs-key")
      "X-Region" = "eu"
    }
    transport = "http"
  }
}

# From servers.runner in 03-vscode.mcp.json (vscode).
# Before it can start: drawbridge secret set dyn
# Before it can start: drawbridge secret set docs-key
provider "runner" {
  plugin = "stdio"

  config {
    command = "${path.home}/bin/runner"
    args = [
      "--root",
      env("WORKSPACE_FOLDER"),
      "--token",
      secret("dyn"),
      "--key=${secret("docs-key")}",
    ]
    env = {
      A    = env("RUN_A")
      PORT = "8080"
    }
    unset_env = ["UNSET_ME"]
    env_file  = "${env("WORKSPACE_FOLDER")}/.env"
    cwd       = "${env("WORKSPACE_FOLDER")}/sub"
  }
}

# From servers.noType in 03-vscode.mcp.json (vscode).
provider "notype" {
  plugin      = "http"
  description = "noType"

  config {
    url       = "http://127.0.0.1:7002/mcp"
    transport = "auto"
  }
}

# From servers.badRef in 03-vscode.mcp.json (vscode).
# Off: servers.badRef.args[0]: the input `nope`, which is not declared, cannot be imported.
# Off: servers.badRef.args[1]: ${config:…} cannot be imported.
provider "badref" {
  plugin      = "stdio"
  description = "badRef"
  enabled     = false

  config {
    command = "tool"
    args = [
      "$${input:nope}",
      "$${config:editor.x}",
    ]
  }
}
