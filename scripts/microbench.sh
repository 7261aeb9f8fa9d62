#!/usr/bin/env bash
# Builds the micro-benchmarks and runs them. docs/background/microbenchmarks.md says what they measure.
#   scripts/microbench.sh CHECKPOINT JSON [Google Benchmark's own options]
# CHECKPOINT is a .nemo file to load. A missing one is made (torch in .venv, 5 GB of disk), and an empty argument loads
# none. JSON is a folder for <program>.json, or empty. The benchmarks of the encoder and of blocks need a GPU. The benchmark of
# feed-forward products needs a GPU of compute capability 9.0.
#   PROGRAMS="rtfx_microbench"   # only these
#   RTFX_MICROBENCH=FILE         # runs this rtfx_microbench and the programs beside it, and builds nothing
set -euo pipefail
checkpoint=${1:+$(realpath -m "$1")} json=${2:+$(realpath -m "$2")}
shift 2
cd "$(dirname "$0")/.."
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}

gpu=$({ nvidia-smi --query-gpu=name,compute_cap --format=csv,noheader || true; } 2>/dev/null | head -1)
read -ra programs <<<"${PROGRAMS:-}"
if ((!${#programs[@]})); then
  programs=(rtfx_microbench)
  if [[ -n $checkpoint ]]; then
    [[ -e $checkpoint ]] || .venv/bin/python benchmarks/make_checkpoint.py "$checkpoint"
    programs+=(rtfx_bench_checkpoint_load)
  fi
  [[ -z $gpu ]] || programs+=(rtfx_bench_encoder)
  [[ $gpu != *", 9.0" ]] || programs+=(rtfx_bench_feed_forward)
  [[ -z $gpu ]] || programs+=(rtfx_bench_block) # takes longest
fi
folder=$(dirname "${RTFX_MICROBENCH:-build/release/benchmarks/rtfx_microbench}")
[[ -n ${RTFX_MICROBENCH:-} ]] || scripts/build.sh --target "${programs[@]}"
[[ -z $json ]] || mkdir -p "$json"

# Google Benchmark records neither the GPU nor the revision.
name=${gpu%,*}
revision=$("${RTFX_BIN:-build/release/rtfx}" --version 2>/dev/null | grep -oE '[0-9a-f]{12}' || git rev-parse --short=12 HEAD)
for program in "${programs[@]}"; do
  options=(--benchmark_min_time=0.1 "--benchmark_context=gpu=${name:-none},rtfx=$revision" "$@")
  [[ $program != *checkpoint_load ]] || options+=("--checkpoint=$checkpoint")
  [[ -z $json ]] || options+=("--benchmark_out=$json/$program.json")
  (cd "$folder" && "./$program" "${options[@]}") # a relative path, so that the file does not hold that of the program
done
