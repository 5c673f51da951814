# Mistakes in what principals, projects and grants say of each other.
principal "laptop" {
  token_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  expires      = "2027-01-31"
}

principal "desktop" {
  token_sha256 = "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"
}

principal "local" {
  token_sha256 = "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}

principal "Bad Name" {
  token_sha256 = "2123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}

principal "laptop" {
  token_sha256 = "3123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}

principal "nobody" {
}

principal "empty" {
  token_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
}

principal "both" {
  token_sha256 = "4123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  expires      = "2027-01-31T00:00:00Z"
  oidc {
    issuer   = "https://id.example.com"
    audience = "drawbridge"
    value    = "someone"
  }
}

principal "again" {
  oidc {
    issuer   = "https://id.example.com"
    audience = "drawbridge"
    value    = "someone"
  }
}

provider "Web Browser" {
  plugin = "stdio"
  config {
    command = "a"
  }
}

provider "notes" {
  plugin = "stdio"
  session {
    scope = "shared"
  }
  config {
    command = "a"
  }
}

project "site" {
  surface = "search"
  grant {
    principals = ["laptop", "desktop"]
    provider   = "Web Browser"
    tools      = ["*"]
    rate       = "60/1m"
  }
  grant {
    principals = ["laptop", "desktpo", "cellar"]
    provider   = "note"
    tools      = ["read", "list?"]
  }
  grant {
    principals = []
    provider   = "notes"
  }
  grant {
    principals      = ["local"]
    provider        = "garden"
    tools           = ["*"]
    server_requests = ["root"]
  }
  grant {
    provider = ""
  }
}

project "Bad/Name" {
}

project "site" {
}
