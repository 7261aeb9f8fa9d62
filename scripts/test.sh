#!/usr/bin/env bash
# Runs format, prose, clang-tidy, C++ tests (ctest) and Python tests (pytest). Every part runs even if an earlier one failed.
# The end lists the ten slowest tests and counts all in one line.
set -uo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
# Waiting threads sleep, since spinning ones would take the time of a busy machine.
export OMP_WAIT_POLICY=passive
# The tensors of a small model stay in the heap: giving each back to the system costs more than computing it. Python's
# tests set this for the programs that they start (tests/conftest.py).
export MALLOC_MMAP_THRESHOLD_=$((1 << 30)) MALLOC_TRIM_THRESHOLD_=$((1 << 31))
results=$PWD/build/release/results
rm -rf "$results"
mkdir -p "$results"

checks=()
check() {
  local name=$1
  shift
  echo "== $name"
  if "$@"; then checks+=("$name=passed"); else checks+=("$name=failed"); fi
}

check format scripts/format.sh --check
check prose python scripts/prose.py
check tidy scripts/tidy.sh

echo "== C++ tests"
# GoogleTest's reports name the tests of a program, and ctest's report names programs that crashed.
ctest --test-dir build/release --parallel "$(nproc)" --output-on-failure \
  --output-junit "$results/ctest.xml" </dev/null

echo "== Python tests"
RTFX_BIN=${RTFX_BIN:-$PWD/build/release/rtfx} python -m pytest -n "$(nproc)" --dist loadfile \
  --no-loadscope-reorder --junit-xml="$results/pytest.xml" </dev/null

python scripts/count_tests.py "$results" "${checks[@]}"
