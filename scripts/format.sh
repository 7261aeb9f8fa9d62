#!/usr/bin/env bash
# Lays out all C++ sources with the pinned clang-format; `format.sh --check` only looks.
set -euo pipefail
cd "$(dirname "$0")/.."

action=(-i)
[[ ${1:-} == --check ]] && action=(--dry-run -Werror)
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh' |
  xargs -0 .venv/bin/clang-format --style=file "${action[@]}"
