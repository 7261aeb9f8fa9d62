#!/usr/bin/env bash
# Builds the micro-benchmarks and runs them on a checkpoint, which is made where it is not there.
# Needs torch in .venv for that, and 5 GB of disk.
set -euo pipefail
cd "$(dirname "$0")/.."
checkpoint=$1
[[ -e $checkpoint ]] || .venv/bin/python benchmarks/make_checkpoint.py "$checkpoint"
[[ -e build/release/build.ninja ]] || scripts/build.sh --target rtfx_base
.venv/bin/cmake -DRTFX_BENCHMARKS=ON build/release >/dev/null
scripts/build.sh --target rtfx_bench_checkpoint_load
build/release/benchmarks/rtfx_bench_checkpoint_load --checkpoint="$checkpoint"
