#!/usr/bin/env bash
# Runs a configuration (default: the quickstart) and writes the HTML report beside its journal.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
# Waiting threads sleep, since spinning ones would take the time of a busy machine.
export OMP_WAIT_POLICY=passive
config=${1:-configs/quickstart.json}
folder=runs/$(basename "$config" .json)

status=0
build/release/rtfx run "$config" --force --output "$folder" || status=$?
# The report also shows failed cases and grades that are too low, so it is written whenever there is a journal.
if [[ -e $folder/journal.jsonl ]]; then
  build/release/rtfx report "$folder" >/dev/null  # the table stands above
  printf '\njournal: %s\nreport:  %s\n' "$folder/journal.jsonl" "$folder/report.html"
fi
exit $status
