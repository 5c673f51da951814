provider "a" {
  plugin = "stdio"
  config {
    command = "a%{ s3cret }b"
  }
}
