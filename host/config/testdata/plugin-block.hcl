# A script: nothing is wrong with it, and what is not covered is told.
plugin "good" {
  command = "sh"
  args    = ["wrap.sh", "--quiet"]
  files   = ["wrap.sh", "serve.sh"]
  sha256  = "6521693607be31684d55c5505a5fbf16e6f5d08883046a4488b96fcee5440807"
  version = "1.2.0"
}

# One that is its own command.
plugin "own" {
  command = "wrap.sh"
  files   = ["wrap.sh"]
}

plugin "placeholder" {
  command = "sh"
  args    = ["wrap.sh"]
  files   = ["wrap.sh", "serve.sh"]
  sha256  = "…"
}

plugin "program" {
  path   = "wrap.sh"
  sha256 = "TODO"
}

plugin "folder" {
  path   = "folder"
  sha256 = ""
}

plugin "uncovered" {
  command = "python3"
  args    = ["wrap.sh"]
  sha256  = "6521693607be31684d55c5505a5fbf16e6f5d08883046a4488b96fcee5440807"
}

plugin "nothing" {
  command = "python3"
  files   = []
  sha256  = "6521693607be31684d55c5505a5fbf16e6f5d08883046a4488b96fcee5440807"
}

plugin "both" {
  path    = "wrap.sh"
  command = "sh"
  files   = ["wrap.sh"]
  sha256  = "6521693607be31684d55c5505a5fbf16e6f5d08883046a4488b96fcee5440807"
}

plugin "arguments" {
  path   = "wrap.sh"
  args   = ["--quiet"]
  sha256 = "6521693607be31684d55c5505a5fbf16e6f5d08883046a4488b96fcee5440807"
}

plugin "names" {
  command = "~other/sh"
  files   = ["~other/x", "wrap.sh"]
  sha256  = "6521693607be31684d55c5505a5fbf16e6f5d08883046a4488b96fcee5440807"
}

provider "p" {
  plugin = "good"
  config {
    command = "x"
  }
}
