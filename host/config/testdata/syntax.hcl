host {
  page_size = = 3
  surface "direct"
}

provider "a" {
  plugin = "stdio"
  config {
    args = ["s3cret" "s3cret"]
    token = s3cret s3cret
    # s3cret
    other = "s3cret"
  }
  unknown = 1
}

provider "b" {
  plugin = "nothing"

host {
  http {
    listen = ["s3cret"
  }
}
