#!/usr/bin/env bash
# Builds the fuzz targets (tests/fuzz) with clang and runs each for SECONDS (60), beginning with the files in tests/data.
# An input that breaks a target is kept in build/fuzz/found/<target>/. `build/fuzz/tests/fuzz/<target>_fuzz FILE` repeats it.
# fuzz.sh [SECONDS [TARGET...]]
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
seconds=${1:-60}
shift $(($# > 0))

[[ -e build/fuzz/build.ninja ]] || cmake --preset fuzz -DCMAKE_MAKE_PROGRAM="$PWD/.venv/bin/ninja"
cmake --build build/fuzz --parallel "$(nproc)" --target rtfx_fuzz
python tests/fuzz/seeds.py build/fuzz/seeds
targets=("$@")
((${#targets[@]})) || targets=($(ls build/fuzz/seeds))
# The libraries are compiled without this check, so containers that are passed to them would look like overflows.
export ASAN_OPTIONS=detect_container_overflow=0:detect_leaks=0:allocator_may_return_null=1
export OMP_NUM_THREADS=1
failed=()
for target in "${targets[@]}"; do
  echo "== $target"
  mkdir -p "build/fuzz/corpus/$target" "build/fuzz/found/$target"
  "build/fuzz/tests/fuzz/${target}_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=3000 -max_len=65536 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/found/$target/" "build/fuzz/corpus/$target" \
    "build/fuzz/seeds/$target" >"build/fuzz/$target.log" 2>&1 || failed+=("$target")
  grep -E '^(stat::number_of_executed|stat::peak|SUMMARY|==.*ERROR)' "build/fuzz/$target.log" || true
done
((${#failed[@]} == 0)) || {
  echo "failed: ${failed[*]} (build/fuzz/*.log)" >&2
  exit 1
}
