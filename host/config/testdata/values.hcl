host {
  surface      = direct
  list_wait    = 5
  write_timeout = "30"
  stop_budget  = "1 hour"
  session_idle = "-5m"
  max_request  = "16M"
  page_size    = "10"
  name_max     = 4.5
  state_dir    = null
  watch        = "false"
  http {
    listen          = "7420"
    allowed_hosts   = ["*.example.com", "good.example.com", "http://bad"]
    allowed_origins = ["*", "https://app.example.com/path"]
  }
}

provider "a" {
  plugin = "stdio"
  tools  = ["ok_*", "b?", 3]
  except = "pay"
  limits {
    call_timeout  = "20m"
    inline_result = "128MiB"
    max_queue     = -1
    start_timeout = "1ms"
  }
  restart {
    backoff     = "2m"
    backoff_max = "1m"
  }
}
