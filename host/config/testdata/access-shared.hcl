# One provider in two projects, and room for names in one of them.
principal "laptop" {
  token_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}

principal "idle" {
  token_sha256 = "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}

provider "browser" {
  plugin = "stdio"
  config {
    command = "a"
  }
}

provider "garden-shed" {
  plugin = "stdio"
  config {
    command = "a"
  }
}

project "site" {
  name_max = 16
  grant {
    principals = ["laptop"]
    provider   = "browser"
    tools      = ["*"]
  }
  grant {
    principals = ["laptop"]
    provider   = "garden-shed"
    tools      = ["*"]
  }
}

project "shop" {
  grant {
    principals = ["laptop"]
    provider   = "browser"
    tools      = ["*"]
  }
}
