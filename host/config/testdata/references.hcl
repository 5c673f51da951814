plugin "acme" {
  path   = "bin/acme"
  sha256 = "9f2c"
}

plugin "acme" {
  path   = "bin/acme"
  sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}

plugin "stdio" {
  path   = "bin/stdio"
  sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}

plugin "Bad Name" {
  path = "bin/x"
}

plugin "script" {
  command = "python3"
  args    = ["x.py"]
  files   = ["x.py"]
}

plugin "empty" {
}

provider "acme one" {
  plugin = "acme"
}

provider "Acme-One!" {
  plugin = "acmee"
}

provider "---" {
  plugin = "http"
}

provider "a label that is longer than thirty-two characters" {
  plugin = "nothing-like-it"
}

provider "a-label-of-thirty-two-characters" {
  plugin = "stdio"
  config {
    command = "x"
  }
}

host {
  name_max = 32
}
