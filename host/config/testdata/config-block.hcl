provider "types" {
  plugin = "stdio"
  config {
    command = ["npx"]      # a comment with s3cret
    args    = "s3cret-args"
    env     = { "TOKEN" = ["s3cret"] }
    colour  = "s3cret-colour"
    argz    = []
  }
}

provider "unquoted" {
  plugin = "stdio"
  config {
    command = s3cret
    args    = [path.s3cret, path[env("DRAWBRIDGE_TEST_SECRET")], 1 + "s3cret",  nope("s3cret"), { a = "s3cret" }["b"]]
    env     = { A = "s3cret", A = "s3cret" }
  }
}

provider "missing" {
  plugin = "stdio"
  description = env("DRAWBRIDGE_TEST_UNSET_DESCRIPTION")
  config {
    command = env("DRAWBRIDGE_TEST_UNSET")
    args = [
      "-y",
      file("no/such/file"),
    ]
    cwd = secret("s")
  }
}

provider "nested" {
  plugin = "stdio"
  config {
    command = null
    proxy {
      port = "s3cret"
    }
    proxy {
      host = "b"
    }
    rule {
      pth = "s3cret"
    }
    ruel {
    }
    args = "x" ? [] : 3
    args {
    }
    rule = []
  }
}

provider "absent" {
  plugin = "stdio"
}

provider "loops" {
  plugin = "stdio"
  config {
    command = "x"
    args    = [for a in ["s3cret"] : a]
    env     = { N = 1e999999999 }
  }
}

provider "fine" {
  plugin = "stdio"
  config {
    command = "x"
  }
}
