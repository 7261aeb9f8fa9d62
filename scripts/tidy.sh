#!/usr/bin/env bash
# clang-tidy, by building in build/tidy with it, so that only what changed is looked at again.
# `tidy.sh all` takes every source; without it the folders that need no LibTorch, which are quick.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
folder=build/tidy

targets=(rtfx_base rtfx_datasets)
[[ ${1:-} == all ]] && targets=(all)
# The objects of this build are thrown away, so they are compiled without optimisation.
options=(-DRTFX_TIDY=ON -DCLANG_TIDY="$PWD/.venv/bin/clang-tidy" -DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG)
[[ -n ${LIBTORCH:-} ]] && options+=(-DRTFX_LIBTORCH="$(realpath "$LIBTORCH")")

[[ -e $folder/build.ninja ]] || cmake --preset release -B $folder "${options[@]}" >/dev/null
cmake --build $folder --parallel "$(nproc)" --target "${targets[@]}"
