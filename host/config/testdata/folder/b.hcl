host {
}

provider "One" {
  plugin = "stdio"
}
