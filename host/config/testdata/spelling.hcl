provider "a" {
  plugin = "stdio"
  config {
    command = "/opt/café/run"
    args    = ["--dir", "café", "\u212B", "café"]
    env     = { "NOM" = "é" }
    token   = "secrét"
    cwd     = <<-EOT
      café
      EOT
  }
}
