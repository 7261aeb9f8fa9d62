#!/usr/bin/env bash
# The quick part of the tests: format, structure, links, and the C++ tests but for mutations and the
# GPU. Builds what they need first; two minutes on two cores, most of them the beam searches.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
export OMP_WAIT_POLICY=passive OMP_NUM_THREADS=1 ONEDNN_MAX_CPU_ISA=AVX512_CORE

programs=(base datasets models harness algorithms)
scripts/build.sh --target "${programs[@]/#/rtfx_test_}"
scripts/format.sh --check
python -m pytest -q tests/e2e/test_structure.py tests/e2e/test_docs.py -k "not commands" </dev/null

# Each program in as many parts as there are processors, side by side.
parts=$(nproc)
run() {
  local log
  log=$(mktemp)
  if ! GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$2 "build/release/tests/rtfx_test_$1" >"$log" 2>&1; then
    cat "$log"
    echo "check: rtfx_test_$1 failed"
    return 1
  fi
  rm -f "$log"
}
for program in "${programs[@]}"; do
  jobs=()
  for ((part = 0; part < parts; ++part)); do
    run "$program" "$part" &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job"; done
done
echo "check: passed"
