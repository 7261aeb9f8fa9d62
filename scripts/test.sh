#!/usr/bin/env bash
# Format, clang-tidy, C++ tests (ctest) and Python tests (pytest); ends with the ten slowest tests and one line that
# counts all.
# Every part runs even where an earlier one failed.
set -uo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
# Threads that wait sleep: a busy machine would otherwise spend its time on their spinning.
export OMP_WAIT_POLICY=passive
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
check tidy scripts/tidy.sh

echo "== C++ tests"
# GoogleTest's own reports tell the tests of a program apart; ctest's tells of programs that crashed.
ctest --test-dir build/release --parallel "$(nproc)" --output-on-failure \
  --output-junit "$results/ctest.xml" </dev/null

echo "== Python tests"
RTFX_BIN=${RTFX_BIN:-$PWD/build/release/rtfx} python -m pytest -n "$(nproc)" --dist loadfile \
  --no-loadscope-reorder --junit-xml="$results/pytest.xml" </dev/null

python scripts/count_tests.py "$results" "${checks[@]}"
