#!/usr/bin/env bash
# Writes the reference pages docs/reference/*.md from the program's own tables. RTFX_BIN names the program.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${RTFX_BIN:-build/release/rtfx}
mkdir -p docs/reference
for page in configuration decoders metrics command_line; do
  "$program" reference $page >docs/reference/$page.md
done
