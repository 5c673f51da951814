# A principal, and no project.
principal "laptop" {
  token_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}

host {
  http {
    listen = "0.0.0.0:7420"
  }
}
