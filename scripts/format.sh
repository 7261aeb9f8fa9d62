#!/usr/bin/env bash
# Formats all C++ sources with the pinned clang-format. `format.sh --check` changes nothing, and fails where a source differs.
set -euo pipefail
cd "$(dirname "$0")/.."

action=(-i)
[[ ${1:-} == --check ]] && action=(--dry-run -Werror)
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh' |
  xargs -0 .venv/bin/clang-format --style=file "${action[@]}"
