#!/bin/sh
exec "$(dirname "$0")/serve.sh"
