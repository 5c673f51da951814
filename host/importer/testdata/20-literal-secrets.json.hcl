# The servers of this machine. `drawbridge validate` checks this file, `drawbridge plan` says what it comes to.

# From mcpServers.a in 20-literal-secrets.json (generic).
# Before it can start: drawbridge secret set a.API_KEY
provider "a" {
  plugin = "stdio"

  config {
    command = "npx"
    args = [
      "-y",
      "a-mcp",
      "--api-key",
      secret("a.api-key"),
      "--token=${secret("a.token")}",
      "--verbose",
    ]
    env = {
      GITHUB_TOKEN = secret("a.GITHUB_TOKEN")
      MODE         = "ro"
      PASSWORD     = secret("a.PASSWORD")
      API_KEY      = secret("a.API_KEY")
    }
  }
}

# From mcpServers.b in 20-literal-secrets.json (generic).
provider "b" {
  plugin = "http"

  config {
    url = "http://user:${secret("b.url-password")}@127.0.0.1:7026/mcp"
    headers = {
      Authorization = "Bearer ${secret("b.Authorization")}"
      "X-Api-Key"   = secret("b.X-Api-Key")
      Cookie        = secret("b.Cookie")
      "X-Env"       = "prod"
    }
    transport = "http"
  }
}

# From mcpServers.c in 20-literal-secrets.json (generic).
provider "c" {
  plugin = "stdio"

  config {
    command = "docker"
    args = [
      "run",
      "-i",
      "--rm",
      "-e",
      "SLACK_TOKEN=${secret("c.SLACK_TOKEN")}",
      "img",
    ]
  }
}

# From mcpServers.d in 20-literal-secrets.json (generic).
provider "d" {
  plugin = "stdio"

  config {
    command = "psql-mcp"
    args = [
      "postgresql://app:${secret("d.password")}@127.0.0.1/db",
    ]
  }
}
