surface = "direct"

host "main" {
}

host {
  http = {}
  stop_budget {
  }
  list_wiat = "2s"
  call_timeout = "5s"
}

host {
  surface = "direct"
}

provider {
  plugin = "stdio"
}

provider "one" "two" {
  plugin = "stdio"
}

provider "no plugin" {
}

provider "misplaced" {
  plugin       = "stdio"
  command      = "s3cret-command"
  call_timeout = "5s" # s3cret
  confg {
    token = "s3cret-token"
  }
  limits {
    call_timeout = "5s"
    call_timeout = "6s"
  }
  limits {
  }
}

proivder "typo" {
  plugin = "s3cret"
}
