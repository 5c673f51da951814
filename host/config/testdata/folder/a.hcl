host {
  watch = maybe
}

provider "one" {
  plugin = "acme"
}
