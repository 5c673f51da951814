# All of this is accepted, and named as not yet in force.
host {
  watch      = true
  plugin_dir = "plugins"
  journal {
    keep     = "90d"
    max_size = "1GiB"
  }
  artifacts {
    quota = "2GiB"
  }
  http {
    public_url = "https://bridge.example.com"
  }
}

provider "a" {
  plugin           = "stdio"
  overlap          = true
  session {
    idle_stop     = "10m"
    max_instances = 2
  }
  limits {
    drain_timeout   = "1m"
    health_interval = "1m"
    max_concurrent  = 4
    max_queue       = 4
    inline_result   = "1MiB"
    stop_grace      = "20s"
  }
  config {
    command = "a"
  }
}

principal "laptop" {
  token_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
}

project "site" {
  grant {
    principals      = ["laptop"]
    provider        = "a"
    tools           = ["*"]
    resources       = ["file:///*"]
    prompts         = ["p"]
    methods         = ["vendor/*"]
    server_requests = ["sampling"]
  }
  grant {
    principals      = ["laptop"]
    provider        = "a"
    tools           = ["x"]
    methods         = []
    server_requests = []
  }
}
