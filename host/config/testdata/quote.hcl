provider "a" {
  plugin = "stdio"
  config {
    command = "npx
    token   = "s3cret"
  }
}

provider "b" {
  plugin = "stdio"
}
