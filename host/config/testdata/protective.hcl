# What protects is refused until it is in force, and never falls back.
host {
  locked = "flase"
  containment {
    require = "pidns"
  }
  journal {
    sync = "full"
  }
  surface = "search"
  http {
    listen = "0.0.0.0:7420"
    tls {
      cert = "cert.pem"
      key  = "key.pem"
    }
  }
}

provider "a" {
  plugin     = "stdio"
  recheck    = "befor_call"
  discovery  = "required"
  alow_tools = []
  session {
    scope    = "call"
    stateful = true
  }
  config {
    command = "a"
  }
}

provider "b" {
  plugin  = "stdio"
  recheck = "before_call"
  session {
    scope    = "client"
    stateful = "yes"
  }
  config {
    command = "b"
  }
}

principal "laptop" {
  token_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}

project "site" {
  grant {
    principals = ["laptop"]
    provider   = "a"
    tool       = ["*"]
  }
}
