#!/usr/bin/env bash
# Writes docs/reference/*.md and docs/journal.schema.json from the program's own tables. RTFX_BIN names the program.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${RTFX_BIN:-build/release/rtfx}
mkdir -p docs/reference
for page in configuration decoders metrics command_line journal; do
  "$program" reference $page >docs/reference/$page.md
done
"$program" reference journal_schema >docs/journal.schema.json
