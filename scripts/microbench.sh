#!/usr/bin/env bash
# Builds the micro-benchmarks and runs them; docs/background/microbenchmarks.md says what they measure.
#   scripts/microbench.sh CHECKPOINT JSON [Google Benchmark's own options]
# CHECKPOINT is a .nemo file to load. A missing one is made (torch in .venv, 5 GB of disk), and an empty argument loads
# none. JSON is a folder for <program>.json, or empty. The benchmarks of the encoder and of blocks need a GPU, that of
# feed-forward products one of compute capability 9.0.
set -euo pipefail
cd "$(dirname "$0")/.."
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
checkpoint=$1 json=$2
shift 2

programs=(rtfx_microbench)
if [[ -n $checkpoint ]]; then
  [[ -e $checkpoint ]] || .venv/bin/python benchmarks/make_checkpoint.py "$checkpoint"
  programs+=(rtfx_bench_checkpoint_load)
fi
if nvidia-smi >/dev/null 2>&1; then programs+=(rtfx_bench_encoder rtfx_bench_block); fi
if [[ $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null) == 9.0* ]]; then
  programs+=(rtfx_bench_feed_forward)
fi
scripts/build.sh --target "${programs[@]}"
[[ -z $json ]] || mkdir -p "$json"

for program in "${programs[@]}"; do
  options=(--benchmark_min_time=0.1 "$@")
  [[ $program != *checkpoint_load ]] || options+=("--checkpoint=$checkpoint")
  [[ -z $json ]] || options+=("--benchmark_out=$json/$program.json")
  "build/release/benchmarks/$program" "${options[@]}"
done
